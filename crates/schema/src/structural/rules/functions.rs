//! The functions that expressions may call: names, argument types and result types.
//!
//! The table is text, one overload to a line, parsed when the first expression is checked. An upper-case letter
//! stands for any type, the same one everywhere in the line. A dot before the bracket makes a member function.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::kind::{Kind, Opaque};

/// One way to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) id: &'static str,
    pub(super) member: bool,
    pub(super) args: Vec<Kind>,
    pub(super) result: Kind,
    /// How many type parameters there are; they are numbered from zero.
    pub(super) parameters: u32,
}

/// The overloads of a function, in the order in which they are tried.
pub(super) fn find(name: &str) -> Option<&'static [Overload]> {
    static TABLE: OnceLock<BTreeMap<&'static str, Vec<Overload>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table: BTreeMap<&str, Vec<Overload>> = BTreeMap::new();
        for line in include_str!("functions.txt").lines().filter(|line| !line.is_empty()) {
            if let Some((name, overload)) = parse(line) {
                table.entry(name).or_default().push(overload);
            }
        }
        table
    });
    table.get(name).map(Vec::as_slice)
}

/// Parses `id name(args) result`, or `id name.(receiver, args) result`.
fn parse(line: &'static str) -> Option<(&'static str, Overload)> {
    let (id, rest) = line.split_once(' ')?;
    let open = rest.find('(')?;
    let (name, rest) = (&rest[..open], &rest[open + 1..]);
    let (name, member) = match name.strip_suffix('.') {
        Some(name) => (name, true),
        None => (name, false),
    };
    let mut types = Types { rest, letters: Vec::new() };
    let mut args = Vec::new();
    while !types.take(")") {
        args.push(types.next()?);
        types.take(", ");
    }
    types.take(" ");
    let result = types.next()?;
    let parameters = types.letters.len() as u32;
    Some((name, Overload { id, member, args, result, parameters }))
}

/// Reads types off a line of the table.
struct Types {
    rest: &'static str,
    letters: Vec<char>,
}

impl Types {
    fn take(&mut self, token: &str) -> bool {
        let found = self.rest.strip_prefix(token);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn next(&mut self) -> Option<Kind> {
        let end = self.rest.find(['(', ')', ',']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        let mut of = Vec::new();
        if matches!(word, "list" | "map" | "optional" | "type") && self.take("(") {
            while !self.take(")") {
                of.push(self.next()?);
                self.take(", ");
            }
        }
        self.named(word, of)
    }

    fn named(&mut self, word: &str, mut of: Vec<Kind>) -> Option<Kind> {
        Some(match word {
            "list" => Kind::list(of.pop()?),
            "optional" => Kind::optional(of.pop()?),
            "type" => Kind::type_of(of.pop()?),
            "map" => {
                let value = of.pop()?;
                Kind::Map(Arc::new((of.pop()?, value)))
            }
            word => match type_named(word) {
                Some(kind) => kind,
                None => {
                    let letter = word.chars().next()?;
                    let known = self.letters.iter().position(|it| *it == letter);
                    let index = known.unwrap_or_else(|| {
                        self.letters.push(letter);
                        self.letters.len() - 1
                    });
                    Kind::Param(index as u32)
                }
            },
        })
    }
}

/// The type of a name that expressions may use as a value, as in `type(x) == int`.
pub(super) fn type_named(name: &str) -> Option<Kind> {
    Some(match name {
        "dyn" => Kind::Dyn,
        "null_type" => Kind::Null,
        "bool" => Kind::Bool,
        "int" => Kind::Int,
        "uint" => Kind::Uint,
        "double" => Kind::Double,
        "string" => Kind::String,
        "bytes" => Kind::Bytes,
        "timestamp" | "google.protobuf.Timestamp" => Kind::Timestamp,
        "duration" | "google.protobuf.Duration" => Kind::Duration,
        name => Kind::Opaque(Opaque::ALL.into_iter().find(|opaque| opaque.name() == name)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        for line in include_str!("functions.txt").lines().filter(|line| !line.is_empty()) {
            assert!(parse(line).is_some(), "{line}");
        }
        let index = find("_[_]").unwrap();
        assert_eq!(index[1].args, [Kind::map(Kind::Param(0), Kind::Param(1)), Kind::Param(0)]);
        assert_eq!(index[1].result, Kind::Param(1));
    }
}

//! The functions that expressions may call: names, argument types and result types.
//!
//! The table is the text file `functions.txt`, one overload to a line, parsed when the first expression is checked. An
//! upper-case letter is a type parameter of its line. A dot before the bracket makes a member function.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::types::{Opaque, Type};

/// One signature of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    /// How many type parameters there are; they are numbered from zero.
    pub(crate) parameters: u32,
}

/// The overloads of a function, in the order in which they are tried.
pub(crate) fn find(name: &str) -> Option<&'static [Overload]> {
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

/// Parses the types in a line of the table.
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

    fn next(&mut self) -> Option<Type> {
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

    fn named(&mut self, word: &str, mut of: Vec<Type>) -> Option<Type> {
        Some(match word {
            "list" => Type::list(of.pop()?),
            "optional" => Type::optional(of.pop()?),
            "type" => Type::type_of(of.pop()?),
            "map" => {
                let value = of.pop()?;
                Type::Map(Arc::new((of.pop()?, value)))
            }
            word => match type_named(word) {
                Some(cel_type) => cel_type,
                None => {
                    let letter = word.chars().next()?;
                    let known = self.letters.iter().position(|it| *it == letter);
                    let index = known.unwrap_or_else(|| {
                        self.letters.push(letter);
                        self.letters.len() - 1
                    });
                    Type::Param(index as u32)
                }
            },
        })
    }
}

/// The type of this name, which expressions may use as a value, as in `type(x) == int`.
pub(crate) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "dyn" => Type::Dyn,
        "null_type" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" | "google.protobuf.Timestamp" => Type::Timestamp,
        "duration" | "google.protobuf.Duration" => Type::Duration,
        name => Type::Opaque(Opaque::ALL.into_iter().find(|opaque| opaque.name() == name)?),
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
        assert_eq!(index[1].args, [Type::map(Type::Param(0), Type::Param(1)), Type::Param(0)]);
        assert_eq!(index[1].result, Type::Param(1));
    }
}

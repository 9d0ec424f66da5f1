//! Checks literals: times and patterns must be valid, the items of a list and the values of a map of one type, and the
//! arguments of `format` must fit its text.

use std::collections::BTreeSet;

use crate::check::Checked;
use crate::issue::Issue;
use crate::library::{format, regex};
use crate::syntax::{Id, Literal, Node};
use crate::types::Type;
use crate::value::Fault;
use crate::value::time;

/// Finds the issues of all literals of an expression.
pub(crate) fn check(checked: &Checked) -> Vec<Issue> {
    let mut found = Found { checked, issues: Vec::new() };
    for (wanted, valid) in [
        ("duration", is_duration as fn(&Literal) -> bool),
        ("timestamp", is_timestamp),
        ("matches", is_pattern),
    ] {
        found.arguments(wanted, valid);
    }
    let exempt = found.exempt();
    let nodes = || checked.tree.nodes.iter().enumerate().filter(|(id, _)| !exempt.contains(id));
    for (_, node) in nodes() {
        if let Node::List { items, optional } = node {
            found.list(items, optional);
        }
    }
    for (_, node) in nodes() {
        if let Node::Map { entries } = node {
            found.map(entries);
        }
    }
    found.formats();
    found.issues
}

fn is_duration(literal: &Literal) -> bool {
    !matches!(literal, Literal::String(text) if time::parse_duration(text).is_none())
}

fn is_timestamp(literal: &Literal) -> bool {
    match literal {
        Literal::String(text) => time::parse_timestamp(text).is_ok(),
        Literal::Int(seconds) => time::Instant::from_seconds(*seconds).is_some(),
        _ => true,
    }
}

fn is_pattern(literal: &Literal) -> bool {
    !matches!(literal, Literal::String(text) if !regex::is_valid(text))
}

struct Found<'a> {
    checked: &'a Checked,
    issues: Vec<Issue>,
}

impl Found<'_> {
    fn fail(&mut self, id: Id, message: String) {
        self.issues.push(Issue { position: self.checked.tree.positions[id], message });
    }

    fn arguments(&mut self, wanted: &str, valid: fn(&Literal) -> bool) {
        let tree = &self.checked.tree;
        let firsts: Vec<Id> = tree
            .calls()
            .filter(|(_, function, _)| *function == wanted)
            .filter_map(|(_, _, args)| args.first().copied())
            .collect();
        for id in firsts {
            if let Node::Literal(literal) = &tree.nodes[id]
                && !valid(literal)
            {
                self.fail(id, format!("invalid {wanted} argument"));
            }
        }
    }

    /// The lists and maps inside of a call of `format`, whose items may have any types.
    fn exempt(&self) -> BTreeSet<Id> {
        let tree = &self.checked.tree;
        let mut open: Vec<Id> = tree
            .calls()
            .filter(|(_, function, _)| *function == "format")
            .flat_map(|(_, _, args)| args.to_vec())
            .collect();
        let mut exempt = BTreeSet::new();
        while let Some(id) = open.pop() {
            if !exempt.insert(id) {
                continue;
            }
            match &tree.nodes[id] {
                Node::List { items, .. } => open.extend(items),
                Node::Map { entries } => {
                    open.extend(entries.iter().flat_map(|entry| [entry.key, entry.value]))
                }
                Node::Call { target, args, .. } => open.extend(target.iter().chain(args)),
                Node::Select { operand, .. } => open.push(*operand),
                Node::Fold(fold) => {
                    open.extend([fold.range, fold.init, fold.condition, fold.step, fold.result]);
                }
                _ => {}
            }
        }
        exempt
    }

    /// Checks the calls of `format` whose text and arguments are literals.
    fn formats(&mut self) {
        let tree = &self.checked.tree;
        for (id, node) in tree.nodes.iter().enumerate() {
            if let Node::Call { function, target: Some(target), args } = node
                && function.as_ref() == "format"
                && let (Node::Literal(Literal::String(text)), [list]) =
                    (&tree.nodes[*target], args.as_slice())
                && let Node::List { items, .. } = &tree.nodes[*list]
            {
                self.format(id, text, items);
            }
        }
    }

    fn format(&mut self, id: Id, text: &str, items: &[Id]) {
        let clauses = match format::clauses(text) {
            Ok(clauses) => clauses,
            Err(Fault::Error(problem)) => return self.fail(id, problem),
            Err(Fault::Limit) => return,
        };
        for (index, clause) in clauses.iter().enumerate() {
            let Some(item) = items.get(index) else {
                return self.fail(id, format!("index {index} out of range"));
            };
            if let Some(wrong) = self.unprintable(clause.letter, *item) {
                let given = self.checked.types[wrong].runtime_name();
                let takes = format::takes(clause.letter);
                return self.fail(wrong, format!("error during formatting: {takes}, was given {given}"));
            }
        }
        if items.len() > clauses.len() {
            let message = format!(
                "too many arguments supplied to string.format (expected {}, got {})",
                clauses.len(),
                items.len()
            );
            self.fail(id, message);
        }
    }

    /// The argument, or the part of it, that a clause cannot print; `None` if it can print all of it.
    fn unprintable(&self, letter: char, id: Id) -> Option<Id> {
        let cel_type = &self.checked.types[id];
        let taken = match letter {
            _ if matches!(cel_type, Type::Dyn) => true,
            's' => !matches!(cel_type, Type::Optional(_) | Type::Opaque(_) | Type::Object(_) | Type::Error),
            'f' | 'e' => matches!(cel_type, Type::Double | Type::String),
            'b' => matches!(cel_type, Type::Int | Type::Uint | Type::Bool),
            'x' | 'X' => matches!(cel_type, Type::Int | Type::Uint | Type::String | Type::Bytes),
            _ => matches!(cel_type, Type::Int | Type::Uint),
        };
        if !taken {
            return Some(id);
        }
        match &self.checked.tree.nodes[id] {
            Node::List { items, .. } if letter == 's' => {
                items.iter().find_map(|item| self.unprintable(letter, *item))
            }
            Node::Map { entries } if letter == 's' => {
                let parts = entries.iter().flat_map(|entry| [entry.key, entry.value]);
                parts.into_iter().find_map(|part| self.unprintable(letter, part))
            }
            _ => None,
        }
    }

    fn cel_type(&self, id: Id, optional: bool) -> Type {
        match &self.checked.types[id] {
            Type::Optional(of) if optional => of.as_ref().clone(),
            cel_type => cel_type.clone(),
        }
    }

    fn same(&mut self, id: Id, first: &Type, cel_type: &Type) -> bool {
        let same = first == cel_type;
        if !same {
            self.fail(id, format!("expected type '{first}' but found '{cel_type}'"));
        }
        same
    }

    fn list(&mut self, items: &[Id], optional: &[usize]) {
        let mut first: Option<Type> = None;
        for (index, id) in items.iter().enumerate() {
            let cel_type = self.cel_type(*id, optional.contains(&index));
            match &first {
                None => first = Some(cel_type),
                Some(first) => {
                    if !self.same(*id, first, &cel_type) {
                        return;
                    }
                }
            }
        }
    }

    fn map(&mut self, entries: &[crate::syntax::Entry]) {
        let mut first: Option<(Type, Type)> = None;
        for entry in entries {
            let types = (self.cel_type(entry.key, false), self.cel_type(entry.value, entry.optional));
            match &first {
                None => first = Some(types),
                Some((key, value)) => {
                    self.same(entry.key, key, &types.0);
                    self.same(entry.value, value, &types.1);
                }
            }
        }
    }
}

//! What can be said of literals before a rule runs: times and patterns must be valid, lists and maps of one type.

use std::collections::BTreeSet;

use super::check::Checked;
use super::issue::Issue;
use super::kind::Kind;
use super::library::{format, regex, time};
use super::syntax::{Id, Literal, Node};
use super::value::Fault;

/// The errors of all literals of an expression.
pub(super) fn check(checked: &Checked) -> Vec<Issue> {
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
        self.issues.push(Issue { place: self.checked.tree.places[id], message });
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

    /// The lists and maps inside of a call of `format`, which takes values of any types.
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

    /// Calls of `format` whose text and arguments are written out.
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
                let given = self.checked.kinds[wrong].runtime_name();
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

    /// The argument, or the part of it, that a clause does not take.
    fn unprintable(&self, letter: char, id: Id) -> Option<Id> {
        let kind = &self.checked.kinds[id];
        let taken = match letter {
            _ if matches!(kind, Kind::Dyn) => true,
            's' => !matches!(kind, Kind::Optional(_) | Kind::Opaque(_) | Kind::Object(_) | Kind::Error),
            'f' | 'e' => matches!(kind, Kind::Double | Kind::String),
            'b' => matches!(kind, Kind::Int | Kind::Uint | Kind::Bool),
            'x' | 'X' => matches!(kind, Kind::Int | Kind::Uint | Kind::String | Kind::Bytes),
            _ => matches!(kind, Kind::Int | Kind::Uint),
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

    fn kind(&self, id: Id, optional: bool) -> Kind {
        match &self.checked.kinds[id] {
            Kind::Optional(of) if optional => of.as_ref().clone(),
            kind => kind.clone(),
        }
    }

    fn same(&mut self, id: Id, first: &Kind, kind: &Kind) -> bool {
        let same = first == kind;
        if !same {
            self.fail(id, format!("expected type '{first}' but found '{kind}'"));
        }
        same
    }

    fn list(&mut self, items: &[Id], optional: &[usize]) {
        let mut first: Option<Kind> = None;
        for (index, id) in items.iter().enumerate() {
            let kind = self.kind(*id, optional.contains(&index));
            match &first {
                None => first = Some(kind),
                Some(first) => {
                    if !self.same(*id, first, &kind) {
                        return;
                    }
                }
            }
        }
    }

    fn map(&mut self, entries: &[super::syntax::Entry]) {
        let mut first: Option<(Kind, Kind)> = None;
        for entry in entries {
            let kinds = (self.kind(entry.key, false), self.kind(entry.value, entry.optional));
            match &first {
                None => first = Some(kinds),
                Some((key, value)) => {
                    self.same(entry.key, key, &kinds.0);
                    self.same(entry.value, value, &kinds.1);
                }
            }
        }
    }
}

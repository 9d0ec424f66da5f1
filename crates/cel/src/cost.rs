//! The cost estimate: the most that a run of an expression can cost, computed before it is run.
//!
//! The size of a value comes from the limits in its declaration, found by the path on which the expression reaches the
//! value. A value without a limit is taken to be as large as a request can be. The arithmetic is that of Kubernetes,
//! because its messages show the result.

mod estimate;
mod range;

use crate::check::Checked;
use crate::syntax::{Fold, Id, Literal, Node};
use crate::types::{Declaration, Type};

use estimate::{Estimate, Node as Described};
use range::Range;

const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const MESSAGE_COST: u64 = 40;

/// Estimates the most that a run of the expression can cost, where `root` declares `self` and `oldSelf`.
pub fn estimate(checked: &Checked, root: &Declaration) -> u64 {
    let nodes = checked.tree.nodes.len();
    let mut coster = Coster {
        checked,
        root,
        costs: vec![None; nodes],
        paths: vec![None; nodes],
        sizes: vec![None; nodes],
        entries: vec![None; nodes],
        locals: Vec::new(),
    };
    coster.cost(checked.tree.root).max
}

/// The path from a variable to a value: field names, and marks such as `@items` and `@values`.
pub(crate) type PathTo = Vec<Box<str>>;

/// How large the keys and values of a list or map are.
#[derive(Debug, Clone, Copy)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

struct Local {
    name: Box<str>,
    path: PathTo,
    size: Option<Range>,
    entries: Option<Entries>,
}

pub(crate) struct Coster<'a> {
    pub(crate) checked: &'a Checked,
    root: &'a Declaration,
    costs: Vec<Option<Range>>,
    paths: Vec<Option<PathTo>>,
    sizes: Vec<Option<Range>>,
    entries: Vec<Option<Entries>>,
    locals: Vec<Local>,
}

impl Coster<'_> {
    /// Computes the cost of a node, once: several parents may share a node that a macro made.
    fn cost(&mut self, id: Id) -> Range {
        if let Some(cost) = self.costs[id] {
            return cost;
        }
        let checked = self.checked;
        let cost = match &checked.tree.nodes[id] {
            Node::Literal(Literal::Type(cel_type)) => {
                self.paths[id] = Some(vec![cel_type.name().into()]);
                Range::fixed(1)
            }
            Node::Literal(_) => Range::fixed(0),
            Node::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths[id] = Some(path);
                Range::fixed(1)
            }
            Node::Select { operand, field, test } => self.select(id, *operand, field, *test),
            Node::Call { function, target, args } => self.call(id, function, *target, args),
            Node::List { items, .. } => self.list(id, items),
            Node::Map { entries } => {
                let ids: Vec<(Id, Id)> = entries.iter().map(|entry| (entry.key, entry.value)).collect();
                self.map(id, &ids)
            }
            Node::Struct { .. } => Range::fixed(MESSAGE_COST),
            Node::Fold(fold) => self.fold(id, fold),
        };
        self.costs[id] = Some(cost);
        cost
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name.as_ref() == name)
    }

    fn select(&mut self, id: Id, operand: Id, field: &str, test: bool) -> Range {
        let cost = self.cost(operand);
        if test {
            return cost;
        }
        let mut path = self.path(operand);
        path.push(field.into());
        self.paths[id] = Some(path);
        match &self.checked.types[operand] {
            Type::Map(_) | Type::Object(_) | Type::Param(_) => cost.add(Range::fixed(1)),
            _ => cost,
        }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) -> Range {
        if let ("dyn", &[arg]) = (function, args) {
            let cost = self.cost(arg);
            self.copy_sizes(id, arg);
            return cost.add(Range::fixed(1));
        }
        let costs: Vec<Range> = args.iter().map(|arg| self.cost(*arg)).collect();
        let overloads = self.checked.overloads[id].clone();
        if overloads.is_empty() {
            return Range::fixed(0);
        }
        let mut total = Range::fixed(0);
        if let Some(target) = target {
            total = total.add(self.cost(target));
        }
        let mut cost = Range { min: u64::MAX, max: 0 };
        let mut size: Option<Range> = None;
        for overload in overloads {
            let estimate = self.overload(id, function, overload, target, args, &costs);
            cost = cost.union(estimate.cost);
            size = match (size, estimate.size) {
                (Some(known), Some(more)) => Some(known.union(more)),
                (known, more) => known.or(more),
            };
            let mark = match overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(mark), Some(of)) = (mark, args.first()) {
                size = self.entries_of(*of).map(|entries| entries.value);
                let mut path = self.path(*of);
                path.push(mark.into());
                self.paths[id] = Some(path);
            }
            size = size.or_else(|| self.size(id));
        }
        self.sizes[id] = size.or(self.sizes[id]);
        total.add(cost)
    }

    fn overload(
        &mut self,
        id: Id,
        function: &str,
        overload: &str,
        target: Option<Id>,
        args: &[Id],
        costs: &[Range],
    ) -> Estimate {
        let sum = costs.iter().fold(Range::fixed(0), |sum, cost| sum.add(*cost));
        let described: Vec<Described> = args.iter().map(|arg| self.describe(*arg)).collect();
        let on = target.map(|target| self.describe(target));
        if let Some(estimate) = estimate::library(self, function, overload, on.as_ref(), &described) {
            return Estimate { cost: estimate.cost.add(sum), size: estimate.size };
        }
        match (overload, costs) {
            ("logical_or" | "logical_and", [left, right]) => {
                return Estimate::of(Range { min: left.min, max: left.add(*right).max });
            }
            ("conditional", [condition, yes, no]) => {
                let size = self.size_or_unknown(args[1]).union(self.size_or_unknown(args[2]));
                if let (Some(yes), Some(no)) = (self.entries_of(args[1]), self.entries_of(args[2])) {
                    self.entries[id] = Some(yes.union(no));
                }
                return Estimate { cost: condition.add(yes.union(*no)), size: Some(size) };
            }
            ("add_list" | "add_string" | "add_bytes", [_, _]) => {
                if let (Some(a), Some(b)) = (self.entries_of(args[0]), self.entries_of(args[1])) {
                    self.entries[id] = Some(a.union(b));
                }
            }
            _ => {}
        }
        let own = estimate::standard(overload, on.as_ref(), &described);
        Estimate { cost: own.cost.add(sum), size: own.size }
    }

    /// Collects what the estimate of a call needs to know of an argument.
    fn describe(&mut self, id: Id) -> Described {
        let mut path = self.path(id);
        if path.first().is_some_and(|first| matches!(first.as_ref(), "@result" | "__result__")) {
            path.clear();
        }
        let literal = match &self.checked.tree.nodes[id] {
            Node::Literal(Literal::Int(value)) => Some(*value),
            _ => None,
        };
        Described { path, cel_type: self.checked.types[id].clone(), size: self.size(id), literal }
    }

    fn list(&mut self, id: Id, items: &[Id]) -> Range {
        let mut cost = Range::fixed(LIST_COST);
        let mut size = Range { min: if items.is_empty() { 0 } else { u64::MAX }, max: 0 };
        for item in items {
            cost = cost.add(self.cost(*item));
            size = size.union(self.size_or_unknown(*item));
        }
        self.entries[id] = Some(Entries { is_list: true, key: Range::fixed(1), value: size });
        cost
    }

    fn map(&mut self, id: Id, entries: &[(Id, Id)]) -> Range {
        let mut cost = Range::fixed(MAP_COST);
        let empty = Range { min: if entries.is_empty() { 0 } else { u64::MAX }, max: 0 };
        let (mut keys, mut values) = (empty, empty);
        for (key, value) in entries {
            cost = cost.add(self.cost(*key)).add(self.cost(*value));
            keys = keys.union(self.size_or_unknown(*key));
            values = values.union(self.size_or_unknown(*value));
        }
        self.entries[id] = Some(Entries { is_list: false, key: keys, value: values });
        cost
    }

    fn fold(&mut self, id: Id, fold: &Fold) -> Range {
        let nodes = &self.checked.tree.nodes;
        let never = matches!(&nodes[fold.condition], Node::Literal(Literal::Bool(false)));
        let empty = matches!(&nodes[fold.range], Node::List { items, .. } if items.is_empty());
        let mut sum = self.cost(fold.range).add(self.cost(fold.init));
        let accumulator = Local {
            name: fold.accumulator.clone(),
            path: self.path(fold.init),
            size: self.size(fold.init),
            entries: self.entries_of(fold.init),
        };
        self.locals.push(accumulator);
        if never && empty {
            sum = sum.add(self.cost(fold.result));
            self.locals.pop();
            self.copy_sizes(id, fold.result);
            return sum;
        }
        let depth = self.locals.len();
        self.push_variables(fold);
        let turn = self.cost(fold.condition).add(self.cost(fold.step));
        self.locals.truncate(depth);
        sum = sum.add(self.cost(fold.result));
        self.locals.pop();
        let count = self.size_or_unknown(fold.range);
        match &self.checked.tree.nodes[fold.init] {
            Node::Literal(_) => self.sizes[id] = self.size(fold.init),
            Node::List { .. } | Node::Map { .. } => {
                self.sizes[id] = Some(count);
                self.entries[id] = self.entries_of(fold.step);
            }
            _ => {}
        }
        sum.add(count.times(turn))
    }

    fn push_variables(&mut self, fold: &Fold) {
        let entries = self.entries_of(fold.range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.types[fold.range], Type::List(_)),
        };
        let path = self.path(fold.range);
        let mut push = |name: &str, mark: &str, size: Option<Range>| {
            let mut path = path.clone();
            path.push(mark.into());
            self.locals.push(Local { name: name.into(), path, size, entries: None });
        };
        let (key, value) = (entries.map(|entries| entries.key), entries.map(|entries| entries.value));
        match (&fold.var2, is_list) {
            (Some(second), true) => {
                push(&fold.var, "@indices", key);
                push(second, "@items", value);
            }
            (Some(second), false) => {
                push(&fold.var, "@keys", key);
                push(second, "@values", value);
            }
            (None, true) => push(&fold.var, "@items", value),
            (None, false) => push(&fold.var, "@keys", key),
        }
    }

    fn path(&self, id: Id) -> PathTo {
        if let Node::Ident(name) = &self.checked.tree.nodes[id]
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths[id].clone().unwrap_or_default()
    }

    fn copy_sizes(&mut self, to: Id, from: Id) {
        self.sizes[to] = self.size(from).or(self.sizes[to]);
        self.entries[to] = self.entries_of(from).or(self.entries[to]);
    }

    fn entries_of(&self, id: Id) -> Option<Entries> {
        if let Some(entries) = self.entries[id] {
            return Some(entries);
        }
        match &self.checked.tree.nodes[id] {
            Node::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, id: Id) -> Range {
        self.size(id).unwrap_or(Range::UNKNOWN)
    }

    fn size(&mut self, id: Id) -> Option<Range> {
        if let Some(size) = self.sizes[id] {
            return Some(size);
        }
        let checked = self.checked;
        if let Some(size) = written_size(&checked.tree.nodes[id]) {
            return Some(size);
        }
        if let Some(size) = self.declared_size(&self.path(id)) {
            self.sizes[id] = Some(size);
            return Some(size);
        }
        if is_scalar(&checked.types[id]) {
            return Some(Range::fixed(1));
        }
        match &checked.tree.nodes[id] {
            Node::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    /// The size that the declaration allows for the value on a path, whose first part is a variable.
    pub(crate) fn declared_size(&self, path: &[Box<str>]) -> Option<Range> {
        let mut at = self.root;
        for part in path.split_first()?.1 {
            at = match part.as_ref() {
                "@items" | "@values" => at.element()?,
                "@keys" => return at.element().map(|_| Range { min: 0, max: 0 }),
                name => at.field(name)?,
            };
        }
        Some(Range { min: 0, max: at.elements_max })
    }
}

impl Entries {
    fn union(self, other: Entries) -> Entries {
        Entries {
            is_list: self.is_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

/// The size of a literal.
fn written_size(node: &Node) -> Option<Range> {
    Some(Range::fixed(match node {
        Node::Literal(Literal::String(text)) => text.chars().count() as u64,
        Node::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        Node::Literal(Literal::Type(_)) => return None,
        Node::Literal(_) => 1,
        Node::List { items, .. } => items.len() as u64,
        Node::Map { entries } => entries.len() as u64,
        _ => return None,
    }))
}

fn is_scalar(cel_type: &Type) -> bool {
    match cel_type {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(of) => is_scalar(of),
        _ => false,
    }
}

//! The evaluator.
//!
//! It counts the cost of an evaluation as Kubernetes does, and stops an evaluation that exceeds the limit, so that no
//! expression can keep the server busy.

mod cost;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::check::Checked;
use crate::library;
use crate::library::operators;
use crate::syntax::{Entry, Fold, Id, Literal, Member, Node};
use crate::value::equality::Fuel;
use crate::value::{Fault, Key, List, Map, Outcome, Text, Value};

/// The most that one evaluation may cost.
pub(crate) const CALL_COST_MAX: u64 = 1_000_000;
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const MESSAGE_COST: u64 = 40;

/// Evaluates an expression with the given variables. Returns the cost also if the evaluation fails.
pub fn run<'a>(checked: &'a Checked, variables: &[(&'a str, Value<'a>)]) -> (Outcome<Value<'a>>, u64) {
    let mut machine = Machine {
        checked,
        scope: variables.iter().map(|(name, value)| (*name, value.clone())).collect(),
        cost: 0,
        fuel: Fuel::new(),
    };
    let outcome = machine.node(checked.tree.root);
    (outcome, machine.cost)
}

struct Machine<'a> {
    checked: &'a Checked,
    /// The variables, innermost last.
    scope: Vec<(&'a str, Value<'a>)>,
    cost: u64,
    fuel: Fuel,
}

impl<'a> Machine<'a> {
    fn charge(&mut self, cost: u64) -> Outcome<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > CALL_COST_MAX { Err(Fault::Limit) } else { Ok(()) }
    }

    fn node(&mut self, id: Id) -> Outcome<Value<'a>> {
        let checked = self.checked;
        match &checked.tree.nodes[id] {
            Node::Literal(literal) => Ok(literal_value(literal)),
            Node::Ident(name) => self.ident(name),
            Node::Select { operand, field, test } => self.select(*operand, field, *test),
            Node::Call { function, target, args } => self.call(id, function, *target, args),
            Node::List { items, optional } => self.list(items, optional),
            Node::Map { entries } => self.map(entries),
            Node::Struct { fields, .. } => self.structure(fields),
            Node::Fold(fold) => self.fold(fold),
        }
    }

    fn ident(&mut self, name: &str) -> Outcome<Value<'a>> {
        self.charge(1)?;
        let known = self.scope.iter().rev().find(|(known, _)| *known == name);
        match known {
            Some((_, Value::Failed(error))) => Err(Fault::new(&**error)),
            Some((_, value)) => Ok(value.clone()),
            None => Err(Fault::new(format!("no such attribute(s): {name}"))),
        }
    }

    fn select(&mut self, operand: Id, field: &'a str, test: bool) -> Outcome<Value<'a>> {
        let value = self.node(operand)?;
        if !test {
            self.charge(1)?;
        }
        let key = Value::String(Text::Borrowed(field));
        match value {
            Value::Map(map) => match map.find(&key)? {
                found if test => Ok(Value::Bool(found.is_some())),
                Some(Value::Failed(error)) => Err(Fault::new(&*error)),
                Some(found) => Ok(found),
                None => Err(Fault::new(format!("no such key: {field}"))),
            },
            Value::Access(access) if field == "requestResource" => Ok(access.request_resource()),
            Value::Optional(None) if test => Ok(Value::Bool(false)),
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(value)) => match operators::index_optional(&value, &key)? {
                found if test => Ok(Value::Bool(found.is_some())),
                found => Ok(Value::Optional(found.map(Rc::new))),
            },
            _ if test => Ok(Value::Bool(false)),
            _ => Err(Fault::new(format!("no such key: {field}"))),
        }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &'a [Id]) -> Outcome<Value<'a>> {
        match function {
            "_&&_" => return self.logic(args, false),
            "_||_" => return self.logic(args, true),
            "_?_:_" => return self.conditional(args),
            "@not_strictly_false" => return self.not_strictly_false(args),
            "or" | "orValue" => {
                if let Some(target) = target {
                    return self.optional_or(target, args, function == "orValue");
                }
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        for arg in target.iter().chain(args) {
            values.push(self.node(*arg)?);
        }
        let overload = self.checked.overloads[id].first().copied().unwrap_or_default();
        // The part of the cost that depends on the arguments alone is charged before the call is made.
        self.charge(cost::before(function, overload, &values))?;
        let result = library::call(function, overload, values, &self.fuel)?;
        self.charge(cost::after(function, &result))?;
        Ok(result)
    }

    fn logic(&mut self, args: &[Id], decisive: bool) -> Outcome<Value<'a>> {
        let mut fault = None;
        for arg in args {
            match self.node(*arg) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => fault = fault.or(Some(Fault::no_overload())),
                Err(Fault::Limit) => return Err(Fault::Limit),
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        fault.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn conditional(&mut self, args: &[Id]) -> Outcome<Value<'a>> {
        let &[condition, yes, no] = args else { return Err(Fault::no_overload()) };
        match self.node(condition)? {
            Value::Bool(true) => self.node(yes),
            Value::Bool(false) => self.node(no),
            _ => Err(Fault::no_overload()),
        }
    }

    /// `@not_strictly_false`: true unless the argument is false, so that a loop goes on after an error.
    fn not_strictly_false(&mut self, args: &[Id]) -> Outcome<Value<'a>> {
        let value = args.first().map(|arg| self.node(*arg));
        self.charge(1)?;
        match value {
            Some(Ok(Value::Bool(value))) => Ok(Value::Bool(value)),
            Some(Err(Fault::Limit)) => Err(Fault::Limit),
            _ => Ok(Value::Bool(true)),
        }
    }

    fn optional_or(&mut self, target: Id, args: &[Id], unwrap: bool) -> Outcome<Value<'a>> {
        let value = self.node(target)?;
        match value {
            Value::Optional(Some(value)) if unwrap => Ok(value.as_ref().clone()),
            Value::Optional(Some(_)) => Ok(value),
            Value::Optional(None) => args.first().map_or(Err(Fault::no_overload()), |arg| self.node(*arg)),
            _ => Err(Fault::no_overload()),
        }
    }

    fn list(&mut self, items: &[Id], optional: &[usize]) -> Outcome<Value<'a>> {
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let value = self.node(*item)?;
            match (optional.contains(&index), value) {
                (false, value) => values.push(value),
                (true, Value::Optional(value)) => values.extend(value.map(|value| value.as_ref().clone())),
                (true, other) => return Err(not_optional(&other)),
            }
        }
        self.charge(LIST_COST)?;
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &[Entry]) -> Outcome<Value<'a>> {
        let mut map = BTreeMap::new();
        for entry in entries {
            let (key, mut value) = (self.node(entry.key)?, self.node(entry.value)?);
            if entry.optional {
                match value {
                    Value::Optional(Some(inner)) => value = inner.as_ref().clone(),
                    Value::Optional(None) => continue,
                    other => return Err(not_optional(&other)),
                }
            }
            let name = key.key().ok_or_else(|| {
                Fault::new(format!("unsupported key type: {}", key.cel_type().runtime_name()))
            })?;
            map.insert(name, (key, value));
        }
        self.charge(MAP_COST)?;
        Ok(Value::Map(Map::Owned(Rc::new(map))))
    }

    /// Evaluates a struct literal to a map of its fields.
    fn structure(&mut self, fields: &'a [Member]) -> Outcome<Value<'a>> {
        let mut map = BTreeMap::new();
        for field in fields {
            let value = match (field.optional, self.node(field.value)?) {
                (true, Value::Optional(None)) => continue,
                (true, Value::Optional(Some(inner))) => inner.as_ref().clone(),
                (true, other) => return Err(not_optional(&other)),
                (false, value) => value,
            };
            let key = Value::String(Text::Borrowed(&field.name));
            map.insert(Key::String((&*field.name).into()), (key, value));
        }
        self.charge(MESSAGE_COST)?;
        Ok(Value::Map(Map::Owned(Rc::new(map))))
    }

    fn fold(&mut self, fold: &'a Fold) -> Outcome<Value<'a>> {
        let range = self.node(fold.range)?;
        let init = self.node(fold.init)?;
        let base = self.scope.len();
        self.scope.push((&fold.accumulator, init));
        let looped = self.each(fold, &range, base);
        let result = looped.and_then(|()| self.node(fold.result));
        self.scope.truncate(base);
        result
    }

    fn each(&mut self, fold: &'a Fold, range: &Value<'a>, base: usize) -> Outcome<()> {
        match range {
            Value::List(list) => {
                for index in 0..list.len() {
                    let item = list.get(index)?;
                    let (first, second) = match &fold.var2 {
                        Some(_) => (Value::Int(index as i64), Some(item)),
                        None => (item, None),
                    };
                    if !self.step(fold, first, second, base)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                for key in map.keys() {
                    let value = match &fold.var2 {
                        Some(_) => map.find(&key)?,
                        None => None,
                    };
                    if !self.step(fold, key, value, base)? {
                        break;
                    }
                }
                Ok(())
            }
            other => Err(Fault::new(format!("got '{}', expected iterable type", go_type(other)))),
        }
    }

    /// Runs one iteration of a loop. Returns whether the loop goes on.
    fn step(
        &mut self,
        fold: &'a Fold,
        first: Value<'a>,
        second: Option<Value<'a>>,
        base: usize,
    ) -> Outcome<bool> {
        self.scope.push((&fold.var, first));
        if let (Some(name), Some(value)) = (&fold.var2, second) {
            self.scope.push((name, value));
        }
        let outcome = match self.node(fold.condition) {
            Ok(Value::Bool(true)) => self.advance(fold.step, base).map(|()| true),
            Ok(Value::Bool(false)) => Ok(false),
            Ok(_) => Err(Fault::no_overload()),
            Err(fault) => Err(fault),
        };
        self.scope.truncate(base + 1);
        outcome
    }

    /// Computes the next value of the accumulator. An error becomes a value, because a later item may make it irrelevant, as in
    /// `exists`.
    fn advance(&mut self, step: Id, base: usize) -> Outcome<()> {
        match self.try_advance(step, base) {
            Err(Fault::Error(error)) => {
                self.scope[base].1 = Value::Failed(error.into());
                Ok(())
            }
            other => other,
        }
    }

    fn try_advance(&mut self, step: Id, base: usize) -> Outcome<()> {
        let checked = self.checked;
        let nodes = &checked.tree.nodes;
        let accumulator = self.scope[base].0;
        let is_accumulator = |id: Id| matches!(&nodes[id], Node::Ident(name) if **name == *accumulator);
        if let Node::Call { function, target: None, args } = &nodes[step] {
            match (function.as_ref(), args.as_slice()) {
                // A list or map that grows by one element is changed in place: copying it would make loops quadratic.
                ("_+_", &[list, added]) if is_accumulator(list) => {
                    if let Node::List { items, optional } = &nodes[added]
                        && optional.is_empty()
                        && matches!(self.scope[base].1, Value::List(List::Owned(_)))
                    {
                        return self.append(items, base);
                    }
                }
                ("cel.@mapInsert", args)
                    if args.first().is_some_and(|id| is_accumulator(*id))
                        && matches!(self.scope[base].1, Value::Map(Map::Owned(_))) =>
                {
                    return self.insert(&args[1..], base);
                }
                ("_?_:_", &[filter, then, otherwise]) if is_accumulator(otherwise) => {
                    return match self.node(filter)? {
                        Value::Bool(true) => self.try_advance(then, base),
                        Value::Bool(false) => self.ident(accumulator).map(|_| ()),
                        _ => Err(Fault::no_overload()),
                    };
                }
                _ => {}
            }
        }
        self.scope[base].1 = self.node(step)?;
        Ok(())
    }

    fn append(&mut self, items: &[Id], base: usize) -> Outcome<()> {
        // The cost of the accumulator, of the list literal and of the sum.
        self.charge(2 + LIST_COST)?;
        for item in items {
            let value = self.node(*item)?;
            if let Value::List(List::Owned(list)) = &mut self.scope[base].1 {
                Rc::make_mut(list).push(value);
            }
        }
        Ok(())
    }

    fn insert(&mut self, args: &[Id], base: usize) -> Outcome<()> {
        self.charge(2)?;
        let mut added = Vec::new();
        match *args {
            [key, value] => added.push((self.node(key)?, self.node(value)?)),
            [entry] => match self.node(entry)? {
                Value::Map(map) => {
                    for key in map.keys() {
                        let value = map.find(&key)?.ok_or_else(Fault::no_overload)?;
                        added.push((key, value));
                    }
                }
                _ => return Err(Fault::no_overload()),
            },
            _ => return Err(Fault::no_overload()),
        }
        let Value::Map(Map::Owned(map)) = &mut self.scope[base].1 else { return Err(Fault::no_overload()) };
        for (key, value) in added {
            let name = key.key().ok_or_else(Fault::no_overload)?;
            if Rc::make_mut(map).insert(name, (key.clone(), value)).is_some() {
                return Err(Fault::new(format!("insert failed: key {} already exists", library::show(&key))));
            }
        }
        Ok(())
    }
}

/// The Go type of the value in Kubernetes, which one message shows.
fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::Optional(_) => "*types.Optional",
        _ => "*types.Type",
    }
}

fn not_optional(value: &Value<'_>) -> Fault {
    Fault::new(format!(
        "cannot initialize optional list element from non-optional value {}",
        library::show(value)
    ))
}

fn literal_value(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(Text::Borrowed(text)),
        Literal::Bytes(bytes) => Value::Bytes(bytes.as_ref().into()),
        Literal::Type(cel_type) => Value::Type(cel_type.clone()),
    }
}

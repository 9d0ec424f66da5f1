//! Rules in CEL (`x-kubernetes-validations`).
//!
//! [`Rules::compile`] is done once for a schema; [`Rules::validate`] runs the rules on an object. The road of an
//! expression is `syntax` (text to tree), `check` (types), `cost` (what it can cost), `eval` (a value).
//!
//! The parser is that of the `cel` crate, whose grammar is the one Kubernetes uses. The rest is our own: the crate has
//! no type checker, no bound on what an evaluation costs, and other messages.

mod calls;
mod check;
pub(crate) mod conditions;
mod cost;
mod declare;
mod definition;
mod equality;
mod escape;
mod estimate;
mod eval;
mod functions;
mod guard;
mod issue;
mod kind;
mod library;
mod literals;
mod macros;
pub(crate) mod mutation;
mod nesting;
mod operators;
pub(crate) mod policy;
mod program;
mod range;
mod runtime_cost;
mod syntax;
pub(crate) mod type_check;
mod unify;
mod validate;
mod value;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::{Additional, Schema};

pub(super) use definition::{Place, Report, elements_max};
pub use validate::Findings;

use kind::{Declaration, Kind};
use program::Compiled;

/// The type of what a mutation lays over an object; the types of its parts are beneath its name.
const OBJECT: &str = "Object";
/// The type of one operation of a mutation.
const JSON_PATCH: &str = "JSONPatch";

/// What an expression must give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Bool,
    String,
    StringOrNull,
    /// What a mutation lays over the object.
    Object,
    /// What a mutation does to the object.
    JsonPatches,
    Anything,
}

/// Says why an expression about values of unknown types does not compile, or gives something else than it should.
pub(crate) fn check_expression(source: &str, variables: &[&str], expected: Expected) -> Result<(), String> {
    let failed = |issues: issue::Issues| format!("compilation failed: {issues}");
    let variables: Vec<(&str, Kind)> = variables.iter().map(|name| (*name, Kind::Dyn)).collect();
    let tree = syntax::parse(source).map_err(failed)?;
    let structs = matches!(expected, Expected::Object | Expected::JsonPatches);
    let checked = check::check_with(source, tree, &variables, structs).map_err(failed)?;
    let wanted = match expected {
        Expected::Bool => vec![Kind::Bool],
        Expected::String => vec![Kind::String],
        Expected::StringOrNull => vec![Kind::String, Kind::Null],
        Expected::Object => vec![Kind::structure(OBJECT)],
        Expected::JsonPatches => vec![Kind::list(Kind::structure(JSON_PATCH))],
        Expected::Anything => return Ok(()),
    };
    if wanted.contains(checked.result()) {
        return Ok(());
    }
    let result = checked.result();
    Err(match wanted.as_slice() {
        [one] => format!("must evaluate to {one} but got {result}"),
        several => {
            let several: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("must evaluate to one of [{}]", several.join(" "))
        }
    })
}

/// The compiled rules of a schema.
#[derive(Debug)]
pub struct Rules {
    /// The schema as rules see it.
    schema: Schema,
    root: Node,
}

/// The rules at one place of a schema, and those below it.
#[derive(Debug, Default)]
struct Node {
    rules: Vec<Compiled>,
    properties: BTreeMap<String, Node>,
    items: Option<Box<Node>>,
    values: Option<Box<Node>>,
    all_of: Vec<Node>,
}

impl Rules {
    /// Compiles the rules of a schema; none where it has no rules.
    pub fn compile(schema: &Schema) -> Option<Rules> {
        if !has_rules(schema) {
            return None;
        }
        let schema = declare::view(schema);
        let declared = declare::declare(&schema, "selfType");
        let root = node(&schema, &schema, declared.as_ref())?;
        Some(Rules { schema, root })
    }
}

fn has_rules(schema: &Schema) -> bool {
    !schema.validations.is_empty()
        || schema.properties.iter().any(|(_, field)| has_rules(field))
        || schema.items.as_deref().is_some_and(has_rules)
        || matches!(&schema.additional, Additional::Schema(values) if has_rules(values))
        || schema.logic.as_ref().is_some_and(|logic| logic.all_of.iter().any(has_rules))
}

/// Compiles the rules of `rules`, which are about values of `schema`; the two differ below `allOf`.
fn node(rules: &Schema, schema: &Schema, declared: Option<&Arc<Declaration>>) -> Option<Node> {
    if !has_rules(rules) {
        return None;
    }
    let declared_here = declared.cloned().or_else(|| declare::declare(schema, "selfType"));
    let mut out = Node::default();
    if let Some(declared) = &declared_here {
        out.rules = rules.validations.iter().map(|rule| program::compile(rule, schema, declared)).collect();
    }
    for (name, field) in rules.properties.iter() {
        let Some(schema) = schema.properties.get(name) else { continue };
        let known = escape::escape(name).and_then(|name| declared_here.as_ref()?.field(&name).cloned());
        if let Some(below) = node(field, schema, known.as_ref()) {
            out.properties.insert(name.to_owned(), below);
        }
    }
    let element = declared_here.as_ref().and_then(|declared| declared.element().cloned());
    if let (Some(rules), Some(schema)) = (&rules.items, &schema.items) {
        out.items = node(rules, schema, element.as_ref()).map(Box::new);
    }
    if let (Additional::Schema(rules), Additional::Schema(schema)) = (&rules.additional, &schema.additional) {
        out.values = node(rules, schema, element.as_ref()).map(Box::new);
    }
    let all_of = rules.logic.as_ref().map_or(&[][..], |logic| &logic.all_of);
    out.all_of = all_of.iter().filter_map(|rules| node(rules, schema, declared_here.as_ref())).collect();
    Some(out)
}

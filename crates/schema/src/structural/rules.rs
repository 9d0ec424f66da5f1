//! The validation rules of custom resources (`x-kubernetes-validations`), on the CEL engine of `evenkeel_cel`.
//!
//! [`Rules::compile`] compiles the rules of a schema once; [`Rules::validate`] runs them on an object. `declare` turns a
//! schema into the types that expressions see, `definition` checks the rules when their definition is written.

mod declare;
mod definition;
mod program;
mod schema;
mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cel::{Declaration, escape};

use crate::types::{Additional, Schema};

pub(super) use definition::{Report, RuleScope, elements_max};
pub use validate::RuleFindings;

use program::Compiled;

/// The compiled rules of a schema.
#[derive(Debug)]
pub struct Rules {
    /// The schema with the type information that rules may use.
    schema: Schema,
    root: Node,
}

/// The rules of one node of a schema, and those of the nodes below it.
#[derive(Debug, Default)]
struct Node {
    rules: Vec<Compiled>,
    properties: BTreeMap<String, Node>,
    items: Option<Box<Node>>,
    values: Option<Box<Node>>,
    all_of: Vec<Node>,
}

impl Rules {
    /// Compiles the rules of a schema; `None` if it has no rules.
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

/// Compiles the rules that `rules` holds, for values that `schema` describes. The two differ below `allOf`.
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
        let known = escape(name).and_then(|name| declared_here.as_ref()?.field(&name).cloned());
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

//! Runs the CEL rules of a schema on an object.

use std::collections::BTreeMap;

use evenkeel_cel::{Fault, Outcome, Value, evaluate, item_key, view};

use evenkeel_scalars::go;

use super::program::{Compiled, OLD_SELF, Program, SELF};
use super::{Node, Rules};
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value as Json;
use crate::types::{Additional, ListType, Schema, Type, Validation};

/// The highest actual cost of all rules for one object.
const BUDGET: u64 = 10_000_000;
/// The longest message that a `messageExpression` may make, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The results of all rules.
#[derive(Debug, Default)]
pub struct RuleFindings {
    /// The rules that fail.
    pub errors: Vec<FieldError>,
    /// The rules that fail on values which the update does not change: reported, but no reason to refuse it.
    pub warnings: Vec<FieldError>,
}

impl Rules {
    /// Runs the rules on an object that is created, or updated from `old`.
    pub fn validate(&self, object: &Json, old: Option<&Json>) -> RuleFindings {
        let mut run = Run { findings: RuleFindings::default(), budget: Some(BUDGET) };
        let here = old.map(|old| (object, old, &self.schema));
        let ratchet = Ratchet { here, above: None };
        run.node(&self.root, &self.schema, &Path::ROOT, object, old, ratchet);
        run.findings
    }
}

/// A value, the old value, and their schema.
type Pair<'a> = (&'a Json, &'a Json, &'a Schema);

/// Decides whether the failure of a rule becomes a warning, because the update does not change the value.
#[derive(Clone, Copy)]
struct Ratchet<'a> {
    /// The value and its old value; `None` if the value has no old value.
    here: Option<Pair<'a>>,
    /// The nearest value above, and its old value.
    above: Option<Pair<'a>>,
}

impl<'a> Ratchet<'a> {
    fn forgives(&self) -> bool {
        self.here.or(self.above).is_some_and(|(new, old, schema)| unchanged(new, old, Some(schema)))
    }

    fn below(self, value: &'a Json, old: Option<&'a Json>, schema: &'a Schema) -> Self {
        match self.here {
            None => self,
            Some(_) => Ratchet { here: old.map(|old| (value, old, schema)), above: self.here },
        }
    }
}

/// Whether two values are equal. The order of a list whose list type is `map` does not count.
fn unchanged(new: &Json, old: &Json, schema: Option<&Schema>) -> bool {
    if new == old {
        return true;
    }
    match (new, old, schema) {
        (Json::Array(new), Json::Array(old), Some(schema)) if new.len() == old.len() => {
            let items = schema.items.as_deref();
            if schema.list_type != Some(ListType::Map) {
                return new.iter().zip(old).all(|(new, old)| unchanged(new, old, items));
            }
            let before = keyed(old, schema);
            new.iter().all(|item| {
                let old = item_key(item, &schema.list_map_keys).and_then(|key| before.get(&key).copied());
                old.is_some_and(|old| unchanged(item, old, items))
            })
        }
        (Json::Object(new), Json::Object(old), Some(schema)) if new.len() == old.len() => new
            .iter()
            .all(|(name, value)| old.get(name).is_some_and(|old| unchanged(value, old, schema.field(name)))),
        _ => false,
    }
}

struct Run {
    findings: RuleFindings,
    /// The cost that is left; `None` once it was exceeded, which ends the run.
    budget: Option<u64>,
}

impl Run {
    fn node(
        &mut self,
        node: &Node,
        schema: &Schema,
        path: &Path<'_>,
        value: &Json,
        old: Option<&Json>,
        ratchet: Ratchet<'_>,
    ) {
        if value.is_null() || self.budget.is_none() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(node, schema, path, value, old, ratchet);
        for part in &node.all_of {
            let ratchet = Ratchet { here: None, above: ratchet.above };
            self.node(part, schema, path, value, old, ratchet);
        }
        match value {
            Json::Array(items) => self.items(node, schema, path, items, old, ratchet),
            Json::Object(_) => self.fields(node, schema, path, value, old, ratchet),
            _ => {}
        }
    }

    fn items(
        &mut self,
        node: &Node,
        schema: &Schema,
        path: &Path<'_>,
        items: &[Json],
        old: Option<&Json>,
        ratchet: Ratchet<'_>,
    ) {
        let (Some(below), Some(of)) = (&node.items, &schema.items) else { return };
        let before = match (schema.list_type, old) {
            (Some(ListType::Map), Some(Json::Array(before))) => keyed(before, schema),
            _ => BTreeMap::new(),
        };
        for (index, item) in items.iter().enumerate() {
            let old = item_key(item, &schema.list_map_keys).and_then(|key| before.get(&key).copied());
            self.node(below, of, &path.index(index), item, old, ratchet.below(item, old, of));
        }
    }

    fn fields(
        &mut self,
        node: &Node,
        schema: &Schema,
        path: &Path<'_>,
        object: &Json,
        old: Option<&Json>,
        ratchet: Ratchet<'_>,
    ) {
        let is_root = ratchet.above.is_none();
        for (name, value) in object.as_object().into_iter().flatten() {
            let old = old.and_then(|old| old.get(name));
            let related = |of| {
                let below = ratchet.below(value, old, of);
                let type_meta =
                    is_root && below.above.is_some() && matches!(name.as_str(), "apiVersion" | "kind");
                if type_meta { Ratchet { here: None, above: None } } else { below }
            };
            if let (Some(below), Additional::Schema(of)) = (&node.values, &schema.additional) {
                self.node(below, of, &path.key(name), value, old, related(of));
            }
            if let (Some(below), Some(of)) =
                (node.properties.get(name.as_str()), schema.properties.get(name.as_str()))
            {
                self.node(below, of, &path.child(name), value, old, related(of));
            }
        }
    }

    fn rules(
        &mut self,
        node: &Node,
        schema: &Schema,
        path: &Path<'_>,
        value: &Json,
        old: Option<&Json>,
        ratchet: Ratchet<'_>,
    ) {
        if node.rules.is_empty() {
            return;
        }
        let target = Target { schema, path, value, old, forgiven: ratchet.forgives() };
        if self.budget == Some(0) {
            self.stop(target.broken(OUT_OF_BUDGET));
            return;
        }
        let (own, before) = (view(value, schema), old.map(|old| view(old, schema)));
        for compiled in &node.rules {
            self.rule(compiled, &target, &own, before.as_ref());
            if self.budget.is_none() {
                return;
            }
        }
    }

    fn stop(&mut self, error: FieldError) {
        self.findings.errors.push(error);
        self.budget = None;
    }

    fn rule(
        &mut self,
        compiled: &Compiled,
        target: &Target<'_>,
        own: &Outcome<Value<'_>>,
        before: Option<&Outcome<Value<'_>>>,
    ) {
        let rule = &compiled.source;
        let program = match &compiled.rule {
            None => return,
            Some(Err(problem)) => {
                self.findings.errors.push(target.broken(format!("rule compile error: {problem}")));
                return;
            }
            Some(Ok(program)) => program,
        };
        let optional = rule.optional_old_self == Some(true);
        if program.uses_old_self() && target.old.is_none() && !optional {
            return;
        }
        let variables = match variables(own, before, optional) {
            Ok(variables) => variables,
            Err(fault) => return self.fault(fault, rule, target),
        };
        let (outcome, cost) = evaluate(&program.checked, &variables);
        // An evaluation that exceeds its own limit is reported as such, even if it also exceeds the budget.
        if !matches!(outcome, Err(Fault::Limit)) && !self.spend(cost) {
            return self.stop(target.broken(OUT_OF_BUDGET));
        }
        match outcome {
            Ok(Value::Bool(true)) => {}
            Ok(_) => self.failed(compiled, program, target, &variables),
            Err(fault) => self.fault(fault, rule, target),
        }
    }

    fn spend(&mut self, cost: u64) -> bool {
        match self.budget.and_then(|budget| budget.checked_sub(cost)) {
            Some(left) => {
                self.budget = Some(left);
                true
            }
            None => false,
        }
    }

    fn fault(&mut self, fault: Fault, rule: &Validation, target: &Target<'_>) {
        let name = rule_name(rule);
        match fault {
            Fault::Limit => {
                let detail = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                );
                self.stop(target.broken(detail));
            }
            Fault::Error(error) if error.starts_with("no such overload") => {
                let detail = format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
                );
                self.findings.errors.push(target.broken(detail));
            }
            Fault::Error(error) => {
                self.findings.errors.push(target.broken(format!("{error} evaluating rule: {name}")));
            }
        }
    }

    /// Reports a rule that evaluates to false.
    fn failed(
        &mut self,
        compiled: &Compiled,
        program: &Program,
        target: &Target<'_>,
        variables: &[(&str, Value<'_>)],
    ) {
        let rule = &compiled.source;
        let field = match &compiled.field {
            Some(below) => target.path.child(below).to_string(),
            None => target.path.to_string(),
        };
        let add = |findings: &mut RuleFindings, error: FieldError| match !program.uses_old_self()
            && target.forgiven
        {
            true => findings.warnings.push(error),
            false => findings.errors.push(error),
        };
        let mut detail = None;
        if let Some(Ok(message)) = &compiled.message {
            match self.message(message, variables, &rule.message_expression) {
                Message::Text(text) => detail = Some(text),
                Message::Unusable => {}
                Message::Stop(problem) => {
                    add(&mut self.findings, FieldError::invalid(field, target.type_name(), problem));
                    self.budget = None;
                    return;
                }
            }
        }
        let detail = detail.unwrap_or_else(|| match rule.message.is_empty() {
            true => format!("failed rule: {}", rule_name(rule)),
            false => rule_name(rule).to_owned(),
        });
        let bad_value = match target.schema.value_type {
            Some(Type::Object | Type::Array) => BadValue::Omitted,
            _ => BadValue::from(target.value),
        };
        let error = match rule.reason.as_str() {
            "FieldValueForbidden" => FieldError::forbidden(field, detail),
            "FieldValueRequired" => FieldError::required(field, detail),
            "FieldValueDuplicate" => FieldError::duplicate(field, bad_value),
            _ => FieldError::invalid(field, bad_value, detail),
        };
        add(&mut self.findings, error);
    }

    fn message(&mut self, program: &Program, variables: &[(&str, Value<'_>)], source: &str) -> Message {
        let (outcome, cost) = evaluate(&program.checked, variables);
        if matches!(outcome, Err(Fault::Limit)) {
            return Message::Stop(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                go::quote(source)
            ));
        }
        if !self.spend(cost) {
            return Message::Stop(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned(),
            );
        }
        match outcome {
            Ok(Value::String(text)) => {
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
                if usable { Message::Text(text.to_owned()) } else { Message::Unusable }
            }
            _ => Message::Unusable,
        }
    }
}

/// The result of a `messageExpression`.
enum Message {
    Text(String),
    /// The expression failed, or its result is not a valid message: `message` is used instead.
    Unusable,
    /// The expression exceeded its cost limit, which ends the run.
    Stop(String),
}

/// The value that rules are run on.
struct Target<'a> {
    schema: &'a Schema,
    path: &'a Path<'a>,
    value: &'a Json,
    old: Option<&'a Json>,
    /// Whether the update does not change the value, so that failures become warnings.
    forgiven: bool,
}

impl Target<'_> {
    fn type_name(&self) -> &'static str {
        self.schema.value_type.map_or("", Type::name)
    }

    /// The error for a rule that could not be evaluated.
    fn broken(&self, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(self.path, self.type_name(), detail)
    }
}

/// The variables of a rule. A value that does not match its schema fails every rule on it.
fn variables<'a>(
    own: &Outcome<Value<'a>>,
    before: Option<&Outcome<Value<'a>>>,
    optional: bool,
) -> Outcome<Vec<(&'a str, Value<'a>)>> {
    let own = own.clone()?;
    let before = before.cloned().transpose()?;
    let mut variables = vec![(SELF, own)];
    match (before, optional) {
        (before, true) => variables.push((OLD_SELF, before.map_or(Value::Optional(None), Value::some))),
        (Some(before), false) => variables.push((OLD_SELF, before)),
        (None, false) => {}
    }
    Ok(variables)
}

fn rule_name(rule: &Validation) -> &str {
    match rule.message.is_empty() {
        true => rule.rule.trim(),
        false => rule.message.trim(),
    }
}

/// The items of a list whose list type is `map`, by their keys.
fn keyed<'a>(items: &'a [Json], schema: &Schema) -> BTreeMap<String, &'a Json> {
    items.iter().filter_map(|item| Some((item_key(item, &schema.list_map_keys)?, item))).collect()
}

//! The expressions of admission policies: compiled once, run for each request that the policy is about.
//!
//! What they see has no schema: objects are maps, as they are printed.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::check::{self, Checked};
use super::eval;
use super::kind::{Kind, Opaque};
use super::nesting;
use super::syntax;
use super::value::{Fault, Key, Map, Text, Value};
use crate::json::Value as Json;
use crate::read::Read;

/// What all validations for one request may cost, and all conditions.
pub(super) const BUDGET: u64 = 10_000_000;
const CONDITIONS_BUDGET: u64 = 2_500_000;
/// The longest message that an expression may make.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
const OVER_LIMIT: &str = "operation cancelled: actual cost limit exceeded";

/// What expressions of policies may name.
const NAMES: [&str; 6] = ["object", "oldObject", "request", "params", "namespaceObject", "variables"];

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The object as it would be stored; null for a deletion.
    pub object: &'a Json,
    /// The object as it is; null for a creation.
    pub old: &'a Json,
    /// Who asks for what.
    pub request: &'a Json,
    /// What the policy is parametrised with, or null.
    pub params: &'a Json,
    /// The namespace that the object lies in, or null.
    pub namespace: &'a Json,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The sentence for people.
    pub message: String,
    /// The machine-readable reason; empty where an expression failed.
    pub reason: String,
}

/// What a policy says of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is held against it; what becomes of that is the binding's to say.
    pub denials: Vec<Denial>,
    /// What could not be noted, for which the request is refused in any case.
    pub unnoted: Vec<String>,
}

/// A compiled `ValidatingAdmissionPolicy`.
#[derive(Debug)]
pub struct Policy {
    /// Whether what cannot be decided is refused.
    fails: bool,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    annotations: Vec<Expression>,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message_expression: Option<Expression>,
    message: String,
    reason: String,
}

#[derive(Debug)]
pub(super) struct Expression {
    source: String,
    program: Result<Checked, String>,
}

impl Policy {
    /// Compiles the expressions of a policy's `spec`. One that does not compile fails each time that it is run.
    pub fn compile(spec: &Json) -> Self {
        let all = |list: &str, field: &str| -> Vec<Expression> {
            spec.list(list).iter().map(|item| Expression::compile(item.str(field))).collect()
        };
        let variables = spec.list("variables").iter();
        Self {
            fails: spec.str("failurePolicy") != "Ignore",
            conditions: all("matchConditions", "expression"),
            variables: variables
                .map(|it| (it.str("name").to_owned(), Expression::compile(it.str("expression"))))
                .collect(),
            validations: spec.list("validations").iter().map(Validation::compile).collect(),
            annotations: all("auditAnnotations", "valueExpression"),
        }
    }

    /// What the policy says of a request that it is about.
    pub fn decide(&self, inputs: &Inputs<'_>) -> Verdict {
        let mut scope = Scope::new(inputs);
        match scope.conditions(&self.conditions, self.fails) {
            Ok(true) => {}
            Ok(false) => return Verdict::default(),
            Err(problem) => return self.undecided(problem),
        }
        scope.define(&self.variables);
        let mut budget = BUDGET;
        let mut denials = Vec::new();
        for validation in &self.validations {
            match scope.run(&validation.expression, &mut budget) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => denials.push(validation.denial(&scope)),
                Err(Problem::Failed(message)) if self.fails => {
                    denials.push(Denial { message, reason: String::new() });
                }
                Err(Problem::Failed(_)) => {}
                Err(Problem::OutOfBudget) => return self.undecided(OUT_OF_BUDGET.to_owned()),
            }
        }
        Verdict { denials, unnoted: self.unnoted(&scope) }
    }

    /// What is said where the policy itself is at fault.
    fn undecided(&self, message: String) -> Verdict {
        let denial = Denial { message, reason: String::new() };
        Verdict { denials: self.fails.then_some(denial).into_iter().collect(), unnoted: Vec::new() }
    }

    /// Runs the expressions of audit annotations and returns their errors. Their values are not recorded: events of the
    /// audit log do not carry the annotations of policies.
    fn unnoted(&self, scope: &Scope<'_>) -> Vec<String> {
        let mut budget = BUDGET;
        let mut problems = Vec::new();
        for annotation in &self.annotations {
            match scope.run(annotation, &mut budget) {
                Ok(Value::String(_) | Value::Null) => {}
                Ok(other) => problems.push(format!(
                    "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either \
                     string or null.",
                    annotation.source,
                    other.kind().runtime_name()
                )),
                Err(problem) if self.fails => problems.push(problem.text()),
                Err(_) => {}
            }
        }
        problems
    }
}

impl Validation {
    fn compile(validation: &Json) -> Self {
        let message = validation.str("messageExpression");
        Self {
            expression: Expression::compile(validation.str("expression")),
            message_expression: (!message.is_empty()).then(|| Expression::compile(message)),
            message: validation.str("message").trim().to_owned(),
            reason: validation.str("reason").to_owned(),
        }
    }

    fn denial(&self, scope: &Scope<'_>) -> Denial {
        let made = self.message_expression.as_ref().and_then(|expression| {
            let text = match scope.run(expression, &mut { BUDGET }) {
                Ok(Value::String(text)) => text.trim().to_owned(),
                _ => return None,
            };
            (!text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n')).then_some(text)
        });
        let written = (!self.message.is_empty()).then(|| self.message.clone());
        let message = made
            .or(written)
            .unwrap_or_else(|| format!("failed expression: {}", self.expression.source.trim()));
        let reason = if self.reason.is_empty() { "Invalid".to_owned() } else { self.reason.clone() };
        Denial { message, reason }
    }
}

impl Expression {
    pub(super) fn compile(source: &str) -> Self {
        Self::compile_with(source, false)
    }

    /// Compiles an expression that may make the structs of mutations.
    pub(super) fn compile_with(source: &str, structs: bool) -> Self {
        let mut variables: Vec<(&str, Kind)> = NAMES.iter().map(|name| (*name, Kind::Dyn)).collect();
        variables.push(("authorizer", Kind::Opaque(Opaque::Authorizer)));
        let program = syntax::parse(source)
            .and_then(|tree| check::check_with(source, tree, &variables, structs))
            .map_err(|issues| format!("compilation error: compilation failed: {issues}"));
        Self { source: source.to_owned(), program }
    }
}

/// Why an expression gave nothing.
pub(super) enum Problem {
    Failed(String),
    OutOfBudget,
}

impl Problem {
    pub(super) fn text(self) -> String {
        match self {
            Problem::Failed(text) => text,
            Problem::OutOfBudget => OUT_OF_BUDGET.to_owned(),
        }
    }
}

/// The variables that expressions see.
pub(super) struct Scope<'a> {
    values: Vec<(&'static str, Value<'a>)>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(inputs: &Inputs<'a>) -> Self {
        let values = vec![
            ("object", dynamic(inputs.object)),
            ("oldObject", dynamic(inputs.old)),
            ("request", dynamic(inputs.request)),
            ("params", dynamic(inputs.params)),
            ("namespaceObject", dynamic(inputs.namespace)),
            ("variables", Value::Map(Map::Owned(Rc::default()))),
        ];
        Self { values }
    }

    /// Whether all conditions hold. One that is false outweighs others that fail.
    pub(super) fn conditions(&self, conditions: &'a [Expression], fails: bool) -> Result<bool, String> {
        let mut budget = CONDITIONS_BUDGET;
        let mut problems = Vec::new();
        for condition in conditions {
            match self.run(condition, &mut budget) {
                Ok(Value::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(Problem::Failed(text)) => problems.push(text),
                Err(Problem::OutOfBudget) => {
                    problems = vec![OUT_OF_BUDGET.to_owned()];
                    break;
                }
            }
        }
        match (problems.as_slice(), fails) {
            ([], _) => Ok(true),
            (_, false) => Ok(false),
            ([one], true) => Err(one.clone()),
            (several, true) => Err(format!("[{}]", several.join(", "))),
        }
    }

    /// Computes the variables in their order; one that fails fails whoever looks at it.
    pub(super) fn define(&mut self, variables: &'a [(String, Expression)]) {
        let mut entries = BTreeMap::new();
        for (name, expression) in variables {
            let value = match self.evaluate(expression).and_then(|(value, _)| nesting::shallow(value)) {
                Ok(value) => value,
                Err(error) => Value::Failed(
                    format!("composited variable {name:?} fails to evaluate: {error}").as_str().into(),
                ),
            };
            let key = Value::String(Text::Borrowed(name));
            entries.insert(Key::String(name.as_str().into()), (key, value));
            self.set_variables(entries.clone());
        }
    }

    fn set_variables(&mut self, entries: BTreeMap<Key, (Value<'a>, Value<'a>)>) {
        let variables = Value::Map(Map::Owned(Rc::new(entries)));
        for (name, value) in &mut self.values {
            if *name == "variables" {
                *value = variables.clone();
            }
        }
    }

    pub(super) fn run(&self, expression: &'a Expression, budget: &mut u64) -> Result<Value<'a>, Problem> {
        match self.evaluate(expression) {
            Ok((value, cost)) => match budget.checked_sub(cost) {
                Some(left) => {
                    *budget = left;
                    Ok(value)
                }
                None => Err(Problem::OutOfBudget),
            },
            Err(error) if expression.program.is_err() => Err(Problem::Failed(error)),
            Err(error) => {
                let source = &expression.source;
                Err(Problem::Failed(format!("expression '{source}' resulted in error: {error}")))
            }
        }
    }

    fn evaluate(&self, expression: &'a Expression) -> Result<(Value<'a>, u64), String> {
        let checked = expression.program.as_ref().map_err(String::clone)?;
        match eval::run(checked, &self.values) {
            (Ok(value), cost) => Ok((value, cost)),
            (Err(Fault::Limit), _) => Err(OVER_LIMIT.to_owned()),
            (Err(Fault::Error(error)), _) => Err(error),
        }
    }
}

/// A value without a schema.
pub(super) fn dynamic(json: &Json) -> Value<'_> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Double(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::String(Text::Borrowed(text)),
        Json::Array(items) => Value::list(items.iter().map(dynamic).collect()),
        Json::Object(fields) => {
            let entry = |(name, value): (&'_ String, _)| {
                (Key::String(name.as_str().into()), (Value::String(Text::Owned(name.as_str().into())), value))
            };
            let entries = fields.iter().map(|(name, value)| entry((name, dynamic(value)))).collect();
            Value::Map(Map::Owned(Rc::new(entries)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn decide(spec: Json, object: Json) -> Vec<(String, String)> {
        let request = json!({"operation": "CREATE", "userInfo": {"username": "alice"}});
        let null = Json::Null;
        let inputs =
            Inputs { object: &object, old: &null, request: &request, params: &null, namespace: &null };
        let verdict = Policy::compile(&spec).decide(&inputs);
        verdict.denials.into_iter().map(|denial| (denial.reason, denial.message)).collect()
    }

    fn denied(reason: &str, message: &str) -> Vec<(String, String)> {
        vec![(reason.to_owned(), message.to_owned())]
    }

    #[test]
    fn a_validation_denies_with_the_best_message_that_it_has() {
        let spec = |more: Json| {
            let mut validation = json!({"expression": "object.size < 3 "});
            validation.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"validations": [validation]})
        };
        assert_eq!(decide(spec(json!({})), json!({"size": 2})), []);
        let large = json!({"size": 3});
        assert_eq!(
            decide(spec(json!({})), large.clone()),
            denied("Invalid", "failed expression: object.size < 3")
        );
        assert_eq!(
            decide(spec(json!({"message": " small ", "reason": "Forbidden"})), large.clone()),
            denied("Forbidden", "small")
        );
        let made = json!({"message": "small", "messageExpression": "request.userInfo.username + '!'"});
        assert_eq!(decide(spec(made), large.clone()), denied("Invalid", "alice!"));
        let broken = json!({"message": "small", "messageExpression": "object.nonsense"});
        assert_eq!(decide(spec(broken), large), denied("Invalid", "small"));
    }

    #[test]
    fn what_fails_is_held_against_the_request_unless_it_is_to_be_ignored() {
        let spec = |policy: &str| {
            json!({"failurePolicy": policy, "variables": [{"name": "v", "expression": "object.absent"}],
                "validations": [{"expression": "variables.v == 1"}, {"expression": "true"}]})
        };
        let why = "expression 'variables.v == 1' resulted in error: composited variable \"v\" fails to evaluate: \
                   no such key: absent";
        assert_eq!(decide(spec("Fail"), json!({})), denied("", why));
        assert_eq!(decide(spec("Ignore"), json!({})), []);
    }

    #[test]
    fn a_condition_that_is_false_outweighs_one_that_fails() {
        let spec = |conditions: &[&str]| {
            let conditions: Vec<Json> = conditions.iter().map(|it| json!({"expression": it})).collect();
            json!({"matchConditions": conditions, "validations": [{"expression": "false"}]})
        };
        assert_eq!(decide(spec(&["object.absent == 1", "false"]), json!({})), []);
        assert_eq!(
            decide(spec(&["object.absent == 1", "true"]), json!({})),
            denied("", "expression 'object.absent == 1' resulted in error: no such key: absent")
        );
        assert_eq!(decide(spec(&["true"]), json!({})), denied("Invalid", "failed expression: false"));
    }
}

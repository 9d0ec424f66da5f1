//! The CEL expressions of admission policies and match conditions: their variables and their evaluation.
//!
//! Objects have no schema here: expressions see them as maps.

use std::rc::Rc;

use evenkeel_cel::{
    Access, AccessQuestion, Authorizer, Checked, Fault, Issues, OpaqueType, Type, Value, bounded, compile,
    compile_mutation, evaluate,
};

use super::environment::Environment;
use crate::depth::DEPTH_MAX;
use crate::json::Value as Json;
use crate::read::Read;

/// The highest cost of all validations for one request.
pub(super) const BUDGET: u64 = 10_000_000;
/// The highest cost of all match conditions for one request.
const CONDITIONS_BUDGET: u64 = 2_500_000;
pub(super) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
const OVER_LIMIT: &str = "operation cancelled: actual cost limit exceeded";

/// The variables of a policy's expressions, `authorizer` apart.
const NAMES: [&str; 6] = ["object", "oldObject", "request", "params", "namespaceObject", "variables"];

type Compile = fn(&str, &[(&str, Type)]) -> Result<Checked, Issues>;

/// The type that an expression must evaluate to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Bool,
    String,
    StringOrNull,
    /// An apply configuration.
    Object,
    /// A list of JSON patch operations.
    JsonPatches,
    Anything,
}

/// Checks that an expression compiles, and evaluates to the expected type.
pub(crate) fn check_expression(
    source: &str,
    environment: &Environment,
    expected: Expected,
) -> Result<(), String> {
    let variables = environment.types();
    let compile = match expected {
        Expected::Object | Expected::JsonPatches => compile_mutation,
        Expected::Bool | Expected::String | Expected::StringOrNull | Expected::Anything => compile,
    };
    let checked = compile(source, &variables).map_err(|issues| format!("compilation failed: {issues}"))?;
    let wanted = match expected {
        Expected::Bool => vec![Type::Bool],
        Expected::String => vec![Type::String],
        Expected::StringOrNull => vec![Type::String, Type::Null],
        Expected::Object => vec![Type::apply_configuration()],
        Expected::JsonPatches => vec![Type::list(Type::json_patch())],
        Expected::Anything => return Ok(()),
    };
    if wanted.contains(checked.result()) {
        return Ok(());
    }
    let result = declared_name(checked.result());
    let wanted: Vec<String> = wanted.iter().map(declared_name).collect();
    Err(match wanted.as_slice() {
        [one] => format!("must evaluate to {one} but got {result}"),
        several => format!("must evaluate to one of [{}] but got {result}", several.join(" ")),
    })
}

/// The name of a type as CEL declares it, which differs for null from the name in CEL's own messages.
fn declared_name(kind: &Type) -> String {
    if *kind == Type::Null { "null_type".to_owned() } else { kind.to_string() }
}

/// What happens to a request if an expression fails: the `failurePolicy` of a policy or a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailurePolicy {
    /// The request is refused.
    Fail,
    /// The policy or the webhook is skipped.
    Ignore,
}

impl FailurePolicy {
    /// Reads the `failurePolicy` of a policy's spec or of a webhook; `Fail` is the default.
    pub(super) fn of(object: &Json) -> Self {
        if object.str("failurePolicy") == "Ignore" { Self::Ignore } else { Self::Fail }
    }

    pub(super) fn is_fail(self) -> bool {
        self == Self::Fail
    }
}

/// The values of a policy's variables for one request.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The object as it would be stored; null for a deletion.
    pub object: &'a Json,
    /// The stored object; null for a creation.
    pub old: &'a Json,
    /// The attributes of the request: user, operation, resource and so on.
    pub request: &'a Json,
    /// The policy's parameter object, or null.
    pub params: &'a Json,
    /// The object's namespace, or null.
    pub namespace: &'a Json,
    /// Answers questions of expressions about access. Without it, such expressions fail.
    pub authorizer: Option<&'a dyn Authorizer>,
}

/// An expression, compiled once and run for each request.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) source: String,
    /// The checked expression, or why it does not compile: then every run fails.
    program: Result<Checked, String>,
}

impl Expression {
    pub(super) fn compile(source: &str) -> Self {
        Self::compile_by(compile, source)
    }

    /// Compiles an expression that may make the structs `Object` and `JSONPatch`.
    pub(super) fn compile_mutation(source: &str) -> Self {
        Self::compile_by(compile_mutation, source)
    }

    fn compile_by(compile: Compile, source: &str) -> Self {
        let mut variables: Vec<(&str, Type)> = NAMES.iter().map(|name| (*name, Type::Dyn)).collect();
        variables.push(("authorizer", Type::Opaque(OpaqueType::Authorizer)));
        let program = compile(source, &variables)
            .map_err(|issues| format!("compilation error: compilation failed: {issues}"));
        Self { source: source.to_owned(), program }
    }
}

/// Returns the access question for the resource of the request, which expressions ask by `authorizer.requestResource`.
fn requested(request: &Json) -> AccessQuestion {
    AccessQuestion {
        group: request.at("resource").str("group").to_owned(),
        resource: request.at("resource").str("resource").to_owned(),
        subresource: request.str("subResource").to_owned(),
        namespace: request.str("namespace").to_owned(),
        name: request.str("name").to_owned(),
        ..AccessQuestion::default()
    }
}

/// Why an expression has no value.
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

/// The variables of the expressions of one policy.
pub(super) struct Scope<'a> {
    values: Vec<(&'static str, Value<'a>)>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(inputs: &Inputs<'a>) -> Self {
        let mut values = vec![
            ("object", Value::dynamic(inputs.object)),
            ("oldObject", Value::dynamic(inputs.old)),
            ("request", Value::dynamic(inputs.request)),
            ("params", Value::dynamic(inputs.params)),
            ("namespaceObject", Value::dynamic(inputs.namespace)),
            ("variables", Value::fields([])),
        ];
        let access = inputs
            .authorizer
            .map(|authorizer| Value::Access(Rc::new(Access::new(authorizer, requested(inputs.request)))));
        values.extend(access.map(|access| ("authorizer", access)));
        Self { values }
    }

    /// Whether all conditions are true. A false condition takes precedence over one that fails.
    pub(super) fn conditions(
        &self,
        conditions: &'a [Expression],
        failure_policy: FailurePolicy,
    ) -> Result<bool, String> {
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
        match (problems.as_slice(), failure_policy) {
            ([], _) => Ok(true),
            (_, FailurePolicy::Ignore) => Ok(false),
            ([one], FailurePolicy::Fail) => Err(one.clone()),
            (several, FailurePolicy::Fail) => Err(format!("[{}]", several.join(", "))),
        }
    }

    /// Evaluates the policy's own variables in order. A variable that fails makes the expressions that use it fail.
    pub(super) fn define(&mut self, variables: &'a [(String, Expression)]) {
        let mut defined: Vec<(&str, Value<'a>)> = Vec::new();
        for (name, expression) in variables {
            let value = match self.evaluate(expression).and_then(|(value, _)| bounded(value, DEPTH_MAX)) {
                Ok(value) => value,
                Err(error) => Value::Failed(
                    format!("composited variable {name:?} fails to evaluate: {error}").as_str().into(),
                ),
            };
            defined.push((name, value));
            let variables = Value::fields(defined.iter().cloned());
            for (name, value) in &mut self.values {
                if *name == "variables" {
                    *value = variables.clone();
                }
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
        match evaluate(checked, &self.values) {
            (Ok(value), cost) => Ok((value, cost)),
            (Err(Fault::Limit), _) => Err(OVER_LIMIT.to_owned()),
            (Err(Fault::Error(error)), _) => Err(error),
        }
    }
}

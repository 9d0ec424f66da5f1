//! Checks the CEL rules of a definition: they must compile, and their estimated cost must stay within the limits.

use crate::json::json;

use evenkeel_scalars::go;

use super::program::{self, Compiled, Program};
use super::{declare, has_rules};
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::read::Read;
use crate::structural::compile;
use crate::types::Validation;

/// The highest estimated cost of one rule.
const RULE_COST_MAX: u64 = 10_000_000;
/// The highest estimated cost of all rules of a schema together.
const TOTAL_COST_MAX: u64 = 100_000_000;
/// How many of the most expensive rules an error names.
const NAMED_MAX: usize = 4;

/// The surroundings of the rules of one schema node.
pub(in crate::structural) struct RuleScope<'a> {
    /// Whether the node describes the whole object.
    pub(in crate::structural) root: bool,
    /// How often the value can occur in an object; `None` if nothing in the schema limits that.
    pub(in crate::structural) cardinality: Option<u64>,
    /// The nearest list above whose items have no keys, so that `oldSelf` cannot be found.
    pub(in crate::structural) uncorrelatable: Option<&'a str>,
}

/// The errors and the costs of the rules checked so far.
#[derive(Default)]
pub(in crate::structural) struct Report {
    errors: Vec<FieldError>,
    total: u64,
    expensive: Vec<(String, u64)>,
    /// Whether the cost of single rules is not checked, because the schema was stored before.
    forgive_cost: bool,
}

impl Report {
    pub(in crate::structural) fn new(forgive_cost: bool) -> Self {
        Report { forgive_cost, ..Report::default() }
    }

    /// Checks the rules of one schema node.
    pub(in crate::structural) fn check(&mut self, path: &Path<'_>, schema: &Value, scope: &RuleScope<'_>) {
        let compiled = compile::node(schema);
        debug_assert!(has_rules(&compiled), "only places with rules are checked");
        let list = path.child("x-kubernetes-validations");
        let view = declare::view_at(&compiled, scope.root);
        let Some(declared) = declare::declare(&view, "selfType") else {
            self.errors.push(FieldError::internal(
                list,
                "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations",
            ));
            return;
        };
        let cardinality = scope.cardinality.unwrap_or(declare::REQUEST_BYTES_MAX / (declared.bytes_min + 1));
        for (index, rule) in compiled.validations.iter().enumerate() {
            let path = list.index(index);
            let program = program::compile(rule, &view, &declared);
            self.costs(&path, &program, cardinality);
            self.problems(&path, rule, &program);
            self.old_self(&path, rule, &program, scope);
        }
    }

    fn costs(&mut self, path: &Path<'_>, compiled: &Compiled, cardinality: u64) {
        let cost = compiled.program().map_or(0, |program| program.cost_max.saturating_mul(cardinality));
        self.cost(&path.child("rule"), "estimated rule cost", cost);
    }

    fn cost(&mut self, path: &Path<'_>, what: &str, cost: u64) {
        if !self.forgive_cost && cost > RULE_COST_MAX {
            self.errors.push(FieldError::forbidden(path, exceeds(what, cost, RULE_COST_MAX)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_COST_MAX / 100 {
            self.expensive.push((path.to_string(), cost));
            self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.expensive.truncate(NAMED_MAX);
        }
    }

    fn problems(&mut self, path: &Path<'_>, rule: &Validation, compiled: &Compiled) {
        if let Some(Err(problem)) = &compiled.rule {
            self.errors.push(FieldError::invalid(path.child("rule"), print(rule), problem));
        }
        match &compiled.message {
            Some(Err(problem)) => {
                let at = path.child("messageExpression");
                self.errors.push(FieldError::invalid(at, print(rule), problem));
            }
            Some(Ok(Program { cost_max, .. })) => {
                self.cost(&path.child("messageExpression"), "estimated messageExpression cost", *cost_max);
            }
            None => {}
        }
    }

    fn old_self(&mut self, path: &Path<'_>, rule: &Validation, compiled: &Compiled, scope: &RuleScope<'_>) {
        match (compiled.uses_old_self(), scope.uncorrelatable, rule.optional_old_self) {
            (true, Some(list), _) => {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.errors.push(FieldError::invalid(path.child("rule"), rule.rule.as_str(), detail));
            }
            (false, _, Some(set)) => {
                let detail = "may not be set if oldSelf is not used in rule";
                self.errors.push(FieldError::invalid(path.child("optionalOldSelf"), set, detail));
            }
            _ => {}
        }
    }

    /// Returns all errors, those about the total cost last.
    pub(in crate::structural) fn finish(mut self, path: &Path<'_>) -> Vec<FieldError> {
        if self.total > TOTAL_COST_MAX {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            for (path, _) in self.expensive {
                self.errors.push(FieldError::forbidden(path, detail));
            }
            let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            self.errors.push(FieldError::forbidden(path, exceeds(what, self.total, TOTAL_COST_MAX)));
        }
        self.errors
    }
}

fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// Prints the rule as Go prints its struct.
fn print(rule: &Validation) -> BadValue {
    let reason = if rule.reason.is_empty() { Value::Null } else { json!(rule.reason) };
    let text = |text: &str| go::json(&json!(text));
    BadValue::Printed(format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        reason,
        text(&rule.field_path),
        rule.optional_old_self.map_or(Value::Null, Value::from),
    ))
}

/// How many items or entries a value of the schema can have; `None` if nothing limits them.
pub(in crate::structural) fn elements_max(schema: &Value) -> Option<u64> {
    let limit = |name: &str| schema.at(name).and_then(Value::as_i64).map(|limit| limit.max(0) as u64);
    match schema.str("type") {
        "object" if schema.has("additionalProperties") => limit("maxProperties"),
        "array" => limit("maxItems"),
        _ => Some(1),
    }
}

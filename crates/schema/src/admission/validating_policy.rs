//! Validating admission policies.

use evenkeel_cel::Value;

use super::expression::{BUDGET, Expression, FailurePolicy, Inputs, OUT_OF_BUDGET, Problem, Scope};
use crate::json::Value as Json;
use crate::read::Read;

/// The longest message that a `messageExpression` may make, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// One validation that a request fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The message for people.
    pub message: String,
    /// The machine-readable reason; empty if the evaluation failed.
    pub reason: String,
    /// The place of the validation among those of the policy; zero if the policy itself failed.
    pub index: usize,
}

/// The decision of a policy on a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The validations that the request fails. The binding decides whether they deny, warn or are audited.
    pub denials: Vec<Denial>,
    /// The audit annotations of the policy, each with its key.
    pub annotations: Vec<(String, String)>,
    /// The errors of audit annotations, for which the request is refused in any case.
    pub annotation_errors: Vec<String>,
}

/// A compiled `ValidatingAdmissionPolicy`.
#[derive(Debug)]
pub struct Policy {
    failure_policy: FailurePolicy,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    /// The keys of audit annotations with the expressions of their values.
    annotations: Vec<(String, Expression)>,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message_expression: Option<Expression>,
    message: String,
    reason: String,
}

impl Policy {
    /// Compiles the expressions of a policy's `spec`. One that does not compile fails every evaluation.
    pub fn compile(spec: &Json) -> Self {
        let all = |list: &str, field: &str| -> Vec<Expression> {
            spec.list(list).iter().map(|item| Expression::compile(item.str(field))).collect()
        };
        let variables = spec.list("variables").iter();
        Self {
            failure_policy: FailurePolicy::of(spec),
            conditions: all("matchConditions", "expression"),
            variables: variables
                .map(|it| (it.str("name").to_owned(), Expression::compile(it.str("expression"))))
                .collect(),
            validations: spec.list("validations").iter().map(Validation::compile).collect(),
            annotations: spec
                .list("auditAnnotations")
                .iter()
                .map(|it| (it.str("key").to_owned(), Expression::compile(it.str("valueExpression"))))
                .collect(),
        }
    }

    /// Evaluates the policy for a request that it matches.
    pub fn decide(&self, inputs: &Inputs<'_>) -> Verdict {
        let mut scope = Scope::new(inputs);
        match scope.conditions(&self.conditions, self.failure_policy) {
            Ok(true) => {}
            Ok(false) => return Verdict::default(),
            Err(problem) => return self.undecided(problem),
        }
        scope.define(&self.variables);
        let mut budget = BUDGET;
        let mut denials = Vec::new();
        for (index, validation) in self.validations.iter().enumerate() {
            match scope.run(&validation.expression, &mut budget) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => denials.push(Denial { index, ..validation.denial(&scope) }),
                Err(Problem::Failed(message)) if self.failure_policy.is_fail() => {
                    denials.push(Denial { message, reason: String::new(), index });
                }
                Err(Problem::Failed(_)) => {}
                Err(Problem::OutOfBudget) => return self.undecided(OUT_OF_BUDGET.to_owned()),
            }
        }
        let (annotations, annotation_errors) = self.annotate(&scope);
        Verdict { denials, annotations, annotation_errors }
    }

    /// The verdict if the policy cannot be evaluated.
    fn undecided(&self, message: String) -> Verdict {
        let denial = Denial { message, reason: String::new(), index: 0 };
        Verdict {
            denials: self.failure_policy.is_fail().then_some(denial).into_iter().collect(),
            ..Verdict::default()
        }
    }

    /// Runs the expressions of audit annotations. Returns the values that are to be recorded, and the errors.
    fn annotate(&self, scope: &Scope<'_>) -> (Vec<(String, String)>, Vec<String>) {
        let mut budget = BUDGET;
        let (mut annotations, mut problems) = (Vec::new(), Vec::new());
        for (key, annotation) in &self.annotations {
            match scope.run(annotation, &mut budget) {
                Ok(Value::String(text)) if !text.trim().is_empty() => {
                    annotations.push((key.clone(), text.trim().to_owned()));
                }
                Ok(Value::String(_) | Value::Null) => {}
                Ok(other) => problems.push(format!(
                    "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either \
                     string or null.",
                    annotation.source,
                    other.cel_type().runtime_name()
                )),
                Err(problem) if self.failure_policy.is_fail() => problems.push(problem.text()),
                Err(_) => {}
            }
        }
        (annotations, problems)
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
        Denial { message, reason, index: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn decide(spec: Json, object: Json) -> Vec<(String, String)> {
        let request = json!({"operation": "CREATE", "userInfo": {"username": "alice"}});
        let null = Json::Null;
        let inputs = Inputs {
            object: &object,
            old: &null,
            request: &request,
            params: &null,
            namespace: &null,
            authorizer: None,
        };
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

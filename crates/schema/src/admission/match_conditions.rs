//! The match conditions of a webhook.

use super::expression::{Expression, FailurePolicy, Inputs, Scope};
use crate::json::Value as Json;
use crate::read::Read;

/// The compiled `matchConditions` of a webhook.
#[derive(Debug)]
pub struct MatchConditions {
    failure_policy: FailurePolicy,
    expressions: Vec<Expression>,
}

impl MatchConditions {
    /// Compiles the match conditions of a webhook. One that does not compile fails every evaluation.
    pub fn compile(webhook: &Json) -> Self {
        let expressions = webhook.list("matchConditions").iter();
        Self {
            failure_policy: FailurePolicy::of(webhook),
            expressions: expressions.map(|it| Expression::compile(it.str("expression"))).collect(),
        }
    }

    /// Whether all conditions are true. Returns an error if a condition fails and the failure policy is `Fail`.
    pub fn hold(&self, inputs: &Inputs<'_>) -> Result<bool, String> {
        match self.expressions.as_slice() {
            [] => Ok(true),
            expressions => Scope::new(inputs).conditions(expressions, self.failure_policy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn hold(policy: &str, conditions: &[&str]) -> Result<bool, String> {
        let conditions: Vec<Json> = conditions.iter().map(|it| json!({"expression": it})).collect();
        let hook = json!({"failurePolicy": policy, "matchConditions": conditions});
        let (object, null) = (json!({"metadata": {"name": "a"}}), Json::Null);
        let inputs = Inputs {
            object: &object,
            old: &null,
            request: &null,
            params: &null,
            namespace: &null,
            authorizer: None,
        };
        MatchConditions::compile(&hook).hold(&inputs)
    }

    #[test]
    fn what_cannot_be_decided_is_left_to_the_failure_policy() {
        assert_eq!(hold("Fail", &[]), Ok(true));
        assert_eq!(hold("Fail", &["object.metadata.name == 'a'"]), Ok(true));
        assert_eq!(hold("Fail", &["object.absent == 1", "object.metadata.name == 'b'"]), Ok(false));
        assert_eq!(hold("Ignore", &["object.absent == 1"]), Ok(false));
        assert_eq!(
            hold("Fail", &["object.absent == 1"]),
            Err("expression 'object.absent == 1' resulted in error: no such key: absent".to_owned())
        );
    }
}

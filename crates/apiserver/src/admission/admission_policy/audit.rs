//! The audit annotations of ValidatingAdmissionPolicies.

use std::collections::BTreeMap;

use evenkeel_schema::admission::Denial;
use evenkeel_schema::json::Value;
use serde::Serialize;

use crate::admission_registration::Binding;
use crate::context::RequestContext;

/// The annotation of a failed validation whose binding has the action `Audit`.
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";
/// The number of bytes of an annotation value that are recorded, as in Kubernetes.
const VALUE_BYTES_MAX: usize = 10 * 1024;

/// A failed validation in an audit annotation. The fields are in Kubernetes' order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Failure<'a> {
    message: &'a str,
    policy: &'a str,
    binding: &'a str,
    expression_index: usize,
    validation_actions: &'a Value,
}

/// Records a failed validation as an audit annotation. As in Kubernetes, only the first one of a request is
/// recorded.
pub(super) fn note_failure(ctx: &RequestContext<'_>, policy: &str, binding: &Binding, denial: &Denial) {
    let Some(trail) = ctx.audit else { return };
    let failure = Failure {
        message: &denial.message,
        policy,
        binding: &binding.name,
        expression_index: denial.index,
        validation_actions: &binding.spec["validationActions"],
    };
    if let Ok(value) = serde_json::to_string(&[failure]) {
        trail.annotate(FAILURE, &value);
    }
}

/// The `auditAnnotations` of one policy, collected from all its bindings and parameters.
#[derive(Default)]
pub(super) struct Notes(BTreeMap<String, Vec<String>>);

impl Notes {
    /// Adds a value, unless another binding has added the same one.
    pub(super) fn add(&mut self, key: &str, value: &str) {
        let end = (0..=value.len().min(VALUE_BYTES_MAX)).rev().find(|it| value.is_char_boundary(*it));
        let value = &value[..end.unwrap_or_default()];
        let values = self.0.entry(key.to_owned()).or_default();
        if !values.iter().any(|it| it == value) {
            values.push(value.to_owned());
        }
    }

    /// Records the annotations, under keys that begin with the policy's name.
    pub(super) fn publish(self, ctx: &RequestContext<'_>, policy: &str) {
        let Some(trail) = ctx.audit else { return };
        for (key, values) in self.0 {
            trail.annotate(&format!("{policy}/{key}"), &values.join(", "));
        }
    }
}

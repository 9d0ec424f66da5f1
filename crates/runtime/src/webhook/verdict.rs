//! The decision of a webhook: the verdict on a request, and the mutation of its object.

use std::fmt;

use serde_json::{Value, json};

use super::field::FieldErrors;
use super::review::Admitted;
use crate::Object;

/// The verdict of a webhook on a request.
///
/// | verdict | what the user sees |
/// |---|---|
/// | [`Verdict::allow`] | nothing, or the [warnings](Verdict::warn) |
/// | [`Verdict::deny`] | `admission webhook "…" denied the request: …`, status 403 |
/// | [`Verdict::deny_with`] | the message with a status code and a reason of your choice |
/// | [`Verdict::invalid`] | status 422 with a cause for each field |
///
/// A function that returns an error or panics gives no verdict: the API server gets status 500, and the webhook's
/// [failure policy](super::FailurePolicy) decides.
///
/// ```
/// use evenkeel_runtime::webhook::Verdict;
///
/// assert!(Verdict::allow().warn("this class is deprecated").is_allowed());
/// assert_eq!(Verdict::deny("only administrators may do this").to_string(), "only administrators may do this");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Verdict {
    pub(super) refusal: Option<Refusal>,
    pub(super) warnings: Vec<String>,
    pub(super) audit_annotations: Vec<(String, String)>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Refusal {
    Denied { code: u16, reason: String, message: String },
    Invalid(FieldErrors),
}

/// The status of a plain denial, as in controller-runtime.
const FORBIDDEN: (u16, &str) = (403, "Forbidden");

impl Verdict {
    /// Allows the request.
    pub fn allow() -> Self {
        Self { refusal: None, warnings: Vec::new(), audit_annotations: Vec::new() }
    }

    /// Denies the request, with a message for the user.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::deny_with(FORBIDDEN.0, FORBIDDEN.1, message)
    }

    /// Denies the request with a status code and a reason for the `Status`, such as 409 and `Conflict`. Kubernetes
    /// replaces a code that is not an error by 400.
    pub fn deny_with(code: u16, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::refused(Refusal::Denied { code, reason: reason.into(), message: message.into() })
    }

    /// Denies the request because of errors in fields: status 422, reason `Invalid`, and a cause for each error. Allows
    /// the request if there are no errors.
    pub fn invalid(errors: FieldErrors) -> Self {
        if errors.is_empty() { Self::allow() } else { Self::refused(Refusal::Invalid(errors)) }
    }

    fn refused(refusal: Refusal) -> Self {
        Self { refusal: Some(refusal), ..Self::allow() }
    }

    /// Adds a warning, which `kubectl` prints. Kubernetes recommends at most 120 characters, and cuts off after 256.
    pub fn warn(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    /// Adds an annotation to the audit event of the request. The API server prefixes the key with the webhook's name.
    pub fn audit_annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.audit_annotations.push((key.into(), value.into()));
        self
    }

    /// Whether the request is allowed.
    pub fn is_allowed(&self) -> bool {
        self.refusal.is_none()
    }

    /// Returns the `Status` of a refusal, or `None` if the request is allowed.
    pub(super) fn status(&self, about: &Admitted) -> Option<Value> {
        match self.refusal.as_ref()? {
            Refusal::Denied { code, reason, message } => Some(json!({
                "status": "Failure", "code": code, "reason": reason, "message": message,
            })),
            Refusal::Invalid(errors) => Some(invalid(errors, about)),
        }
    }
}

/// Returns a `Status` like that of Kubernetes' `NewInvalid`.
fn invalid(errors: &FieldErrors, about: &Admitted) -> Value {
    let gvk = &about.kind;
    let qualified =
        if gvk.group.is_empty() { gvk.kind.clone() } else { format!("{}.{}", gvk.kind, gvk.group) };
    let causes = errors
        .iter()
        .map(|error| json!({ "reason": error.reason(), "message": error.message(), "field": error.field }));
    let name = Value::from(about.name.as_str());
    json!({
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": format!("{qualified} {name} is invalid: {}", errors.joined()),
        "details": {
            "name": name, "group": gvk.group, "kind": gvk.kind, "causes": causes.collect::<Vec<_>>(),
        },
    })
}

impl From<FieldErrors> for Verdict {
    fn from(errors: FieldErrors) -> Self {
        Self::invalid(errors)
    }
}

/// Prints why the request is refused, or `allowed`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.refusal {
            None => f.write_str("allowed"),
            Some(Refusal::Denied { message, .. }) => f.write_str(message),
            Some(Refusal::Invalid(errors)) => f.write_str(&errors.joined()),
        }
    }
}

/// The result of a mutating webhook that does more than change the object: an object with a verdict, or a refusal.
///
/// ```
/// use evenkeel_runtime::Result;
/// use evenkeel_runtime::webhook::{Admission, Mutation, Verdict};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// async fn default_owner(mut map: ConfigMap, request: Admission<ConfigMap>) -> Result<Mutation<ConfigMap>> {
///     let Some(user) = &request.user().username else { return Ok(Verdict::deny("who are you?").into()) };
///     map.metadata.annotations.get_or_insert_default().insert("owner".into(), user.clone());
///     Ok(Mutation::new(map).with(Verdict::allow().warn("the owner was set")))
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Mutation<K> {
    pub(super) object: Option<K>,
    pub(super) verdict: Verdict,
}

impl<K> Mutation<K> {
    /// Allows the request with this object.
    pub fn new(object: K) -> Self {
        Self { object: Some(object), verdict: Verdict::allow() }
    }

    /// Sets the verdict, for instance one with warnings. A refusal discards the object.
    pub fn with(mut self, verdict: Verdict) -> Self {
        self.verdict = verdict;
        self
    }
}

/// A verdict without a change of the object.
impl<K> From<Verdict> for Mutation<K> {
    fn from(verdict: Verdict) -> Self {
        Self { object: None, verdict }
    }
}

/// The result of a mutating function: the object, or a [`Mutation`].
#[diagnostic::on_unimplemented(
    message = "a mutating webhook of `{K}` cannot return `{Self}`",
    label = "expected the object, `{K}`, or `Mutation<{K}>`"
)]
pub trait IntoMutation<K> {
    /// Returns the result as a mutation.
    fn into_mutation(self) -> Mutation<K>;
}

impl<K: Object> IntoMutation<K> for K {
    fn into_mutation(self) -> Mutation<K> {
        Mutation::new(self)
    }
}

impl<K: Object> IntoMutation<K> for Mutation<K> {
    fn into_mutation(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use kube::core::GroupVersionKind;

    use super::*;

    #[test]
    fn field_errors_make_the_status_of_kubernetes() {
        let mut errors = FieldErrors::default();
        errors.invalid("spec.size", 2, "must be odd");
        let kind = GroupVersionKind::gvk("example.com", "v1", "Site");
        let about = Admitted { kind, name: "web".into(), ..Admitted::default() };
        assert_eq!(
            Verdict::invalid(errors).status(&about),
            Some(json!({
                "status": "Failure", "code": 422, "reason": "Invalid",
                "message": "Site.example.com \"web\" is invalid: spec.size: Invalid value: 2: must be odd",
                "details": {
                    "name": "web", "group": "example.com", "kind": "Site",
                    "causes": [{
                        "reason": "FieldValueInvalid", "message": "Invalid value: 2: must be odd",
                        "field": "spec.size",
                    }],
                },
            }))
        );
        assert_eq!(Verdict::invalid(FieldErrors::default()), Verdict::allow());
        let conflict = Verdict::deny_with(409, "Conflict", "taken").warn("w");
        let status = json!({ "status": "Failure", "code": 409, "reason": "Conflict", "message": "taken" });
        assert_eq!((conflict.status(&about), conflict.is_allowed()), (Some(status), false));
    }
}

//! The reviews that the API server sends and receives: `AdmissionReview` of `admission.k8s.io/v1` and
//! `ConversionReview` of `apiextensions.k8s.io/v1`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::core::{GroupVersionKind, GroupVersionResource};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::verdict::Verdict;

/// The version and kind of an admission review.
pub(super) const ADMISSION: (&str, &str) = ("admission.k8s.io/v1", "AdmissionReview");
/// The version and kind of a conversion review.
pub(super) const CONVERSION: (&str, &str) = ("apiextensions.k8s.io/v1", "ConversionReview");

/// The operation of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// The request creates the object.
    #[default]
    Create,
    /// The request updates the object, possibly by a patch.
    Update,
    /// The request deletes the object.
    Delete,
    /// The request connects to the object, as `kubectl exec` does.
    Connect,
}

/// The `request` of an admission review: the operation, the user, and the object.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Admitted {
    pub(super) uid: String,
    #[serde(default = "no_kind")]
    pub(super) kind: GroupVersionKind,
    #[serde(default = "no_resource")]
    pub(super) resource: GroupVersionResource,
    #[serde(default)]
    pub(super) sub_resource: Option<String>,
    #[serde(default)]
    pub(super) request_kind: Option<GroupVersionKind>,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: Option<String>,
    pub(super) operation: Operation,
    #[serde(default)]
    pub(super) user_info: UserInfo,
    #[serde(default)]
    pub(super) dry_run: Option<bool>,
    #[serde(default)]
    pub(super) options: Option<Value>,
    /// The new object, as text: a typed function parses it only once, into its type.
    #[serde(default)]
    pub(super) object: Option<Box<RawValue>>,
    #[serde(default)]
    pub(super) old_object: Option<Box<RawValue>>,
}

fn no_kind() -> GroupVersionKind {
    GroupVersionKind::gvk("", "", "")
}

fn no_resource() -> GroupVersionResource {
    GroupVersionResource::gvr("", "", "")
}

/// The `request` of a conversion review.
#[derive(Deserialize)]
pub(super) struct ConversionRequest<'a> {
    pub(super) uid: String,
    #[serde(rename = "desiredAPIVersion")]
    pub(super) desired_api_version: String,
    #[serde(borrow, default)]
    pub(super) objects: Vec<&'a RawValue>,
}

/// A review of either kind, with its request not parsed yet.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(borrow, default)]
    request: Option<&'a RawValue>,
}

/// Reads the request of a review of this version and kind. The error says what is wrong with the body.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8], wanted: (&str, &str)) -> Result<T, String> {
    if body.is_empty() {
        return Err("the request has no body".to_owned());
    }
    let text = std::str::from_utf8(body).map_err(|error| format!("the body is not UTF-8: {error}"))?;
    let review: Envelope<'_> =
        serde_json::from_str(text).map_err(|error| format!("the body is not a review: {error}"))?;
    let (version, kind) = wanted;
    if review.api_version != version || review.kind != kind {
        let (found_version, found_kind) = (&review.api_version, &review.kind);
        return Err(format!(
            "expected {kind} of {version}, and got kind {found_kind:?} of apiVersion {found_version:?}"
        ));
    }
    let request = review.request.ok_or_else(|| format!("the {kind} has no request"))?;
    serde_json::from_str(request.get()).map_err(|error| format!("the request of the {kind}: {error}"))
}

/// Returns the review that answers an admission request.
pub(super) fn admission_answer(about: &Admitted, verdict: &Verdict, patch: Option<Vec<u8>>) -> Value {
    let mut response = Map::new();
    response.insert("uid".into(), about.uid.as_str().into());
    response.insert("allowed".into(), verdict.is_allowed().into());
    if let Some(status) = verdict.status(about) {
        response.insert("status".into(), status);
    }
    if let Some(patch) = patch.filter(|_| verdict.is_allowed()) {
        response.insert("patch".into(), STANDARD.encode(patch).into());
        response.insert("patchType".into(), "JSONPatch".into());
    }
    if !verdict.warnings.is_empty() {
        response.insert("warnings".into(), verdict.warnings.clone().into());
    }
    if !verdict.audit_annotations.is_empty() {
        let annotations = verdict.audit_annotations.iter();
        let annotations: Map<String, Value> =
            annotations.map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        response.insert("auditAnnotations".into(), annotations.into());
    }
    answer(ADMISSION, response.into())
}

/// Returns the review that answers a conversion request: the converted objects, or the error.
pub(super) fn conversion_answer(uid: &str, converted: Result<Vec<Value>, String>) -> Value {
    let response = match converted {
        Ok(objects) => {
            json!({ "uid": uid, "result": { "status": "Success" }, "convertedObjects": objects })
        }
        Err(message) => json!({ "uid": uid, "result": { "status": "Failure", "message": message } }),
    };
    answer(CONVERSION, response)
}

fn answer((version, kind): (&str, &str), response: Value) -> Value {
    json!({ "apiVersion": version, "kind": kind, "response": response })
}

#[cfg(test)]
impl Default for Admitted {
    fn default() -> Self {
        let about = r#"{ "uid": "u", "operation": "CREATE" }"#;
        serde_json::from_str(about).expect("the fields that a request must have")
    }
}

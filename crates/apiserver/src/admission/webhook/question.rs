//! The AdmissionReview that is sent to a webhook.

use bytes::Bytes;
use evenkeel_schema::json::{Value, json};

use super::Asked;
use crate::admission::admission_policy::request;
use crate::admission::plugin::Admission;
use crate::admission_registration::Webhook;

/// An AdmissionReview to be sent.
pub(super) struct Question {
    review: Value,
}

impl Question {
    /// The API version of the review.
    pub(super) fn api_version(&self) -> &str {
        self.review["apiVersion"].as_str().unwrap_or_default()
    }

    /// The UID that the response must repeat.
    pub(super) fn uid(&self) -> &str {
        self.review["request"]["uid"].as_str().unwrap_or_default()
    }

    pub(super) fn body(&self) -> Bytes {
        self.review.to_string().into()
    }
}

/// Builds the review of a write, in the first version that the webhook accepts.
pub(super) fn new(admission: &Admission<'_>, hook: &Webhook, asked: &Asked) -> Result<Question, String> {
    let versions = hook.spec["admissionReviewVersions"].as_array();
    let mut versions = versions.into_iter().flatten().filter_map(Value::as_str);
    let version = versions.find(|it| matches!(*it, "v1" | "v1beta1")).ok_or(
        "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)",
    )?;
    let ctx = admission.ctx;
    let mut request = request(admission, &asked.matched);
    request["uid"] = ctx.services.env.uid().into();
    request["object"] = asked.object.clone();
    request["oldObject"] = asked.old.clone();
    let api_version = format!("admission.k8s.io/{version}");
    Ok(Question { review: json!({"kind": "AdmissionReview", "apiVersion": api_version, "request": request}) })
}

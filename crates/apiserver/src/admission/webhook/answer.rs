//! The response of a webhook.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_schema::json::Value;

use super::question::Question;
use crate::status::{Cause, Details, Status, quote};
use crate::{WebhookAnswer, webhook_client};

const V1: &str = "admission.k8s.io/v1";

/// A webhook's verdict on a request.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    /// The JSON patch, undecoded.
    pub(super) patch: Option<Vec<u8>>,
    pub(super) warnings: Vec<String>,
    /// The audit annotations of the webhook.
    pub(super) annotations: Vec<(String, String)>,
    /// The Status of a denial; otherwise null.
    status: Value,
}

/// Parses a response; fails if it is not a valid AdmissionReview.
pub(super) fn read(answer: &WebhookAnswer, question: &Question, mutating: bool) -> Result<Verdict, String> {
    let failed = |why: String| format!("failed to call webhook: {why}");
    if let Some(why) = webhook_client::refusal(answer) {
        return Err(failed(why));
    }
    let mut review: Value = serde_json::from_slice(&answer.body)
        .map_err(|error| failed(format!("couldn't get version/kind; json parse error: {error}")))?;
    verify(&mut review, question, mutating).map_err(|why| format!("received invalid webhook response: {why}"))
}

fn verify(review: &mut Value, question: &Question, mutating: bool) -> Result<Verdict, String> {
    let mut response = review["response"].take();
    if response.is_null() {
        return Err("webhook response was absent".to_owned());
    }
    let strict = question.api_version() == V1;
    if strict {
        verify_identity(review, &response, question)?;
    }
    let patch = response["patch"].as_str().unwrap_or_default();
    let kind = &response["patchType"];
    match (mutating, patch.is_empty(), kind.is_null()) {
        (false, false, _) if strict => {
            return Err("validating webhook may not return response.patch".to_owned());
        }
        (false, _, false) if strict => {
            return Err("validating webhook may not return response.patchType".to_owned());
        }
        (true, false, true) if strict => {
            return Err("webhook returned response.patch but not response.patchType".to_owned());
        }
        (true, true, false) if strict => {
            return Err("webhook returned response.patchType but not response.patch".to_owned());
        }
        (true, false, false) if kind != "JSONPatch" => {
            return Err(format!("unsupported patch type {}", quote(kind.as_str().unwrap_or_default())));
        }
        _ => {}
    }
    let patch = match mutating && !patch.is_empty() {
        true => Some(STANDARD.decode(patch).map_err(|error| error.to_string())?),
        false => None,
    };
    let warnings = response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let annotations = response["auditAnnotations"].as_object().into_iter().flatten();
    let annotations =
        annotations.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned())));
    let annotations: Vec<_> = annotations.collect();
    Ok(Verdict {
        allowed: response["allowed"] == true,
        patch,
        warnings: warnings.map(str::to_owned).collect(),
        annotations,
        status: response["status"].take(),
    })
}

/// Checks that the response has the UID and type of our request.
fn verify_identity(review: &Value, response: &Value, question: &Question) -> Result<(), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let given = text(&response["uid"]);
    if given != question.uid() {
        return Err(format!("expected response.uid={}, got {}", quote(question.uid()), quote(&given)));
    }
    let (version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    if version != V1 || kind != "AdmissionReview" {
        let wanted = "admission.k8s.io/v1, Kind=AdmissionReview";
        return Err(format!("expected webhook response of {wanted}, got {version}, Kind={kind}"));
    }
    Ok(())
}

/// The error that the client sees when a webhook denies a request.
pub(super) fn refusal(name: &str, verdict: &Verdict) -> Status {
    let status = &verdict.status;
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let denied = format!("admission webhook {} denied the request", quote(name));
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", why) | (why, _) => format!("{denied}: {why}"),
    };
    let code = status["code"].as_u64().and_then(|it| u16::try_from(it).ok()).unwrap_or_default();
    let refusal = Status::new(code.max(400), reason(text("reason")), message);
    match details(&status["details"]) {
        Some(details) => refusal.with(details),
        None => refusal,
    }
}

fn details(details: &Value) -> Option<Details> {
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let cause = |it: &Value| Cause {
        reason: text(it, "reason"),
        message: text(it, "message"),
        field: text(it, "field"),
    };
    details.is_object().then(|| Details {
        name: text(details, "name"),
        group: text(details, "group"),
        kind: text(details, "kind"),
        uid: text(details, "uid"),
        causes: details["causes"].as_array().into_iter().flatten().map(cause).collect(),
        retry_after_seconds: details["retryAfterSeconds"]
            .as_u64()
            .and_then(|it| it.try_into().ok())
            .unwrap_or(0),
    })
}

/// The reason, if it is one of the API's; a webhook's own reason is dropped.
fn reason(given: &str) -> &'static str {
    const KNOWN: [&str; 19] = [
        "Unauthorized",
        "Forbidden",
        "NotFound",
        "AlreadyExists",
        "Conflict",
        "Gone",
        "Invalid",
        "ServerTimeout",
        "StoreReadError",
        "Timeout",
        "TooManyRequests",
        "BadRequest",
        "MethodNotAllowed",
        "NotAcceptable",
        "RequestEntityTooLarge",
        "UnsupportedMediaType",
        "InternalError",
        "Expired",
        "ServiceUnavailable",
    ];
    KNOWN.into_iter().find(|it| *it == given).unwrap_or_default()
}

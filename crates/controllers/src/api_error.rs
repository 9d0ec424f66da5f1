//! What an error of the API server means to a controller.

use evenkeel_runtime::ContextError;
use evenkeel_runtime::error::ApiStatus;

/// Returns the message of the API server, or else that of the error.
pub(crate) fn message(error: &ContextError) -> String {
    match error.api_status() {
        Some(status) if !status.message.is_empty() => status.message.clone(),
        _ => error.to_string(),
    }
}

/// Whether a creation failed because the namespace is terminating.
pub(crate) fn namespace_is_terminating(error: &impl ApiStatus) -> bool {
    let details = error.api_status().and_then(|status| status.details.as_ref());
    details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
}

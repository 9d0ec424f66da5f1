//! What the server's refusals mean to a controller.

use evenkeel_runtime::ContextError;
use evenkeel_runtime::error::ApiStatus;

/// The server's own words, where it gave any.
pub(crate) fn message(error: &ContextError) -> String {
    match error.api_status() {
        Some(status) if !status.message.is_empty() => status.message.clone(),
        _ => error.to_string(),
    }
}

/// Whether a creation was refused because its namespace is being deleted.
pub(crate) fn namespace_is_terminating(error: &impl ApiStatus) -> bool {
    let details = error.api_status().and_then(|status| status.details.as_ref());
    details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
}

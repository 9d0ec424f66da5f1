//! The error of reads and writes through a [`Ctx`](crate::Ctx).

use kube::core::Status;

use super::chain;
use crate::owner::OwnerError;

/// An operation of a [`Ctx`](crate::Ctx) failed.
///
/// ```no_run
/// use evenkeel_runtime::{Ctx, ContextError};
/// use k8s_openapi::api::core::v1::Secret;
///
/// async fn save(ctx: &Ctx, secret: &Secret) -> Result<(), ContextError> {
///     match ctx.update(secret).await {
///         Err(error) if error.is_conflict() => Ok(()), // the next event brings the newer object
///         other => other.map(drop),
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// The API server refused the request, or could not be reached.
    #[error("{verb} {kind} {object}: {}", api_message(source))]
    Api {
        /// The operation, such as `apply`.
        verb: &'static str,
        /// The kind of the object.
        kind: String,
        /// The namespace and name of the object.
        object: String,
        /// The server's answer, or the error of the connection.
        source: Box<kube::Error>,
    },
    /// The controller declared no cache of the kind that was read.
    #[error(
        "read {kind}: the controller {controller:?} declares no cache of this kind; {}, or read from the server with ctx.fetch",
        declarations(kind, *known)
    )]
    Undeclared {
        /// The kind that was read.
        kind: String,
        /// The name of the controller.
        controller: String,
        /// Whether the kind has a Rust type of its own, unlike a `DynamicObject`.
        known: bool,
    },
    /// The cache has no index of this name. An empty answer would look as if there were no such objects.
    #[error(
        "read by index {index:?}: the cache has {}; declare it with Controller::index, Controller::owns (for owners) \
         or Source::index",
        listed(kept)
    )]
    UndeclaredIndex {
        /// The name of the missing index.
        index: String,
        /// The names of the indexes that the cache has.
        kept: Vec<String>,
    },
    /// The owner reference cannot be set.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The object to write has no name.
    #[error("{verb} {kind}: the object has no name")]
    Unnamed {
        /// The operation, such as `apply`.
        verb: &'static str,
        /// The kind of the object.
        kind: String,
    },
    /// The object cannot be written as JSON.
    #[error("encode {kind}")]
    Encode {
        /// The kind of the object.
        kind: String,
        /// The error of the serializer.
        source: serde_json::Error,
    },
    /// The write was not sent, because this process does not hold the leader lease.
    #[error("{verb} {kind} {object}: not sent, {why}")]
    Fenced {
        /// The operation, such as `apply`.
        verb: &'static str,
        /// The kind of the object.
        kind: String,
        /// The namespace and name of the object.
        object: String,
        /// Why the write was not sent.
        why: &'static str,
    },
}

/// Names the method of `Controller`, or the entry of `kinds!`, that declares the use of a kind.
fn declarations(kind: &str, known: bool) -> String {
    // A message may qualify the kind by its group: `Deployment.apps`.
    let name = kind.split('.').next().unwrap_or(kind);
    match known {
        true => format!(
            "add .owns::<{name}>() to it if it creates these objects, .watches::<{name}>(trigger) if it reacts to them, or \
             .reads::<{name}>() if it only reads them"
        ),
        false => "add .owns_with(source) to it if it creates these objects, .watches_with(source, trigger) if it reacts to \
                  them, or .reads_with(source) if it only reads them"
            .into(),
    }
}

/// Joins names for an error message.
fn listed(names: &[String]) -> String {
    match names {
        [] => "none".into(),
        names => names.join(", "),
    }
}

fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => chain(other),
    }
}

impl ContextError {
    /// The `Status` that the API server answered with, if it answered.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the API server found no such object.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// Whether an object of this name already exists.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// Whether another writer changed the object since it was read.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "Conflict")
    }

    /// Whether the API server rejects the object itself, so that sending the same object again cannot succeed.
    ///
    /// A denial by an admission webhook is not such a rejection: it has the same status code, but the webhook may allow the
    /// request later, when something else has changed.
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(|status| {
            matches!(status.code, 400 | 422) && !status.message.starts_with("admission webhook \"")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, message: &str) -> ContextError {
        let status = kube::core::Status::failure(message, "Invalid").with_code(code);
        let source = Box::new(kube::Error::Api(Box::new(status)));
        ContextError::Api { verb: "create", kind: "Pod".into(), object: "a".into(), source }
    }

    #[test]
    fn a_webhook_may_allow_later_what_it_denies() {
        assert!(refused(422, "Pod \"a\" is invalid: spec: Required value").is_invalid());
        assert!(!refused(409, "conflict").is_invalid());
        for code in [400, 422] {
            assert!(
                !refused(code, "admission webhook \"w.example.com\" denied the request: later").is_invalid()
            );
        }
    }
}

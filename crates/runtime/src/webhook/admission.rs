//! The request that a webhook's function reviews.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::UserInfo;
use kube::core::{GroupVersionKind, GroupVersionResource};
use serde_json::Value;

use super::review::{Admitted, Operation};

/// A request to the API server under review by a webhook: the operation, the user, and the old object.
///
/// The object itself is the first argument of the function. `S` is the state that was set by
/// [`Webhook::state`](super::Webhook::state).
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_runtime::Result;
/// use evenkeel_runtime::webhook::{Admission, Operation, Verdict};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// async fn keep(map: Arc<ConfigMap>, request: Admission<ConfigMap>) -> Result<Verdict> {
///     let user = request.user().username.as_deref().unwrap_or_default();
///     Ok(match (request.operation(), request.old()) {
///         (Operation::Delete, _) if user != "system:admin" => Verdict::deny("only admins delete this"),
///         (Operation::Update, Some(old)) if old.data != map.data => Verdict::allow().warn("the data changes"),
///         _ => Verdict::allow(),
///     })
/// }
/// ```
pub struct Admission<K, S = ()> {
    pub(super) about: Arc<Admitted>,
    pub(super) old: Option<Arc<K>>,
    pub(super) state: Arc<S>,
}

impl<K, S> Admission<K, S> {
    /// The operation of the request.
    pub fn operation(&self) -> Operation {
        self.about.operation
    }

    /// The object before an update or a deletion.
    pub fn old(&self) -> Option<&Arc<K>> {
        self.old.as_ref()
    }

    /// The user who made the request.
    pub fn user(&self) -> &UserInfo {
        &self.about.user_info
    }

    /// The subresource that the request addresses, such as `status`.
    pub fn subresource(&self) -> Option<&str> {
        self.about.sub_resource.as_deref().filter(|name| !name.is_empty())
    }

    /// Whether the request is a dry run: nothing will be stored, and the function must have no side effects.
    pub fn dry_run(&self) -> bool {
        self.about.dry_run.unwrap_or_default()
    }

    /// The name of the object; empty on creation with `generateName`.
    pub fn name(&self) -> &str {
        &self.about.name
    }

    /// The namespace of the request.
    pub fn namespace(&self) -> Option<&str> {
        self.about.namespace.as_deref().filter(|namespace| !namespace.is_empty())
    }

    /// The kind and version in which the API server sends the object.
    pub fn kind(&self) -> &GroupVersionKind {
        &self.about.kind
    }

    /// The resource, in the version in which the API server sends the object.
    pub fn resource(&self) -> &GroupVersionResource {
        &self.about.resource
    }

    /// The kind and version of the user's request. The version can differ from that of the object; see
    /// [`MatchPolicy`](super::MatchPolicy).
    pub fn request_kind(&self) -> &GroupVersionKind {
        self.about.request_kind.as_ref().unwrap_or(&self.about.kind)
    }

    /// The options of the request: `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    pub fn options(&self) -> Option<&Value> {
        self.about.options.as_ref()
    }

    /// The id of this review, which appears in the logs of the API server.
    pub fn uid(&self) -> &str {
        &self.about.uid
    }

    /// The state of the webhook.
    pub fn state(&self) -> &S {
        &self.state
    }
}

/// Clones share one request.
impl<K, S> Clone for Admission<K, S> {
    fn clone(&self) -> Self {
        Self { about: self.about.clone(), old: self.old.clone(), state: self.state.clone() }
    }
}

/// Leaves out the objects, which may be Secrets.
impl<K, S> fmt::Debug for Admission<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("operation", &self.operation())
            .field("resource", self.resource())
            .field("subresource", &self.subresource())
            .field("namespace", &self.namespace())
            .field("name", &self.name())
            .field("user", &self.user().username)
            .field("dry_run", &self.dry_run())
            .finish_non_exhaustive()
    }
}

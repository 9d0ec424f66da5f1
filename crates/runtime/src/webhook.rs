//! Webhooks: functions that review and change objects before the API server stores them, and functions that convert
//! objects between the versions of a kind.
//!
//! ```
//! use std::sync::Arc;
//! use evenkeel_runtime::webhook::{Admission, FieldErrors, Verdict, Webhook};
//! use evenkeel_runtime::{Manager, Result};
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! /// Every ConfigMap has an owner.
//! async fn default_owner(mut map: ConfigMap, request: Admission<ConfigMap>) -> Result<ConfigMap> {
//!     let user = request.user().username.clone().unwrap_or_default();
//!     map.metadata.annotations.get_or_insert_default().entry("owner".into()).or_insert(user);
//!     Ok(map)
//! }
//!
//! /// The size is a number, and does not shrink.
//! async fn check_size(map: Arc<ConfigMap>, request: Admission<ConfigMap>) -> Result<Verdict> {
//!     let size = |map: &ConfigMap| map.data.as_ref()?.get("size")?.parse::<u32>().ok();
//!     let mut errors = FieldErrors::default();
//!     match (size(&map), request.old().and_then(|old| size(old))) {
//!         (None, _) => drop(errors.required("data.size", "must be a number")),
//!         (Some(new), Some(old)) if new < old => drop(errors.invalid("data.size", new, "cannot shrink")),
//!         _ => {}
//!     }
//!     Ok(errors.into())
//! }
//!
//! # fn example(manager: Manager) -> Manager {
//! manager.webhook(Webhook::mutate(default_owner)).webhook(Webhook::validate(check_size))
//! # }
//! ```
//!
//! With the feature `webhook-server`, `Manager::webhook_server` serves the webhooks over TLS, with certificates that
//! need no other component. [`Manager::take_webhooks`](crate::Manager::take_webhooks) instead returns all webhooks of a
//! manager as one [`tower::Service`], which answers the reviews of the API server and needs no socket. The caller then
//! serves it, and creates the [configurations](Webhooks::configurations) that tell the API server where to call it.
//!
//! | what | type |
//! |---|---|
//! | the function and its options | [`Webhook`] |
//! | the request | [`Admission`] |
//! | the answer | [`Verdict`], [`FieldErrors`], [`Mutation`] |
//! | versions of a kind | [`Convertible`], [`Conversion`] |
//! | all webhooks as one service | [`Webhooks`] |
//! | where the API server calls it | [`Endpoint`] |
//! | the server and its certificates | `WebhookServer`, `Certificates` |

mod admission;
#[cfg(feature = "webhook-server")]
mod certificates;
mod configuration;
mod conversion;
mod field;
mod function;
mod options;
mod patch;
mod review;
#[cfg(feature = "webhook-server")]
mod server;
mod service;
#[cfg(feature = "webhook-server")]
mod serving;
mod verdict;

pub use admission::Admission;
#[cfg(feature = "webhook-server")]
pub use certificates::Certificates;
pub use configuration::Endpoint;
pub(crate) use configuration::{
    Entry, configurations, conversion as conversion_at, secret_name, service_name,
};
pub(crate) use conversion::Converter;
pub use conversion::{Conversion, ConversionError, Convertible};
pub use field::{FieldError, FieldErrorType, FieldErrors};
pub use function::{MutateFn, ValidateFn};
pub use options::{FailurePolicy, MatchPolicy, Reinvocation, Scope, SideEffects};
pub use review::Operation;
#[cfg(feature = "webhook-server")]
pub(crate) use server::{Server, Stop};
pub use service::Webhooks;
#[cfg(feature = "webhook-server")]
pub use serving::WebhookServer;
pub use verdict::{IntoMutation, Mutation, Verdict};

use std::fmt;
use std::sync::Arc;

use kube::core::ApiResource;

use crate::Object;
use function::Review;
use options::Options;

/// An admission webhook: a function that reviews requests for objects of one kind, with its options.
///
/// | constructor | the function |
/// |---|---|
/// | [`Webhook::validate`] | `async fn(Arc<K>, Admission<K, S>) -> Result<Verdict>` allows or refuses |
/// | [`Webhook::mutate`] | `async fn(K, Admission<K, S>) -> Result<K>` changes the object |
///
/// `K` is a type of `k8s_openapi` or a derived kind. [`Webhook::validate_with`] and [`Webhook::mutate_with`] take a
/// kind that is known only at run time, with `DynamicObject`. `S` is the state, which [`Webhook::state`] sets; a
/// function that takes an `Admission<K>` needs none.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use evenkeel_runtime::Result;
/// use evenkeel_runtime::webhook::{Admission, Operation, Verdict, Webhook};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// async fn has_data(map: Arc<ConfigMap>, _: Admission<ConfigMap>) -> Result<Verdict> {
///     Ok(if map.data.is_some() { Verdict::allow() } else { Verdict::deny("a ConfigMap needs data") })
/// }
///
/// # fn example(manager: evenkeel_runtime::Manager) -> evenkeel_runtime::Manager {
/// let webhook = Webhook::validate(has_data).operations([Operation::Create]).timeout(Duration::from_secs(5));
/// manager.webhook(webhook)
/// # }
/// ```
#[must_use = "a webhook runs in a manager: `manager.webhook(webhook)`"]
pub struct Webhook<S = ()> {
    action: Action,
    resource: ApiResource,
    options: Options,
    review: Review<S>,
}

/// What a webhook does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    Mutate,
    Validate,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

impl<S: Send + Sync + 'static> Webhook<S> {
    /// A webhook that allows or refuses requests for objects of kind `K`. The function receives the new object or, on a
    /// deletion, the deleted object.
    pub fn validate<K: Object<DynamicType: Default>>(function: impl ValidateFn<K, S>) -> Self {
        Self::validate_with(&K::DynamicType::default(), function)
    }

    /// A webhook that allows or refuses requests for objects of a kind that is known at run time.
    pub fn validate_with<K: Object>(dynamic: &K::DynamicType, function: impl ValidateFn<K, S>) -> Self {
        Self::assemble::<K>(Action::Validate, dynamic, function::validating(function))
    }

    /// A webhook that changes objects of kind `K`. The function receives the new object and returns it changed. The
    /// patch sent to the API server contains only what the function changed: fields that the type `K` does not know
    /// stay as they are.
    pub fn mutate<K: Object<DynamicType: Default>>(function: impl MutateFn<K, S>) -> Self {
        Self::mutate_with(&K::DynamicType::default(), function)
    }

    /// A webhook that changes objects of a kind that is known at run time.
    pub fn mutate_with<K: Object>(dynamic: &K::DynamicType, function: impl MutateFn<K, S>) -> Self {
        Self::assemble::<K>(Action::Mutate, dynamic, function::mutating(function))
    }

    fn assemble<K: Object>(action: Action, dynamic: &K::DynamicType, review: Review<S>) -> Self {
        let resource = ApiResource::erase::<K>(dynamic);
        Self { action, resource, options: Options::default(), review }
    }

    /// Sets the state that the function reads from its request: an `S`, or a shared `Arc<S>`.
    pub fn state(self, state: impl Into<Arc<S>>) -> Webhook {
        let (review, state) = (self.review, state.into());
        let review: Review<()> = Arc::new(move |about, _| review(about, state.clone()));
        Webhook { action: self.action, resource: self.resource, options: self.options, review }
    }
}

impl<S> Webhook<S> {
    /// The path that the API server calls.
    pub(crate) fn url_path(&self) -> String {
        let ApiResource { group, version, kind, .. } = &self.resource;
        let usual = || {
            let group = group.replace('.', "-");
            format!("/{}-{group}-{version}-{}", self.action.word(), kind.to_lowercase())
        };
        self.options.path.clone().unwrap_or_else(usual)
    }

    /// The webhook's name in the configuration. Kubernetes requires at least three labels separated by dots.
    pub(crate) fn qualified_name(&self) -> String {
        let ApiResource { group, plural, .. } = &self.resource;
        let group = if group.is_empty() { "core" } else { group };
        let usual = || format!("{}.{plural}.{group}", self.action.word());
        self.options.name.clone().unwrap_or_else(usual)
    }
}

/// A webhook that is ready to run, as [`Manager::webhook`](crate::Manager::webhook) takes it.
///
/// Every webhook whose function needs no state implements it, and [`Webhook::state`] returns one for all others.
#[diagnostic::on_unimplemented(
    message = "this webhook has no state yet, which its function asks for",
    label = "call `.state(…)` on this webhook first",
    note = "the function takes an `Admission<K, S>`; `Webhook::state` gives the `S`"
)]
pub trait IntoWebhook: sealed::Sealed {
    /// Returns the webhook.
    fn into_webhook(self) -> Webhook;
}

impl IntoWebhook for Webhook {
    fn into_webhook(self) -> Webhook {
        self
    }
}

mod sealed {
    pub trait Sealed {}
    impl<S> Sealed for super::Webhook<S> {}
}

impl<S> fmt::Debug for Webhook<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("name", &self.qualified_name())
            .field("path", &self.url_path())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

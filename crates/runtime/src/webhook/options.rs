//! The options of an admission webhook, as in the configuration objects of `admissionregistration.k8s.io`.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::Webhook;
use super::review::Operation;

/// What happens to a request if the webhook cannot be called, fails, panics, or sends an invalid response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailurePolicy {
    /// The request fails.
    #[default]
    Fail,
    /// The request continues as if the webhook had allowed it.
    Ignore,
}

/// Whether a webhook for one version of a kind also reviews requests in other versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatchPolicy {
    /// Requests in other versions are converted to the webhook's version and reviewed.
    #[default]
    Equivalent,
    /// Requests in other versions are not reviewed.
    Exact,
}

/// Whether the function changes anything besides the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SideEffects {
    /// The function changes nothing besides the object.
    #[default]
    None,
    /// The function changes other things, but not on a [dry run](super::Admission::dry_run).
    NoneOnDryRun,
}

/// Whether a mutating webhook is called again after a later webhook changed the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reinvocation {
    /// The webhook is called once.
    #[default]
    Never,
    /// The webhook may be called again. For an object that it has already changed, its function must return that object
    /// unchanged.
    IfNeeded,
}

/// Which requests are reviewed, by the scope of their object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// All requests.
    #[default]
    All,
    /// Requests for objects without a namespace.
    Cluster,
    /// Requests for objects in a namespace.
    Namespaced,
}

macro_rules! words {
    ($($policy:ident: $($value:ident => $word:literal),*;)*) => {
        $(impl $policy {
            pub(super) fn word(self) -> &'static str {
                match self { $(Self::$value => $word),* }
            }
        })*
    };
}

words! {
    FailurePolicy: Fail => "Fail", Ignore => "Ignore";
    MatchPolicy: Equivalent => "Equivalent", Exact => "Exact";
    SideEffects: None => "None", NoneOnDryRun => "NoneOnDryRun";
    Reinvocation: Never => "Never", IfNeeded => "IfNeeded";
    Scope: All => "*", Cluster => "Cluster", Namespaced => "Namespaced";
}

/// How long the API server waits for a webhook by default: Kubernetes' default.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest timeout that Kubernetes accepts for a webhook.
pub(super) const TIMEOUT_MAX: Duration = Duration::from_secs(30);

/// The options of a webhook.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) name: Option<String>,
    pub(super) path: Option<String>,
    pub(super) operations: Vec<Operation>,
    pub(super) subresources: Vec<String>,
    pub(super) scope: Scope,
    pub(super) failure_policy: FailurePolicy,
    pub(super) match_policy: MatchPolicy,
    pub(super) side_effects: SideEffects,
    pub(super) reinvocation: Reinvocation,
    pub(super) timeout: Duration,
    pub(super) namespace_selector: Option<LabelSelector>,
    pub(super) object_selector: Option<LabelSelector>,
    /// The names and CEL expressions of match conditions.
    pub(super) match_conditions: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            path: None,
            operations: vec![Operation::Create, Operation::Update],
            subresources: Vec::new(),
            scope: Scope::default(),
            failure_policy: FailurePolicy::default(),
            match_policy: MatchPolicy::default(),
            side_effects: SideEffects::default(),
            reinvocation: Reinvocation::default(),
            timeout: TIMEOUT,
            namespace_selector: None,
            object_selector: None,
            match_conditions: Vec::new(),
        }
    }
}

impl<S> Webhook<S> {
    /// Sets the name in the configuration, which users see in refusals: at least three labels separated by dots. The
    /// default is `validate.sites.example.com`, or `mutate.…`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// Sets the path. The default is kubebuilder's: `/validate-example-com-v1-site`, or `/mutate-…`.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.options.path = Some(path.into());
        self
    }

    /// Sets which operations are reviewed. The default is creations and updates.
    pub fn operations(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.options.operations = operations.into_iter().collect();
        self
    }

    /// Also reviews requests for these subresources, such as `status`, or `*` for all. The object in such a request
    /// must be of the webhook's kind, so `scale` needs a webhook of its own.
    pub fn subresources<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.options.subresources.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the scope of the reviewed objects. The default is all.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.options.scope = scope;
        self
    }

    /// Sets what happens if the webhook gives no verdict. By default, the request fails.
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.options.failure_policy = policy;
        self
    }

    /// Sets whether requests in other versions of the kind are reviewed. By default, they are.
    pub fn match_policy(mut self, policy: MatchPolicy) -> Self {
        self.options.match_policy = policy;
        self
    }

    /// Sets whether the function has side effects. The default is none.
    pub fn side_effects(mut self, effects: SideEffects) -> Self {
        self.options.side_effects = effects;
        self
    }

    /// Sets whether a mutating webhook may be called again for one request. By default, it is called once.
    pub fn reinvocation(mut self, policy: Reinvocation) -> Self {
        self.options.reinvocation = policy;
        self
    }

    /// Sets how long the API server waits for the verdict: from 1 to 30 seconds, 10 by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout.clamp(Duration::from_secs(1), TIMEOUT_MAX);
        self
    }

    /// Reviews only objects in namespaces with these labels. A webhook for a built-in kind that is called through a
    /// Service never reviews the namespace of that Service; see [`Endpoint::service`](super::Endpoint::service).
    pub fn namespace_selector(mut self, selector: LabelSelector) -> Self {
        self.options.namespace_selector = Some(selector);
        self
    }

    /// Reviews only objects with these labels.
    pub fn object_selector(mut self, selector: LabelSelector) -> Self {
        self.options.object_selector = Some(selector);
        self
    }

    /// Reviews only requests for which this CEL expression is true. If there are several conditions, all must be true.
    pub fn match_condition(mut self, name: impl Into<String>, expression: impl Into<String>) -> Self {
        self.options.match_conditions.push((name.into(), expression.into()));
        self
    }
}

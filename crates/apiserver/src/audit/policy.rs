//! The audit policy: which requests are recorded, and how much of each.
//!
//! The first rule that matches a request decides. A request that no rule matches is not recorded.

use crate::User;
use crate::access::Target;

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// The request is not recorded.
    None,
    /// The event says who requested what and how the server answered, without bodies.
    Metadata,
    /// Adds the request body to [`Level::Metadata`].
    Request,
    /// Adds the response body to [`Level::Request`].
    RequestResponse,
}

/// The point in a request's life at which an event is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The request has arrived; the server has not processed it yet.
    RequestReceived,
    /// The response headers are about to be sent. Recorded for long-running requests only, such as a watch.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
    /// The server panicked while it served the request.
    Panic,
}

impl Level {
    pub(super) const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// The level's name in policies and events.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

impl Stage {
    pub(super) const ALL: [Self; 4] =
        [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    /// The stage's name in policies and events.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// Which requests are recorded, and how much of each.
///
/// ```
/// use evenkeel_apiserver::AuditPolicy;
/// let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
/// let (policy, warnings) = AuditPolicy::parse(text.as_bytes())?;
/// assert!(warnings.is_empty());
/// # drop(policy);
/// # Ok::<(), evenkeel_apiserver::AuditPolicyError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AuditPolicy {
    pub(super) rules: Vec<Rule>,
    pub(super) omit_managed_fields: bool,
}

/// One rule of a policy. A request matches if it matches every field that is not empty.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) level: Level,
    pub(super) users: Vec<String>,
    pub(super) user_groups: Vec<String>,
    pub(super) verbs: Vec<String>,
    pub(super) resources: Vec<GroupResources>,
    /// The namespaces that match; the empty string matches cluster-scoped resources.
    pub(super) namespaces: Vec<String>,
    pub(super) non_resource_urls: Vec<String>,
    /// The stages that this rule or the whole policy omits.
    pub(super) omit_stages: Stages,
    /// Overrides the policy's `omitManagedFields`.
    pub(super) omit_managed_fields: Option<bool>,
}

/// A set of resources in one API group.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupResources {
    /// The API group: empty for the core group, `*` for every group.
    pub(super) group: String,
    /// Resource patterns: `pods`, `pods/log`, `pods/*`, `*/log` or `*`. An empty list matches everything in
    /// the group.
    pub(super) resources: Vec<String>,
    pub(super) resource_names: Vec<String>,
}

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stages(u8);

impl Stages {
    pub(super) fn insert(&mut self, stage: Stage) {
        self.0 |= 1 << stage as u8;
    }

    pub(super) fn contains(self, stage: Stage) -> bool {
        self.0 & 1 << stage as u8 != 0
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What the policy says about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recording {
    pub(super) level: Level,
    pub(super) omit_stages: Stages,
    pub(super) omit_managed_fields: bool,
}

impl AuditPolicy {
    /// Decides how a request is recorded; `None` if it is not. `user` is `None` if authentication failed.
    pub(super) fn evaluate(&self, user: Option<&User>, verb: &str, target: &Target<'_>) -> Option<Recording> {
        let rule = self.rules.iter().find(|rule| rule.matches(user, verb, target))?;
        (rule.level != Level::None).then(|| Recording {
            level: rule.level,
            omit_stages: rule.omit_stages,
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
        })
    }
}

impl Rule {
    fn matches(&self, user: Option<&User>, verb: &str, target: &Target<'_>) -> bool {
        let is_user = self.users.is_empty() || user.is_some_and(|user| self.users.contains(&user.name));
        let is_in = |user: &User| user.groups.iter().any(|group| self.user_groups.contains(group));
        let is_group = self.user_groups.is_empty() || user.is_some_and(is_in);
        let is_verb = self.verbs.is_empty() || holds(&self.verbs, verb);
        is_user && is_group && is_verb && self.matches_target(target)
    }

    fn matches_target(&self, target: &Target<'_>) -> bool {
        let names_resources = !self.namespaces.is_empty() || !self.resources.is_empty();
        match *target {
            Target::Resource { namespace, .. } if names_resources => {
                let is_namespace = self.namespaces.is_empty() || holds(&self.namespaces, namespace);
                is_namespace
                    && (self.resources.is_empty() || self.resources.iter().any(|it| it.matches(target)))
            }
            Target::Path(_) if names_resources => false,
            Target::Resource { .. } => self.non_resource_urls.is_empty(),
            Target::Path(path) => {
                self.non_resource_urls.is_empty()
                    || self.non_resource_urls.iter().any(|pattern| matches_path(pattern, path))
            }
        }
    }
}

impl GroupResources {
    fn matches(&self, target: &Target<'_>) -> bool {
        let Target::Resource { group, resource, subresource, name, .. } = *target else { return false };
        if self.group != group && self.group != "*" {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let is_name = self.resource_names.is_empty() || holds(&self.resource_names, name);
        is_name && self.resources.iter().any(|pattern| matches_resource(pattern, resource, subresource))
    }
}

/// Whether the resource pattern of a rule matches a resource or subresource. `pods` matches no subresource of
/// pods, `*` matches everything.
fn matches_resource(pattern: &str, resource: &str, subresource: &str) -> bool {
    match pattern.split_once('/') {
        // In Kubernetes, `pods/*` also matches pods themselves.
        Some((wanted, "*")) if wanted == resource => true,
        Some(("*", part)) if !subresource.is_empty() && part == subresource => true,
        Some((wanted, part)) => wanted == resource && part == subresource && !subresource.is_empty(),
        None => pattern == "*" || subresource.is_empty() && pattern == resource,
    }
}

fn matches_path(pattern: &str, path: &str) -> bool {
    pattern == path || pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*'))
}

fn holds(list: &[String], text: &str) -> bool {
    list.iter().any(|it| it == text)
}

#[cfg(test)]
mod tests;

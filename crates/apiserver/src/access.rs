//! The interface of authorization: the attributes of a request, and the trait that decides on them.

mod rule;

pub use rule::Rule;
pub(crate) use rule::missing;

use evenkeel_request_info::ResourcePath;

use crate::User;

/// The attributes of a request on which authorization decides.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    /// The user who makes the request.
    pub user: &'a User,
    /// The verb: `get`, `list`, `create`, …; for a path that is not a resource, the HTTP method in lower
    /// case.
    pub verb: &'a str,
    /// The resource or path that the request addresses.
    pub target: Target<'a>,
}

/// The resource or path that a request addresses.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// Objects of the API.
    Resource {
        /// The API group; empty for the core group.
        group: &'a str,
        /// The API version.
        version: &'a str,
        /// The plural name of the resource.
        resource: &'a str,
        /// The subresource; empty if the request addresses the object itself.
        subresource: &'a str,
        /// The namespace; empty for cluster-scoped resources and requests across all namespaces.
        namespace: &'a str,
        /// The object's name; empty for a collection. A list or watch with the field selector `metadata.name`
        /// has a name too.
        name: &'a str,
    },
    /// Any other path, such as `/healthz`.
    Path(&'a str),
}

impl<'a> Target<'a> {
    /// The target for a path: the object with this name, or the collection if the name is empty.
    pub(crate) fn resource(path: &'a ResourcePath<'_>, name: &'a str) -> Self {
        Self::Resource {
            group: &path.group,
            version: &path.version,
            resource: &path.resource,
            subresource: &path.subresource,
            namespace: path.request_namespace(),
            name,
        }
    }
}

/// The decision of an [`Authorizer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed. The reason appears in access reviews and may be empty.
    Allow(String),
    /// The request is denied. The reason is shown to the client and may be empty.
    Deny(String),
}

/// Decides whether a request is allowed.
pub trait Authorizer: Send + Sync {
    /// Decides on one request. It must not block; it reads only what is in memory.
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision;

    /// Every rule that applies to a user in a namespace; empty if the authorizer does not work with rules.
    fn rules(&self, user: &User, namespace: &str) -> Vec<Rule> {
        let _ = (user, namespace);
        Vec::new()
    }

    /// The rules that a binding in `namespace` to this Role or ClusterRole grants; `None` if the role does
    /// not exist.
    fn role(&self, kind: &str, name: &str, namespace: &str) -> Option<Vec<Rule>> {
        let _ = (kind, name, namespace);
        None
    }
}

/// Allows every request.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl Authorizer for AllowAll {
    fn authorize(&self, _: &Attributes<'_>) -> Decision {
        Decision::Allow(String::new())
    }
}

//! The key of an object, by which queues and caches know it.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kube::Resource;

/// The key of the object to reconcile: its namespace, if it has one, and its name.
///
/// A request does not say what happened: the reconciler reads the newest state. Cloning is cheap.
///
/// ```
/// use evenkeel_runtime::Request;
///
/// assert_eq!(Request::namespaced("prod", "web").to_string(), "prod/web");
/// assert_eq!(Request::cluster("node-1").to_string(), "node-1");
/// ```
#[derive(Clone, Debug, Eq, PartialOrd, Ord)]
pub struct Request {
    /// The namespace; none for cluster-scoped objects.
    pub namespace: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
}

impl Request {
    /// The key of an object in a namespace.
    pub fn namespaced(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<Arc<str>>) -> Self {
        Self { namespace: None, name: name.into() }
    }

    /// The key of an object in a namespace, or of a cluster-scoped object if `namespace` is `None`.
    pub fn new(namespace: Option<&str>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.map(Arc::from), name: name.into() }
    }

    /// The key of this object. The name is empty if the object has none yet.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
    }

    /// The namespace, if the object has one.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

/// Compares pointers first: clones share their text.
impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &Arc<str>, b: &Arc<str>| Arc::ptr_eq(a, b) || a == b;
        let same_namespace = match (&self.namespace, &other.namespace) {
            (Some(a), Some(b)) => same(a, b),
            (None, None) => true,
            _ => false,
        };
        same(&self.name, &other.name) && same_namespace
    }
}

/// The parts of a key. A map with [`Request`]s as keys can be searched by borrowed parts, without an allocation.
pub(crate) trait KeyParts {
    fn parts(&self) -> (Option<&str>, &str);
}

impl KeyParts for Request {
    fn parts(&self) -> (Option<&str>, &str) {
        (self.namespace.as_deref(), &self.name)
    }
}

impl KeyParts for (Option<&str>, &str) {
    fn parts(&self) -> (Option<&str>, &str) {
        *self
    }
}

impl Hash for dyn KeyParts + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl PartialEq for dyn KeyParts + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn KeyParts + '_ {}

/// Hashes the parts, because [`Borrow`] requires equal hashes.
impl Hash for Request {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl<'a> Borrow<dyn KeyParts + 'a> for Request {
    fn borrow(&self) -> &(dyn KeyParts + 'a) {
        self
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

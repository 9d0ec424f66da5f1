//! Why a reconcile ran.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One cause of a reconcile: a change of an object, or a word such as `retry`, `requeue` and `timer`.
///
/// ```
/// let cause = evenkeel_record::Cause::object("Pod", Some("prod"), "web", "created");
/// assert_eq!(cause.to_string(), "Pod prod/web created");
/// assert_eq!(evenkeel_record::Cause::word("retry").to_string(), "retry");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cause {
    /// What happened to the object, or the cause itself if no object changed.
    pub what: String,
    /// The kind of the object; empty if no object changed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The namespace of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl Cause {
    /// A change of an object.
    pub fn object(kind: &str, namespace: Option<&str>, name: &str, what: &str) -> Self {
        let (kind, name, what) = (kind.to_owned(), name.to_owned(), what.to_owned());
        Self { what, kind, namespace: namespace.map(str::to_owned), name }
    }

    /// A cause that is not a change of an object.
    pub fn word(what: &str) -> Self {
        Self { what: what.to_owned(), ..Self::default() }
    }

    /// Whether this is a change of the object with this kind, namespace and name.
    pub fn is_about(&self, kind: &str, namespace: Option<&str>, name: &str) -> bool {
        self.kind.eq_ignore_ascii_case(kind) && self.namespace.as_deref() == namespace && self.name == name
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind.as_str(), &self.namespace) {
            ("", _) => f.write_str(&self.what),
            (kind, Some(namespace)) => write!(f, "{kind} {namespace}/{} {}", self.name, self.what),
            (kind, None) => write!(f, "{kind} {} {}", self.name, self.what),
        }
    }
}

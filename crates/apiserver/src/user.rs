//! Who asks.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The identity behind a request, as an authenticator found it.
///
/// It travels in the extensions of the [`http::Request`]; a request without one is anonymous.
///
/// ```
/// use evenkeel_apiserver::User;
/// assert!(User::admin().groups.contains(&"system:masters".to_owned()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name that authorization knows.
    pub name: String,
    /// A unique id, where the authenticator has one; else empty.
    pub uid: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
    /// What else the authenticator said.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user of this name in these groups.
    pub fn new<G: Into<String>>(name: impl Into<String>, groups: impl IntoIterator<Item = G>) -> Self {
        let groups = groups.into_iter().map(Into::into).collect();
        Self { name: name.into(), groups, ..Self::default() }
    }

    /// The administrator that in-process clients are: in `system:masters`, so that everything is allowed.
    pub fn admin() -> Self {
        Self::new("system:admin", ["system:masters", "system:authenticated"])
    }

    /// Whoever gave no credentials.
    pub fn anonymous() -> Self {
        Self::new("system:anonymous", ["system:unauthenticated"])
    }

    /// The user as reviews tell it; what is empty is left out.
    pub(crate) fn to_info(&self) -> Value {
        let mut info = Map::new();
        info.insert("username".into(), self.name.clone().into());
        if !self.uid.is_empty() {
            info.insert("uid".into(), self.uid.clone().into());
        }
        if !self.groups.is_empty() {
            info.insert("groups".into(), self.groups.clone().into());
        }
        if !self.extra.is_empty() {
            info.insert("extra".into(), json!(self.extra));
        }
        Value::Object(info)
    }

    /// Whether the user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|it| it == group)
    }
}

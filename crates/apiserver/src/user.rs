//! The user who makes a request.

use std::collections::BTreeMap;

use evenkeel_schema::json::{Map, Value, json};

/// The user who makes a request, as an authenticator identified it.
///
/// The user travels in the extensions of the [`http::Request`]; a request without one is anonymous.
///
/// ```
/// use evenkeel_apiserver::User;
/// assert!(User::admin().groups.contains(&"system:masters".to_owned()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user name that authorization uses.
    pub name: String,
    /// A unique ID; empty if the authenticator has none.
    pub uid: String,
    /// The groups that the user belongs to.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Creates a user with this name and these groups.
    pub fn new<G: Into<String>>(name: impl Into<String>, groups: impl IntoIterator<Item = G>) -> Self {
        let groups = groups.into_iter().map(Into::into).collect();
        Self { name: name.into(), groups, ..Self::default() }
    }

    /// The administrator: a member of `system:masters`, who may do everything. In-process clients use it by
    /// default.
    pub fn admin() -> Self {
        Self::new("system:admin", ["system:masters", "system:authenticated"])
    }

    /// The user of a request without credentials.
    pub fn anonymous() -> Self {
        Self::new("system:anonymous", ["system:unauthenticated"])
    }

    /// The user in the form of UserInfo, without empty fields.
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

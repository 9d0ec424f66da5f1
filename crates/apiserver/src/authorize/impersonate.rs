//! Impersonation: the `Impersonate-…` headers.
//!
//! There are two ways to be allowed. Legacy impersonation requires the verb `impersonate` on each part of the
//! identity. Constrained impersonation also requires permission to make this request while impersonating
//! (`impersonate-on:MODE:VERB`). The constrained modes are tried first; if all fail, the error is that of the
//! first mode that applies.

use std::collections::BTreeMap;

use evenkeel_request_info::percent_decode;
use http::HeaderMap;

use super::rbac_index::service_account;
use super::{MASTERS, forbidden};
use crate::User;
use crate::access::{Attributes, Authorizer, Decision, Target};
use crate::status::{Result, Status};

const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// A mode of impersonation, in the terms of Kubernetes' constrained impersonation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A service account impersonates the node on which it runs.
    AssociatedNode,
    /// The impersonated user is a node.
    Node,
    ServiceAccount,
    /// The impersonated user is neither a node nor a service account; group, UID and extra fields may be set
    /// as well.
    UserInfo,
    /// Unconstrained impersonation, as before modes existed.
    Legacy,
}

const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::Node, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

/// The result of a successful impersonation.
pub(crate) struct Impersonated {
    pub(crate) user: User,
    /// The verb of the constrained mode that allowed the impersonation; empty for the legacy mode.
    pub(crate) constraint: String,
}

/// Returns the impersonated user if the request has impersonation headers; fails if the requesting user is
/// not allowed to impersonate.
pub(crate) fn impersonate(
    authorizer: &dyn Authorizer,
    attributes: &Attributes<'_>,
    headers: &HeaderMap,
) -> Result<Option<Impersonated>> {
    let Some(wanted) = wanted(headers)? else { return Ok(None) };
    let mut refusal = None;
    for mode in MODES.into_iter().filter(|mode| mode.applies(&wanted, attributes.user)) {
        match mode.check(authorizer, &wanted, attributes) {
            Ok(user) => return Ok(Some(Impersonated { user, constraint: mode.constraint() })),
            Err(status) => refusal = refusal.or(Some(status)),
        }
    }
    Err(refusal.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
}

/// Reads the requested identity from the headers, unchecked.
fn wanted(headers: &HeaderMap) -> Result<Option<User>> {
    // Hardly any request has these headers, so one scan for their prefix comes first.
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Ok(None);
    }
    let text = |name: &str| headers.get(name).map(text_of).unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            // A key that is not properly encoded is used unchanged.
            let key = percent_decode(key).unwrap_or(key.into()).into_owned();
            extra.entry(key).or_default().push(text_of(value));
        }
    }
    let groups = headers.get_all("impersonate-group").iter().map(text_of).collect();
    let user = User { name: text("impersonate-user"), uid: text("impersonate-uid"), groups, extra };
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty() {
        return Ok(None);
    }
    Err(Status::bad_request(format!("requested {} without impersonating a user name", as_go(&user))))
}

fn text_of(value: &http::HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Prints the identity as Go prints its struct.
fn as_go(user: &User) -> String {
    let list = |items: &[String]| {
        let items: Vec<_> = items.iter().map(|item| format!("{item:?}")).collect();
        if items.is_empty() {
            "[]string(nil)".to_owned()
        } else {
            format!("[]string{{{}}}", items.join(", "))
        }
    };
    let extra: Vec<_> = user.extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
    let extra = match extra.is_empty() {
        true => "map[string][]string(nil)".to_owned(),
        false => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    format!(
        "&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{}, Extra:{extra}}}",
        user.name,
        user.uid,
        list(&user.groups)
    )
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::Node => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    /// The verb on the identity that a constrained mode requires; empty for the legacy mode.
    fn constraint(self) -> String {
        if self == Self::Legacy { String::new() } else { format!("impersonate:{}", self.name()) }
    }

    fn applies(self, wanted: &User, requestor: &User) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_name(&wanted.name);
        let account = service_account(&wanted.name);
        match self {
            Self::AssociatedNode => {
                let bound = requestor.extra.get(NODE_NAME).map(Vec::as_slice);
                let is_bound = node.is_some_and(|node| bound == Some(&[node.to_owned()]));
                only_name && is_bound && service_account(&requestor.name).is_some()
            }
            Self::Node => only_name && node.is_some(),
            Self::ServiceAccount => only_name && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }

    fn check(self, authorizer: &dyn Authorizer, wanted: &User, attributes: &Attributes<'_>) -> Result<User> {
        if self != Self::Legacy {
            let verb = format!("impersonate-on:{}:{}", self.name(), attributes.verb);
            require(authorizer, &Attributes { verb: &verb, ..attributes.clone() })?;
        }
        let constraint = self.constraint();
        let verb = if constraint.is_empty() { "impersonate".to_owned() } else { constraint };
        let check = Check { authorizer, requestor: attributes.user, verb: &verb, mode: self };
        check.identity(wanted)
    }
}

/// The permission checks for each part of an identity.
struct Check<'a> {
    authorizer: &'a dyn Authorizer,
    requestor: &'a User,
    verb: &'a str,
    mode: Mode,
}

impl Check<'_> {
    fn identity(&self, wanted: &User) -> Result<User> {
        let mut user = wanted.clone();
        self.name(wanted, &mut user)?;
        if !wanted.uid.is_empty() {
            self.part(AUTHENTICATION, "uids", "", "", &wanted.uid)?;
        }
        for group in &wanted.groups {
            self.group(group)?;
        }
        for (key, values) in &wanted.extra {
            for value in values {
                self.part(AUTHENTICATION, "userextras", key, "", value)?;
            }
        }
        let implied = match user.name.as_str() {
            "system:anonymous" => Some("system:unauthenticated"),
            _ if user.is_in("system:unauthenticated") => None,
            _ => Some("system:authenticated"),
        };
        if let Some(group) = implied.filter(|group| !user.is_in(group)) {
            user.groups.push(group.to_owned());
        }
        Ok(user)
    }

    fn name(&self, wanted: &User, user: &mut User) -> Result<()> {
        let group = self.group_of_users();
        if let Some(node) = node_name(&wanted.name).filter(|_| self.mode != Mode::Legacy) {
            user.groups = vec!["system:nodes".to_owned()];
            let name = if self.mode == Mode::AssociatedNode { "*" } else { node };
            return self.part(group, "nodes", "", "", name);
        }
        let Some((namespace, name)) = service_account(&wanted.name) else {
            return self.part(group, "users", "", "", &wanted.name);
        };
        if wanted.groups.is_empty() {
            let all = "system:serviceaccounts".to_owned();
            user.groups = vec![all.clone(), format!("{all}:{namespace}")];
        }
        self.part(group, "serviceaccounts", "", namespace, name)
    }

    fn group(&self, name: &str) -> Result<()> {
        let group = self.group_of_users();
        let reason = match name {
            "" => "impersonating the empty string group is not allowed",
            MASTERS => "impersonating the system:masters group is not allowed",
            _ => "",
        };
        if self.mode != Mode::Legacy && !reason.is_empty() {
            return Err(forbidden(&self.attributes(group, "groups", "", "", name), reason));
        }
        self.part(group, "groups", "", "", name)
    }

    /// The API group in which users and groups are checked; the legacy mode uses the core group.
    fn group_of_users(&self) -> &'static str {
        if self.mode == Mode::Legacy { "" } else { AUTHENTICATION }
    }

    fn part(
        &self,
        group: &str,
        resource: &str,
        subresource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<()> {
        require(self.authorizer, &self.attributes(group, resource, subresource, namespace, name))
    }

    fn attributes<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
    ) -> Attributes<'a> {
        let target = Target::Resource { group, version: "v1", resource, subresource, namespace, name };
        Attributes { user: self.requestor, verb: self.verb, target }
    }
}

fn require(authorizer: &dyn Authorizer, attributes: &Attributes<'_>) -> Result<()> {
    match authorizer.authorize(attributes) {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(reason) => Err(forbidden(attributes, &reason)),
    }
}

/// The name of the node behind a user name; `None` if the user is not a node.
fn node_name(user: &str) -> Option<&str> {
    let name = user.strip_prefix("system:node:")?;
    let is_label = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    (name.len() <= 253 && name.split('.').all(is_label)).then_some(name)
}

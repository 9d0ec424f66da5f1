//! Role-based access control: who may do what, according to the roles and bindings in the store.
//!
//! [`Rbac`] follows the store: before each decision it applies the changes since the last one, so that a new
//! binding counts for the very next request. It reads only the changes, not all roles and bindings.

mod escalate;
mod forbidden;
mod impersonate;
mod rbac_index;
mod review;

pub(crate) use escalate::{Grant, check_grant};
pub(crate) use forbidden::forbidden;
pub(crate) use impersonate::impersonate;
pub(crate) use review::review;

use std::sync::Arc;

use evenkeel_store::{Entry, Range, Store};
use parking_lot::RwLock;

use crate::access::{Attributes, Authorizer, Decision, Rule, Target};
use crate::{Header, User};
use rbac_index::{Binding, RbacIndex, RoleRef, Subject};

/// The group whose members may do everything: the server itself and its administrators.
const MASTERS: &str = "system:masters";

/// The prefix of the keys of roles and bindings in the store.
const PREFIX: &str = "/registry/rbac.authorization.k8s.io/";

/// Role-based access control over the objects of a store.
pub struct Rbac {
    store: Store<Header>,
    followed: RwLock<Followed>,
}

/// The roles and bindings that were read, and the revision up to which they are current.
#[derive(Default)]
struct Followed {
    index: RbacIndex,
    /// Every change up to this revision has been applied; zero before the first read.
    revision: u64,
}

impl Rbac {
    /// Creates an authorizer for this store. It reads nothing until the first decision.
    pub fn new(store: Store<Header>) -> Self {
        Self { store, followed: RwLock::default() }
    }

    /// Calls `ask` with an index that is up to date with the store.
    fn with_index<T>(&self, ask: impl FnOnce(&RbacIndex) -> T) -> T {
        let newest = self.store.revision();
        let known = self.followed.read();
        if known.revision >= newest {
            return ask(&known.index);
        }
        drop(known);
        let mut known = self.followed.write();
        if known.revision < newest {
            self.catch_up(&mut known);
        }
        ask(&known.index)
    }

    fn catch_up(&self, known: &mut Followed) {
        if known.revision == 0 || self.replay(known).is_none() {
            self.reload(known);
        }
    }

    /// Applies the changes since the last read; `None` if the store no longer has them all.
    fn replay(&self, known: &mut Followed) -> Option<()> {
        let mut watch = self.store.watch(PREFIX, known.revision).ok()?;
        while let Some(change) = watch.try_next() {
            let change = change.ok()?;
            match (&change.after, &change.before) {
                (Some(after), _) => known.index.put(after),
                (None, Some(before)) => known.index.remove(&before.key),
                (None, None) => {}
            }
            // Last, so that a change that panics while it is applied does not count as applied.
            known.revision = known.revision.max(change.revision);
        }
        known.revision = known.revision.max(watch.revision());
        Some(())
    }

    fn reload(&self, known: &mut Followed) {
        let range = Range { prefix: PREFIX.to_owned(), ..Range::default() };
        let Ok(page) = self.store.range(&range) else { return };
        known.index = RbacIndex::default();
        page.entries.iter().for_each(|entry| known.index.put(entry));
        known.revision = page.revision;
    }

    /// Every rule that applies to a user in a namespace, cluster-wide rules first.
    fn rules_for(&self, user: &User, namespace: &str) -> Vec<Rule> {
        self.with_index(|index| {
            let bindings = index.bindings_of(user, namespace);
            let rules = bindings.iter().filter_map(|it| index.rules_of(&it.role_ref, &it.namespace));
            rules.flat_map(|rules| rules.to_vec()).collect()
        })
    }
}

impl RbacIndex {
    fn put(&mut self, entry: &Arc<Entry<Header>>) {
        let Some((is_role, id)) = locate(&entry.key) else { return };
        if is_role {
            let labels = entry.header.labels.iter().map(|(key, value)| (key.to_string(), value.to_string()));
            self.set_role(id, Some((entry.value.clone(), labels.collect())));
        } else {
            self.set_binding(id, Some(&entry.value));
        }
    }

    fn remove(&mut self, key: &str) {
        match locate(key) {
            Some((true, id)) => self.set_role(id, None),
            Some((false, id)) => self.set_binding(id, None),
            None => {}
        }
    }
}

/// Parses a key: whether it belongs to a role (rather than a binding), with namespace and name.
fn locate(key: &str) -> Option<(bool, (String, String))> {
    let (resource, rest) = key.strip_prefix(PREFIX)?.split_once('/')?;
    let (namespace, name) = match resource {
        "roles" | "rolebindings" => rest.split_once('/')?,
        "clusterroles" | "clusterrolebindings" => ("", rest),
        _ => return None,
    };
    Some((resource.ends_with("roles"), (namespace.to_owned(), name.to_owned())))
}

impl Authorizer for Rbac {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.is_in(MASTERS) {
            return Decision::Allow(String::new());
        }
        let namespace = match attributes.target {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        };
        self.with_index(|index| decide(index, attributes, namespace))
    }

    fn rules(&self, user: &User, namespace: &str) -> Vec<Rule> {
        self.rules_for(user, namespace)
    }

    fn role(&self, kind: &str, name: &str, namespace: &str) -> Option<Vec<Rule>> {
        let reference = RoleRef { kind: kind.into(), name: name.into() };
        self.with_index(|index| index.rules_of(&reference, namespace)).map(|rules| rules.to_vec())
    }
}

fn decide(index: &RbacIndex, attributes: &Attributes<'_>, namespace: &str) -> Decision {
    let mut missing: Vec<String> = Vec::new();
    for binding in index.bindings_of(attributes.user, namespace) {
        match index.rules_of(&binding.role_ref, &binding.namespace) {
            Some(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                return Decision::Allow(format!("RBAC: allowed by {}", describe(&binding, attributes.user)));
            }
            Some(_) => {}
            None => {
                let kind = binding.role_ref.kind.to_lowercase();
                let error = format!("{kind}.rbac.authorization.k8s.io {:?} not found", binding.role_ref.name);
                if !missing.contains(&error) {
                    missing.push(error);
                }
            }
        }
    }
    Decision::Deny(match missing.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        several => format!("RBAC: [{}]", several.join(", ")),
    })
}

/// Formats a binding as `ClusterRoleBinding "b" of ClusterRole "r" to Group "g"`.
fn describe(binding: &Binding, user: &User) -> String {
    let fallback = Subject::default();
    let subject = binding.subject_of(user).unwrap_or(&fallback);
    let who = match subject.kind.as_str() {
        "ServiceAccount" if subject.namespace.is_empty() => format!("{}/{}", subject.name, binding.namespace),
        "ServiceAccount" => format!("{}/{}", subject.name, subject.namespace),
        _ => subject.name.clone(),
    };
    let (kind, name) = match binding.namespace.as_str() {
        "" => ("ClusterRoleBinding", binding.name.clone()),
        namespace => ("RoleBinding", format!("{}/{namespace}", binding.name)),
    };
    let role = &binding.role_ref;
    format!("{kind} {name:?} of {} {:?} to {} {who:?}", role.kind, role.name, subject.kind)
}

#[cfg(test)]
mod tests;

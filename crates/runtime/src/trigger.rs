//! Triggers: which keys to reconcile when an object changes.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::core::ApiResource;
use kube::core::discovery::Scope;

use crate::event::Event;
use crate::object::{Scoping, scoping};
use crate::predicate::Predicate;
use crate::{Object, Request};

type Map<K> = dyn Fn(&K) -> Vec<Request> + Send + Sync;
type EventMap<K> = dyn Fn(&Event<K>) -> Vec<Request> + Send + Sync;

/// Maps events of one kind to the keys to reconcile. On an update, both the old and the new object are mapped, so that
/// a key that the object no longer points to is reconciled too.
///
/// ```
/// use evenkeel_runtime::{Predicate, Request, Trigger};
/// use k8s_openapi::api::core::v1::Secret;
/// use kube::ResourceExt;
///
/// let by_label = Trigger::map(|secret: &Secret| {
///     let name = secret.labels().get("database")?;
///     Some(Request::new(secret.namespace().as_deref(), name.as_str()))
/// })
/// .filter(Predicate::resource_version_changed());
/// ```
#[must_use]
pub struct Trigger<K> {
    map: Mapping<K>,
    predicate: Option<Predicate<K>>,
    priority: Option<i32>,
}

enum Mapping<K> {
    /// The key of the object itself.
    Same,
    Object(Arc<Map<K>>),
    Event(Arc<EventMap<K>>),
}

/// Which owner references of an object count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    /// The one that is marked as controller.
    Controller,
    /// All of them.
    All,
}

impl<K: Object> Trigger<K> {
    /// Reconciles the keys that a function finds in the object. On an update, the function is called for the old and for
    /// the new object.
    pub fn map<I>(map: impl Fn(&K) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = Request>,
    {
        Self::with(Mapping::Object(Arc::new(move |object: &K| map(object).into_iter().collect())))
    }

    /// Reconciles the keys that a function finds in the event.
    pub fn events<I>(map: impl Fn(&Event<K>) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = Request>,
    {
        Self::with(Mapping::Event(Arc::new(move |event: &Event<K>| map(event).into_iter().collect())))
    }

    /// Reconciles the object's own key.
    pub fn same() -> Self {
        Self::with(Mapping::Same)
    }

    /// Reconciles the owner of kind `O` that is marked as controller.
    pub fn controller<O: Object<DynamicType: Default>>() -> Self {
        Self::controller_with(ApiResource::erase::<O>(&O::DynamicType::default()), scope_of::<O>())
    }

    /// Reconciles the owner of a kind that is known at run time, if it is marked as controller. `scope` says whether
    /// objects of that kind live in namespaces.
    pub fn controller_with(owner: ApiResource, scope: Scope) -> Self {
        Self::owners(owner, scope, Owners::Controller)
    }

    /// Reconciles every owner of kind `O`, whether or not it is marked as controller.
    pub fn owner<O: Object<DynamicType: Default>>() -> Self {
        Self::owner_with(ApiResource::erase::<O>(&O::DynamicType::default()), scope_of::<O>())
    }

    /// Reconciles every owner of a kind that is known at run time. `scope` says whether objects of that kind live in
    /// namespaces.
    pub fn owner_with(owner: ApiResource, scope: Scope) -> Self {
        Self::owners(owner, scope, Owners::All)
    }

    pub(crate) fn owners(owner: ApiResource, scope: Scope, owners: Owners) -> Self {
        Self::map(move |object: &K| {
            let namespace = match scope {
                Scope::Namespaced => object.meta().namespace.as_deref(),
                Scope::Cluster => None,
            };
            let wanted = |reference: &&OwnerReference| {
                reference.kind == owner.kind
                    && group_of(&reference.api_version) == owner.group
                    && (owners == Owners::All || reference.controller == Some(true))
            };
            let owners = object.owner_references().iter().filter(wanted);
            owners.map(|reference| Request::new(namespace, reference.name.as_str())).collect::<Vec<_>>()
        })
    }

    /// Maps only events that pass this predicate, and those before it.
    pub fn filter(mut self, predicate: Predicate<K>) -> Self {
        self.predicate = Some(match self.predicate {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    /// Queues the keys at this priority instead of the default one.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The keys to reconcile for this event, without duplicates, in the order in which they were found.
    pub fn requests(&self, event: &Event<K>) -> Vec<Request> {
        let mut requests = Vec::new();
        self.each_request(event, &Request::of(&**event.object()), |request| requests.push(request));
        requests
    }

    /// Calls `give` with each key to reconcile. `key` is the key of the event's object, which the caller has already.
    pub(crate) fn each_request(&self, event: &Event<K>, key: &Request, mut give: impl FnMut(Request)) {
        if self.predicate.as_ref().is_some_and(|predicate| !predicate.passes(event)) {
            return;
        }
        match &self.map {
            Mapping::Same => give(key.clone()),
            _ => self.mapped(event).into_iter().for_each(give),
        }
    }

    fn mapped(&self, event: &Event<K>) -> Vec<Request> {
        match &self.map {
            Mapping::Same => vec![Request::of(&**event.object())],
            Mapping::Event(map) => map(event),
            Mapping::Object(map) => match event {
                Event::Updated { old, new, .. } if !Arc::ptr_eq(old, new) => {
                    let mut requests = map(old);
                    let more: Vec<_> = map(new).into_iter().filter(|key| !requests.contains(key)).collect();
                    requests.extend(more);
                    requests
                }
                _ => map(event.object()),
            },
        }
    }

    pub(crate) fn own_priority(&self) -> Option<i32> {
        self.priority
    }

    fn with(map: Mapping<K>) -> Self {
        Self { map, predicate: None, priority: None }
    }
}

impl<K> fmt::Debug for Trigger<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trigger").field("predicate", &self.predicate).finish_non_exhaustive()
    }
}

/// Where objects of a kind live; in namespaces if only the object itself can tell.
pub(crate) fn scope_of<K: Object>() -> Scope {
    match scoping::<K>() {
        Scoping::Cluster => Scope::Cluster,
        Scoping::Namespaced | Scoping::Unknown => Scope::Namespaced,
    }
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{Node, Secret};

    use super::*;
    use crate::Origin;

    /// A new Secret in a namespace, with an owner that is its controller.
    fn owned_by(api_version: &str, kind: &str) -> Event<Secret> {
        let mut secret = Secret::default();
        secret.metadata.namespace = Some("a".into());
        secret.metadata.name = Some("child".into());
        secret.metadata.owner_references = Some(vec![OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "owner".into(),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        Event::Created { new: Arc::new(secret), origin: Origin::Watch }
    }

    #[test]
    fn an_owner_is_known_by_group_and_kind_whatever_its_version() {
        let trigger = Trigger::<Secret>::controller::<Deployment>();
        let requests = |api_version, kind| trigger.requests(&owned_by(api_version, kind));
        assert_eq!(requests("apps/v1", "Deployment"), [Request::namespaced("a", "owner")]);
        assert_eq!(requests("apps/v2", "Deployment"), [Request::namespaced("a", "owner")]);
        assert!(requests("apps/v1", "StatefulSet").is_empty());
        assert!(requests("example.com/v1", "Deployment").is_empty());
        assert!(requests("v1", "Deployment").is_empty());
    }

    #[test]
    fn an_owner_without_a_namespace_is_asked_for_without_one() {
        let event = owned_by("v1", "Node");
        assert_eq!(Trigger::<Secret>::controller::<Node>().requests(&event), [Request::cluster("owner")]);
        assert_eq!(Trigger::<Secret>::owner::<Node>().requests(&event), [Request::cluster("owner")]);
    }

    #[test]
    fn filters_add_up() {
        let never = || Predicate::<Secret>::new(|_| false);
        let always = || Predicate::<Secret>::new(|_| true);
        let event = owned_by("v1", "Node");
        let requests = |first, second| Trigger::same().filter(first).filter(second).requests(&event).len();
        assert_eq!((requests(always(), always()), requests(always(), never())), (1, 0));
        assert_eq!(requests(never(), always()), 0);
    }
}

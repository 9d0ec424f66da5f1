//! Predicates: which events pass a trigger.
//!
//! Events of relists and resyncs (replays) pass every predicate, so that a filter never hides what the watch missed,
//! unless the predicate asks for them by [`Predicate::also_replays`].

use std::fmt;
use std::ops::Not;
use std::sync::Arc;

use kube::core::Selector;

use crate::event::Event;
use crate::{Object, Request};

type Check<K> = dyn Fn(&Event<K>) -> bool + Send + Sync;

/// Decides whether an event reaches the queue.
///
/// ```
/// use evenkeel_runtime::Predicate;
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// let changed: Predicate<Deployment> =
///     Predicate::generation_changed().or(Predicate::annotations_changed());
/// ```
#[must_use]
pub struct Predicate<K> {
    check: Arc<Check<K>>,
    /// The check of replays; `None` lets all of them pass. In a combination, only the parts count that ask for replays.
    replays: Option<Arc<Check<K>>>,
}

impl<K> Clone for Predicate<K> {
    fn clone(&self) -> Self {
        Self { check: self.check.clone(), replays: self.replays.clone() }
    }
}

impl<K> fmt::Debug for Predicate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predicate").field("filters_replays", &self.replays.is_some()).finish_non_exhaustive()
    }
}

impl<K: Object> Predicate<K> {
    /// Passes events for which `check` returns true.
    pub fn new(check: impl Fn(&Event<K>) -> bool + Send + Sync + 'static) -> Self {
        Self { check: Arc::new(check), replays: None }
    }

    /// Passes events whose object, before or after, satisfies `check`.
    pub fn object(check: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |event| {
            event.old().is_some_and(|old| check(old)) || event.new_object().is_some_and(|new| check(new))
        })
    }

    /// Passes updates for which `changed(old, new)` returns true, and every create, delete and generic event.
    pub fn changed(changed: impl Fn(&K, &K) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |event| match event {
            Event::Updated { old, new, .. } => changed(old, new),
            Event::Created { .. } | Event::Deleted { .. } | Event::Generic { .. } => true,
        })
    }

    /// Passes updates that change `metadata.generation`, which the API server increases with the spec; and every create,
    /// delete and generic event.
    pub fn generation_changed() -> Self {
        Self::new(|event| event.meta().generation_changed())
    }

    /// Passes updates that change `metadata.resourceVersion`, as all but resyncs do; and every create, delete and generic
    /// event.
    pub fn resource_version_changed() -> Self {
        Self::new(|event| event.meta().resource_version_changed())
    }

    /// Passes updates that change labels, and every create, delete and generic event.
    pub fn labels_changed() -> Self {
        Self::new(|event| event.meta().labels_changed())
    }

    /// Passes updates that change annotations, and every create, delete and generic event.
    pub fn annotations_changed() -> Self {
        Self::new(|event| event.meta().annotations_changed())
    }

    /// Passes updates that change finalizers, and every create, delete and generic event.
    pub fn finalizers_changed() -> Self {
        Self::new(|event| event.meta().finalizers_changed())
    }

    /// Passes events whose object, before or after, matches the label selector.
    pub fn labels(selector: Selector) -> Self {
        Self::new(move |event| event.meta().matches(&selector))
    }

    /// Passes events of objects in these namespaces.
    pub fn namespaces<N: Into<String>>(namespaces: impl IntoIterator<Item = N>) -> Self {
        let namespaces: Vec<String> = namespaces.into_iter().map(Into::into).collect();
        Self::object(move |object| {
            object.meta().namespace.as_ref().is_some_and(|namespace| namespaces.contains(namespace))
        })
    }

    /// Passes events of exactly this object.
    pub fn key(key: Request) -> Self {
        Self::object(move |object| Request::of(object) == key)
    }

    /// Passes events that both predicates pass. Only a predicate that [asks for replays](Self::also_replays) can reject
    /// one.
    pub fn and(self, other: Self) -> Self {
        let replays = match (self.replays, other.replays) {
            (Some(this), Some(that)) => Some(both(this, that)),
            (asks, None) | (None, asks) => asks,
        };
        Self { check: both(self.check, other.check), replays }
    }

    /// Passes events that either predicate passes. A replay is rejected only if both predicates
    /// [ask for replays](Self::also_replays) and reject it.
    pub fn or(self, other: Self) -> Self {
        let replays = self.replays.zip(other.replays).map(|(this, that)| either(this, that));
        Self { check: either(self.check, other.check), replays }
    }

    /// Applies this predicate to replays too: to events of relists and resyncs, which otherwise always pass.
    pub fn also_replays(mut self) -> Self {
        self.replays = Some(self.check.clone());
        self
    }

    /// Whether this event passes.
    pub fn passes(&self, event: &Event<K>) -> bool {
        match &self.replays {
            _ if !event.is_replay() => (self.check)(event),
            Some(check) => check(event),
            None => true,
        }
    }
}

fn both<K: 'static>(this: Arc<Check<K>>, that: Arc<Check<K>>) -> Arc<Check<K>> {
    Arc::new(move |event| this(event) && that(event))
}

fn either<K: 'static>(this: Arc<Check<K>>, that: Arc<Check<K>>) -> Arc<Check<K>> {
    Arc::new(move |event| this(event) || that(event))
}

fn neither<K: 'static>(this: Arc<Check<K>>) -> Arc<Check<K>> {
    Arc::new(move |event| !this(event))
}

impl<K: Object> Not for Predicate<K> {
    type Output = Self;

    /// Passes events that this predicate rejects. Replays pass, unless this predicate
    /// [asks for them](Self::also_replays).
    fn not(self) -> Self {
        Self { check: neither(self.check), replays: self.replays.map(neither) }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;

    use super::*;
    use crate::Origin;

    fn map(change: impl FnOnce(&mut ConfigMap)) -> Arc<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("a".into());
        map.metadata.name = Some("one".into());
        map.metadata.generation = Some(1);
        map.metadata.resource_version = Some("1".into());
        change(&mut map);
        Arc::new(map)
    }

    fn update(origin: Origin, change: impl FnOnce(&mut ConfigMap)) -> Event<ConfigMap> {
        Event::Updated { old: map(|_| {}), new: map(change), origin }
    }

    fn created() -> Event<ConfigMap> {
        Event::Created { new: map(|_| {}), origin: Origin::Watch }
    }

    fn deleted() -> Event<ConfigMap> {
        Event::Deleted { old: map(|_| {}), origin: Origin::Watch }
    }

    /// Each passes its own change and no other, and every create and delete.
    #[test]
    fn each_predicate_passes_its_own_change_alone() {
        let predicates: [(&str, Predicate<ConfigMap>); 5] = [
            ("generation", Predicate::generation_changed()),
            ("version", Predicate::resource_version_changed()),
            ("labels", Predicate::labels_changed()),
            ("annotations", Predicate::annotations_changed()),
            ("finalizers", Predicate::finalizers_changed()),
        ];
        type Change = fn(&mut ConfigMap);
        let changes: [(&str, Change); 5] = [
            ("generation", |map| map.metadata.generation = Some(2)),
            ("version", |map| map.metadata.resource_version = Some("2".into())),
            ("labels", |map| drop(map.labels_mut().insert("a".into(), "b".into()))),
            ("annotations", |map| drop(map.annotations_mut().insert("a".into(), "b".into()))),
            ("finalizers", |map| map.finalizers_mut().push("a/b".into())),
        ];
        for (name, predicate) in &predicates {
            for (what, change) in &changes {
                assert_eq!(predicate.passes(&update(Origin::Watch, change)), name == what, "{name} {what}");
            }
            assert!(predicate.passes(&created()) && predicate.passes(&deleted()));
            assert!(predicate.passes(&Event::Generic { object: map(|_| {}) }));
        }
    }

    #[test]
    fn an_object_is_looked_at_before_and_after() {
        let selector: Selector = kube::core::Expression::Equal("app".into(), "web".into()).into();
        let web = Predicate::<ConfigMap>::labels(selector);
        let label = |map: &mut ConfigMap| drop(map.labels_mut().insert("app".into(), "web".into()));
        assert!(!web.passes(&created()));
        assert!(web.passes(&update(Origin::Watch, label)), "it enters");
        let leaves = Event::Updated { old: map(label), new: map(|_| {}), origin: Origin::Watch };
        assert!(web.passes(&leaves));
        assert!(Predicate::namespaces(["a"]).passes(&created()));
        assert!(!Predicate::namespaces(["b"]).passes(&created()));
        assert!(Predicate::key(Request::namespaced("a", "one")).passes(&deleted()));
        assert!(!Predicate::key(Request::namespaced("a", "two")).passes(&deleted()));
    }

    #[test]
    fn they_combine_and_let_replays_pass_unless_asked() {
        let never = || Predicate::<ConfigMap>::new(|_| false);
        let always = || Predicate::<ConfigMap>::new(|_| true);
        let watched = update(Origin::Watch, |_| {});
        for (this, that) in [(always(), never()), (never(), always())] {
            assert!(this.clone().or(that.clone()).passes(&watched) && !this.and(that).passes(&watched));
        }
        assert!((!never()).passes(&watched) && !(!always()).passes(&watched));
        for origin in [Origin::Relist, Origin::Resync] {
            let replayed = update(origin, |_| {});
            assert!(never().passes(&replayed) && (!always()).passes(&replayed));
            assert!(!never().also_replays().passes(&replayed));
            assert!(!never().also_replays().and(always()).passes(&replayed), "one that asks is enough");
            assert!(
                never().also_replays().or(never()).passes(&replayed),
                "one that lets them pass is enough"
            );
        }
    }

    /// Of two filters one asks for replays: the other, which does not, keeps none out.
    #[test]
    fn what_does_not_ask_for_replays_keeps_none_out_in_any_combination() {
        let never = || Predicate::<ConfigMap>::new(|_| false);
        let always = || Predicate::<ConfigMap>::new(|_| true);
        for origin in [Origin::Relist, Origin::Resync] {
            let replayed = update(origin, |_| {});
            assert!(always().also_replays().and(never()).passes(&replayed));
            assert!(never().and(always().also_replays()).passes(&replayed));
            assert!(!never().and(never().also_replays()).passes(&replayed));
            assert!(!never().also_replays().or(never().also_replays()).passes(&replayed));
            assert!(always().also_replays().or(never().also_replays()).passes(&replayed));
            assert!((!never().also_replays()).passes(&replayed));
            assert!(!(!always().also_replays()).passes(&replayed));
            assert!(!always().and(never()).also_replays().passes(&replayed), "the whole of it asks");
        }
        assert!(!always().also_replays().and(never()).passes(&update(Origin::Watch, |_| {})));
    }
}

//! Predicates: which events pass a trigger.
//!
//! A relist's difference and a resync pass every predicate, so that a filter never hides what the watch missed;
//! [`Predicate::also_replays`] says otherwise.

use std::fmt;
use std::ops::Not;
use std::sync::Arc;

use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

use crate::event::Event;
use crate::{Object, Request};

type Check<K> = dyn Fn(&Event<K>) -> bool + Send + Sync;

/// Decides whether an event goes on to the queue.
///
/// ```
/// use evenkeel_runtime::Predicate;
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// let changed: Predicate<Deployment> =
///     Predicate::generation_changed().or(Predicate::annotations_changed());
/// ```
pub struct Predicate<K> {
    check: Arc<Check<K>>,
    filters_replays: bool,
}

impl<K> Clone for Predicate<K> {
    fn clone(&self) -> Self {
        Self { check: self.check.clone(), filters_replays: self.filters_replays }
    }
}

impl<K> fmt::Debug for Predicate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predicate").field("filters_replays", &self.filters_replays).finish_non_exhaustive()
    }
}

impl<K: Object> Predicate<K> {
    /// A predicate by a function of the event.
    pub fn new(check: impl Fn(&Event<K>) -> bool + Send + Sync + 'static) -> Self {
        Self { check: Arc::new(check), filters_replays: false }
    }

    /// Passes events whose object, before or after, satisfies `check`.
    pub fn object(check: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |event| {
            event.old().is_some_and(|old| check(old)) || event.new_object().is_some_and(|new| check(new))
        })
    }

    /// Passes updates for which `changed(old, new)` holds, and every create and delete.
    pub fn changed(changed: impl Fn(&K, &K) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |event| match event {
            Event::Updated { old, new, .. } => changed(old, new),
            Event::Created { .. } | Event::Deleted { .. } => true,
        })
    }

    /// Passes updates that change what the object asks for: `metadata.generation`.
    pub fn generation_changed() -> Self {
        Self::changed(|old, new| old.meta().generation != new.meta().generation)
    }

    /// Passes updates that change `metadata.resourceVersion`: all but replays.
    pub fn resource_version_changed() -> Self {
        Self::changed(|old, new| old.meta().resource_version != new.meta().resource_version)
    }

    /// Passes updates that change labels.
    pub fn labels_changed() -> Self {
        Self::changed(|old, new| old.meta().labels != new.meta().labels)
    }

    /// Passes updates that change annotations.
    pub fn annotations_changed() -> Self {
        Self::changed(|old, new| old.meta().annotations != new.meta().annotations)
    }

    /// Passes updates that change finalizers.
    pub fn finalizers_changed() -> Self {
        Self::changed(|old, new| old.meta().finalizers != new.meta().finalizers)
    }

    /// Passes events whose object, before or after, matches the label selector.
    pub fn labels(selector: Selector) -> Self {
        Self::object(move |object| selector.matches(object.labels()))
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

    /// Passes what both pass.
    pub fn and(self, other: Self) -> Self {
        let filters_replays = self.filters_replays || other.filters_replays;
        let (this, that) = (self.check, other.check);
        Self { check: Arc::new(move |event| this(event) && that(event)), filters_replays }
    }

    /// Passes what either passes.
    pub fn or(self, other: Self) -> Self {
        let filters_replays = self.filters_replays && other.filters_replays;
        let (this, that) = (self.check, other.check);
        Self { check: Arc::new(move |event| this(event) || that(event)), filters_replays }
    }

    /// Applies this predicate to relists' differences and resyncs too, which otherwise always pass.
    pub fn also_replays(mut self) -> Self {
        self.filters_replays = true;
        self
    }

    /// Whether this event passes.
    pub fn passes(&self, event: &Event<K>) -> bool {
        (event.is_replay() && !self.filters_replays) || (self.check)(event)
    }
}

impl<K: Object> Not for Predicate<K> {
    type Output = Self;

    /// Passes what this one does not.
    fn not(self) -> Self {
        let check = self.check;
        Self { check: Arc::new(move |event| !check(event)), filters_replays: self.filters_replays }
    }
}

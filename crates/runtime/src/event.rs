//! Events that a cache sends to its subscribers: an object was created, updated or deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::{ObjectMeta, Selector, SelectorExt};

use crate::Object;
use crate::cause::Change;

/// A change of one object in a cache, with the object before and after the change.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_runtime::{Change, Event, Origin};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let event = Event::Created { new: Arc::new(Pod::default()), origin: Origin::Watch };
/// assert_eq!(event.change(), Change::Created);
/// assert!(event.old().is_none() && event.new_object().is_some());
/// ```
#[derive(Clone, Debug)]
pub enum Event<K> {
    /// The cache did not have the object before.
    Created {
        /// The object.
        new: Arc<K>,
        /// Why this event is sent: [`Origin::List`] for objects that existed before the watch began.
        origin: Origin,
    },
    /// The object changed, or is sent again by a resync.
    Updated {
        /// The object before the change.
        old: Arc<K>,
        /// The object after the change.
        new: Arc<K>,
        /// Why this event is sent.
        origin: Origin,
    },
    /// The object was deleted.
    Deleted {
        /// The object as the cache last had it.
        old: Arc<K>,
        /// Why this event is sent: [`Origin::Relist`] for a deletion that the watch missed.
        origin: Origin,
    },
    /// The object came from a stream that [`Controller::stream_of`](crate::Controller::stream_of) reads, not from a
    /// watch.
    Generic {
        /// The object that the stream gave. It need not be in any cache.
        object: Arc<K>,
    },
}

/// An event of any kind of object: what happened, and the object's metadata before and after.
///
/// ```
/// # use std::sync::Arc;
/// # use evenkeel_runtime::{Action, Ctx, Controller, Result};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> { Ok(Action::await_change()) }
/// use evenkeel_runtime::EventMeta;
///
/// fn outside_kube_system(event: &EventMeta<'_>) -> bool {
///     event.new.or(event.old).and_then(|meta| meta.namespace.as_deref()) != Some("kube-system")
/// }
///
/// let controller = Controller::new("config", reconcile)
///     .with_event_filter(outside_kube_system)
///     .with_event_filter(|event| event.generation_changed() || event.labels_changed());
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EventMeta<'a> {
    /// What happened.
    pub change: Change,
    /// Why the event is sent.
    pub origin: Origin,
    /// The metadata before the event; `None` for a new object.
    pub old: Option<&'a ObjectMeta>,
    /// The metadata after the event; `None` for a deleted object.
    pub new: Option<&'a ObjectMeta>,
}

impl<'a> EventMeta<'a> {
    /// Makes an event by hand, such as for a test of a filter.
    ///
    /// ```
    /// use evenkeel_runtime::{Change, EventMeta, Origin};
    /// use kube::core::ObjectMeta;
    ///
    /// let gone = ObjectMeta { name: Some("web".into()), ..ObjectMeta::default() };
    /// let event = EventMeta::new(Change::Deleted, Origin::Relist, Some(&gone), None);
    /// assert!(event.new.is_none());
    /// ```
    pub fn new(
        change: Change,
        origin: Origin,
        old: Option<&'a ObjectMeta>,
        new: Option<&'a ObjectMeta>,
    ) -> Self {
        Self { change, origin, old, new }
    }

    /// Whether this event comes from a relist or a resync, not from the watch: it repairs what the watch missed, or
    /// repeats what is known.
    pub fn is_replay(&self) -> bool {
        matches!(self.origin, Origin::Relist | Origin::Resync)
    }

    /// Whether an update changes `metadata.generation`, which the API server increases with the spec. Always true for a
    /// create and a delete.
    pub fn generation_changed(&self) -> bool {
        self.changed(|meta| &meta.generation)
    }

    /// Whether an update changes `metadata.resourceVersion`, as every update but a resync does. Always true for a create
    /// and a delete.
    pub fn resource_version_changed(&self) -> bool {
        self.changed(|meta| &meta.resource_version)
    }

    /// Whether an update changes labels. Always true for a create and a delete.
    pub fn labels_changed(&self) -> bool {
        self.changed(|meta| &meta.labels)
    }

    /// Whether an update changes annotations. Always true for a create and a delete.
    pub fn annotations_changed(&self) -> bool {
        self.changed(|meta| &meta.annotations)
    }

    /// Whether an update changes finalizers. Always true for a create and a delete.
    pub fn finalizers_changed(&self) -> bool {
        self.changed(|meta| &meta.finalizers)
    }

    /// Whether the object's labels match the selector, before or after the event.
    pub fn matches(&self, selector: &Selector) -> bool {
        let none = BTreeMap::new();
        let labels = |meta: &'a ObjectMeta| meta.labels.as_ref();
        [self.old, self.new].into_iter().flatten().any(|meta| selector.matches(labels(meta).unwrap_or(&none)))
    }

    fn changed<T: PartialEq>(&self, of: impl Fn(&ObjectMeta) -> &T) -> bool {
        self.old.zip(self.new).is_none_or(|(old, new)| of(old) != of(new))
    }
}

/// Where an event comes from.
///
/// ```
/// use evenkeel_runtime::{Event, Origin, Predicate};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let not_resynced: Predicate<Pod> =
///     Predicate::new(|event: &Event<Pod>| event.origin() != Origin::Resync).also_replays();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The first list, or a replay of it for a late subscriber.
    List,
    /// The watch reported the change.
    Watch,
    /// A relist found a difference that the watch had missed.
    Relist,
    /// The cache was sent again as a whole; nothing changed.
    Resync,
    /// A stream of objects that is not a watch.
    Stream,
}

impl<K: Object> Event<K> {
    /// The object after the event; for a deletion, as the cache last had it.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Created { new, .. } | Self::Updated { new, .. } => new,
            Self::Deleted { old, .. } => old,
            Self::Generic { object } => object,
        }
    }

    /// The object before the event; `None` for a new object.
    pub fn old(&self) -> Option<&Arc<K>> {
        match self {
            Self::Created { .. } | Self::Generic { .. } => None,
            Self::Updated { old, .. } | Self::Deleted { old, .. } => Some(old),
        }
    }

    /// The object after the event; `None` for a deleted object.
    pub fn new_object(&self) -> Option<&Arc<K>> {
        match self {
            Self::Created { new, .. } | Self::Updated { new, .. } | Self::Generic { object: new } => {
                Some(new)
            }
            Self::Deleted { .. } => None,
        }
    }

    /// What happened, in a word.
    pub fn change(&self) -> Change {
        match self {
            Self::Created { origin: Origin::List, .. } => Change::Listed,
            Self::Created { .. } => Change::Created,
            Self::Updated { origin: Origin::Resync, .. } => Change::Resynced,
            Self::Updated { .. } => Change::Updated,
            Self::Deleted { .. } => Change::Deleted,
            Self::Generic { .. } => Change::Generic,
        }
    }

    /// The event reduced to metadata, which objects of every kind have.
    pub fn meta(&self) -> EventMeta<'_> {
        EventMeta {
            change: self.change(),
            origin: self.origin(),
            old: self.old().map(|object| object.meta()),
            new: self.new_object().map(|object| object.meta()),
        }
    }

    /// Whether this event comes from a relist or a resync, not from the watch: it repairs what the watch missed, or
    /// repeats what is known.
    pub fn is_replay(&self) -> bool {
        self.meta().is_replay()
    }

    /// Why this event is sent.
    pub fn origin(&self) -> Origin {
        match self {
            Self::Created { origin, .. } | Self::Updated { origin, .. } | Self::Deleted { origin, .. } => {
                *origin
            }
            Self::Generic { .. } => Origin::Stream,
        }
    }
}

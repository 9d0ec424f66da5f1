//! The methods that set what a controller watches beside its primary kind, and its options.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};

use super::Controller;
use super::wiring::{Feed, Wire, wire, wire_read};
use crate::cause::Cause;
use crate::declaration::Purpose;
use crate::event::{Event, EventMeta};
use crate::index::Index;
use crate::queue::{Add, Backoff, PRIORITY_DEFAULT};
use crate::source::Source;
use crate::trigger::{Owners, Trigger, scope_of};
use crate::{Object, Predicate, Request};

/// Owned objects to watch, for [`Controller::owns_with`].
///
/// ```
/// # use evenkeel_runtime::{Action, Controller, Ctx, Error};
/// use evenkeel_runtime::controller::Owned;
/// use evenkeel_runtime::{Predicate, Source};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// # async fn reconcile(_: std::sync::Arc<ConfigMap>, _: Ctx) -> Result<Action, Error> { Ok(Action::await_change()) }
/// let secrets = Source::<Secret>::new().labels("app=web");
/// let controller = Controller::new("config", reconcile)
///     .owns_with(Owned::from(secrets).any_owner().filter(Predicate::resource_version_changed()));
/// ```
#[derive(Debug)]
#[must_use]
pub struct Owned<C: Object> {
    source: Source<C>,
    owners: Owners,
    predicate: Option<Predicate<C>>,
}

impl<C: Object> Owned<C> {
    /// Reconciles every owner of kind `K`, not only the one that is marked as controller.
    pub fn any_owner(mut self) -> Self {
        self.owners = Owners::All;
        self
    }

    /// Reconciles only for events that pass this predicate, and those before it.
    pub fn filter(mut self, predicate: Predicate<C>) -> Self {
        self.predicate = Some(match self.predicate {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    fn trigger<K: Object>(&self, primary: &Source<K>) -> Trigger<C> {
        let trigger = Trigger::owners(primary.resource().clone(), scope_of::<K>(), self.owners);
        match &self.predicate {
            Some(predicate) => trigger.filter(predicate.clone()),
            None => trigger,
        }
    }

    pub(super) fn wire<K: Object>(self) -> Wire<K> {
        Box::new(move |wiring| {
            let Some(primary) = &wiring.primary else { return wire_read(self.source)(wiring) };
            let trigger = self.trigger(primary);
            wire(self.source.index(Index::by_owner()), trigger)(wiring)
        })
    }
}

impl<C: Object> From<Source<C>> for Owned<C> {
    fn from(source: Source<C>) -> Self {
        Self { source, owners: Owners::Controller, predicate: None }
    }
}

impl<K: Object, S: Send + Sync + 'static> Controller<K, S> {
    /// Watches the objects of kind `C` that a `K` controls, and reconciles that `K` when one of them changes.
    pub fn owns<C: Object<DynamicType: Default>>(self) -> Self {
        self.owns_with(Source::<C>::new())
    }

    /// Watches owned objects of one [source](Source), or with the options of [`Owned`]: any owner instead of the
    /// controlling one, a predicate.
    pub fn owns_with<C: Object>(mut self, owned: impl Into<Owned<C>>) -> Self {
        let owned = owned.into();
        self.declare(&owned.source, Purpose::Owned);
        self.watches.push(owned.wire());
        self
    }

    /// Watches objects of kind `C`, and reconciles the keys that `trigger` finds in each that changes.
    pub fn watches<C: Object<DynamicType: Default>>(self, trigger: Trigger<C>) -> Self {
        self.watches_with(Source::new(), trigger)
    }

    /// Watches the objects of one source, and reconciles the keys that `trigger` finds in each that changes.
    pub fn watches_with<C: Object>(mut self, source: Source<C>, trigger: Trigger<C>) -> Self {
        self.declare(&source, Purpose::Read);
        self.watches.push(wire(source, trigger));
        self
    }

    /// Watches objects of kind `C`, and reconciles every `K` that has one of the values in `index` which `values` finds in
    /// the changed `C`: "every Database that names this Secret". The index is added to the cache of the primary kind.
    pub fn watches_indexed<C: Object<DynamicType: Default>>(
        self,
        index: Index<K>,
        values: impl Fn(&C) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.watches_indexed_with(Source::new(), index, values)
    }

    /// Watches the objects of one source. For each changed object, `values` returns index values, and every `K` that
    /// has one of them in `index` is reconciled. The index is added to the cache of the primary kind.
    pub fn watches_indexed_with<C: Object>(
        mut self,
        source: Source<C>,
        index: Index<K>,
        values: impl Fn(&C) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.declare(&source, Purpose::Read);
        let name: Arc<str> = index.name().into();
        let wire: Wire<K> = Box::new(move |wiring| {
            let cache = wiring.primary_cache();
            let trigger = Trigger::map(move |object: &C| {
                let found = values(object).into_iter().flat_map(|value| match &cache {
                    Some(cache) => cache.by_index(&name, &value).unwrap_or_default(),
                    None => Vec::new(),
                });
                found.map(|object| Request::of(&*object)).collect::<Vec<_>>()
            });
            wire(source, trigger)(wiring)
        });
        self.watches.push(wire);
        self.index(index)
    }

    /// Keeps a cache of kind `C` for reads. Changes of these objects reconcile nothing.
    pub fn reads<C: Object<DynamicType: Default>>(self) -> Self {
        self.reads_with(Source::<C>::new())
    }

    /// Keeps a cache of the objects of one source for reads. Changes of these objects reconcile nothing.
    pub fn reads_with<C: Object>(mut self, source: Source<C>) -> Self {
        self.declare(&source, Purpose::Read);
        self.watches.push(wire_read(source));
        self
    }

    /// Adds an index to the cache of the primary kind.
    pub fn index(mut self, index: Index<K>) -> Self {
        self.primary = self.primary.map(|primary| primary.index(index));
        self
    }

    /// Handles only events of the primary kind that pass this predicate, and those before it.
    pub fn filter(mut self, predicate: Predicate<K>) -> Self {
        self.primary_filter = Some(match self.primary_filter {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    /// Handles only events that pass this filter, and those before it, of every kind that this controller watches. Events of
    /// relists and resyncs always pass; [`Controller::with_replay_filter`] filters those.
    pub fn with_event_filter(
        mut self,
        filter: impl Fn(&EventMeta<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.event_filter.add(filter);
        self
    }

    /// Handles only events of relists and resyncs that pass this filter, of every kind that this controller watches. Use
    /// with care: a change that the watch missed and this filter rejects is not handled at all.
    pub fn with_replay_filter(
        mut self,
        filter: impl Fn(&EventMeta<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.event_filter.add_for_replays(filter);
        self
    }

    /// Reconciles every key that a stream gives, such as a channel, a webhook or a message bus. `name` is the cause.
    pub fn stream(mut self, name: &str, stream: impl Stream<Item = Request> + Send + 'static) -> Self {
        let cause = Cause::External(name.into());
        self.feeds.push(Box::new(move |queue, _| {
            Box::pin(stream.for_each(move |key| {
                queue.add_with(key, Add { cause: Some(cause.clone()), ..Add::default() });
                std::future::ready(())
            }))
        }));
        self
    }

    /// Reconciles these keys when the controller starts. `name` is the cause that they are queued with.
    pub fn at_start(mut self, name: &str, keys: Vec<Request>) -> Self {
        let cause = Cause::External(name.into());
        self.feeds.push(Box::new(move |queue, _| {
            // The start of the controller counts as pending work until the keys are queued.
            for key in keys {
                queue.add_with(key, Add { cause: Some(cause.clone()), ..Add::default() });
            }
            Box::pin(std::future::ready(()))
        }));
        self
    }

    /// Lets the controller sleep until any resource is used, if the manager knows the [use of
    /// resources](crate::resource_use). For controllers that follow resources which they do not declare.
    pub fn wakes_on_any_use(mut self) -> Self {
        self.options.wakes_on_any_use = true;
        self
    }

    /// Reconciles the keys that `trigger` finds in each object that a stream gives. Each object is a
    /// [generic](Event::Generic) event, to which the trigger's predicate and the controller's filters apply. `name` is the
    /// cause.
    pub fn stream_of<C: Object, O: Into<Arc<C>>>(
        mut self,
        name: &str,
        stream: impl Stream<Item = O> + Send + 'static,
        trigger: Trigger<C>,
    ) -> Self {
        let cause = Cause::External(name.into());
        self.feeds.push(Box::new(move |queue, filter| {
            Box::pin(stream.for_each(move |object| {
                let event = Event::Generic { object: object.into() };
                if filter.passes(&event.meta()) {
                    let priority = trigger.own_priority().unwrap_or(PRIORITY_DEFAULT);
                    trigger.each_request(&event, &Request::of(&**event.object()), |key| {
                        queue.add_with(key, Add { priority, cause: Some(cause.clone()), ..Add::default() });
                    });
                }
                std::future::ready(())
            }))
        }));
        self
    }

    /// Reconciles the keys that `keys` returns, every `period`. This counts as upkeep: a test that waits until nothing is
    /// pending does not wait for it.
    pub fn every(
        mut self,
        period: Duration,
        keys: impl Fn() -> Vec<Request> + Send + Sync + 'static,
    ) -> Self {
        let feed: Feed = Box::new(move |queue, _| {
            Box::pin(async move {
                loop {
                    tokio::time::sleep(period).await;
                    for key in keys() {
                        queue.add_with(key, Add { cause: Some(Cause::Timer), ..Add::default() });
                    }
                }
            })
        });
        self.feeds.push(feed);
        self
    }

    /// Sets how many keys are reconciled at once; 1 by default. One key is never reconciled twice at once.
    pub fn max_concurrent(mut self, workers: usize) -> Self {
        self.options.max_concurrent = workers.max(1);
        self
    }

    /// Sets the backoff of failed keys.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.options.backoff = backoff;
        self
    }

    /// Sets how long a reconcile may take. A reconcile that takes longer is ended and counts as a failure.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Sets how long the caches may take to fill before the manager fails; two minutes by default.
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.options.sync_timeout = timeout;
        self
    }

    /// Sets how often the caches are resynced at low priority; 10 hours by default, `None` or zero for never.
    pub fn sync_period(mut self, period: Option<Duration>) -> Self {
        self.options.sync_period = period;
        self
    }

    /// Sets the field manager of the controller's writes; the controller's name by default.
    pub fn field_manager(mut self, manager: &str) -> Self {
        self.options.field_manager = Some(manager.into());
        self
    }

    /// Gives the events of the controller the form of client-go's `record.EventRecorder`: core/v1, with this component
    /// as their source, and counted. See [`Recorder::counted`](crate::Recorder::counted). By default, events are of
    /// `events.k8s.io`, and the controller's name is their reporter.
    pub fn event_source(mut self, component: &str) -> Self {
        self.options.event_source = Some(component.into());
        self
    }

    /// Limits the controller's writes to `per_second`, and `burst` at once: for operators that write very many objects.
    pub fn write_limit(mut self, per_second: f64, burst: u32) -> Self {
        self.options.write_limit = Some((per_second, burst));
        self
    }

    /// The name of the controller.
    pub fn name(&self) -> &str {
        &self.name
    }
}

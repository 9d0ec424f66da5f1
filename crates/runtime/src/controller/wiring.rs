//! Connects a controller's declarations to informers and to its queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::cache::Cache;
use crate::cause::Cause;
use crate::error::panic_text;
use crate::event::{Event, EventMeta, Origin};
use crate::informer::{AnyInformer, Informer, Informers, Listener, Subscription};
use crate::queue::{PRIORITY_DEFAULT, PRIORITY_LOW, Queue};
use crate::source::Source;
use crate::trigger::Trigger;
use crate::{Object, Request};

/// What a declaration needs to become a watch.
pub(super) struct Wiring<'a, K: Object> {
    pub(super) informers: &'a Informers,
    pub(super) primary: Option<Source<K>>,
    pub(super) primary_informer: Option<Informer<K>>,
}

impl<K: Object> Wiring<'_, K> {
    pub(super) fn primary_cache(&self) -> Option<Cache<K>> {
        self.primary_informer.as_ref().map(Informer::cache)
    }
}

/// A declaration, which starts its watch when it is called.
pub(super) type Wire<K> = Box<dyn FnOnce(&Wiring<'_, K>) -> Wired + Send>;

type EventCheck = Arc<dyn Fn(&EventMeta<'_>) -> bool + Send + Sync>;

/// The filters that every event of a controller must pass, whatever its kind.
#[derive(Clone, Default)]
pub(super) struct EventFilter {
    /// Filters of watch events and of the first list.
    live: Vec<EventCheck>,
    /// Filters of relists and resyncs, which are separate so that a filter of watch events never hides what the watch
    /// missed.
    replays: Vec<EventCheck>,
}

impl EventFilter {
    pub(super) fn add(&mut self, check: impl Fn(&EventMeta<'_>) -> bool + Send + Sync + 'static) {
        self.live.push(Arc::new(check));
    }

    pub(super) fn add_for_replays(&mut self, check: impl Fn(&EventMeta<'_>) -> bool + Send + Sync + 'static) {
        self.replays.push(Arc::new(check));
    }

    pub(super) fn passes(&self, event: &EventMeta<'_>) -> bool {
        let checks = if event.is_replay() { &self.replays } else { &self.live };
        checks.iter().all(|check| check(event))
    }
}

/// A source of keys that is not a watch.
pub(super) type Feed = Box<dyn FnOnce(Queue, EventFilter) -> BoxFuture<'static, ()> + Send>;

/// A declaration whose watch has started. Its cache fills; keys come once it is connected to a queue.
pub(super) struct Wired {
    pub(super) informer: Arc<dyn AnyInformer>,
    /// Connects the watch to a queue; `None` for a cache that is only read.
    pub(super) connect: Option<Connect>,
}

type Connect = Box<dyn FnOnce(Consumer<'_>) -> Connected + Send + Sync>;

/// The controller that receives the keys.
#[derive(Clone, Copy)]
pub(super) struct Consumer<'a> {
    pub(super) controller: &'a Arc<str>,
    pub(super) queue: &'a Queue,
    pub(super) filter: &'a EventFilter,
}

/// A trigger that fills a queue until this is dropped.
pub(super) struct Connected {
    _subscription: Subscription,
    /// Resyncs: maps every object in the cache to keys and queues them.
    pub(super) replay: Box<dyn Fn() + Send + Sync>,
}

/// Watches a source for a trigger.
pub(super) fn wire<K: Object, C: Object>(source: Source<C>, trigger: Trigger<C>) -> Wire<K> {
    Box::new(move |wiring| watched(wiring.informers.get(source), trigger))
}

/// Watches a source for reads only.
pub(super) fn wire_read<K: Object, C: Object>(source: Source<C>) -> Wire<K> {
    Box::new(move |wiring| {
        let informer = Arc::new(wiring.informers.get(source));
        Wired { informer, connect: None }
    })
}

pub(super) fn watched<C: Object>(informer: Informer<C>, trigger: Trigger<C>) -> Wired {
    let any = Arc::new(informer.clone());
    let connect: Connect = Box::new(move |consumer| connect(informer, trigger, consumer));
    Wired { informer: any, connect: Some(connect) }
}

fn connect<C: Object>(informer: Informer<C>, trigger: Trigger<C>, consumer: Consumer<'_>) -> Connected {
    let enqueue = Arc::new(Enqueue {
        controller: consumer.controller.clone(),
        queue: consumer.queue.clone(),
        trigger,
        filter: consumer.filter.clone(),
        kind: informer.source().resource().kind.as_str().into(),
        found: Mutex::default(),
    });
    let subscription = informer.subscribe_listener(enqueue.clone());
    Connected { _subscription: subscription, replay: Box::new(move || informer.replay_to(&*enqueue)) }
}

/// Queues the keys that a trigger finds in events.
struct Enqueue<C> {
    controller: Arc<str>,
    queue: Queue,
    trigger: Trigger<C>,
    filter: EventFilter,
    kind: Arc<str>,
    /// The keys of events that arrived together, which are added together.
    found: Mutex<Vec<(Request, i32, Cause)>>,
}

impl<C: Object> Listener<C> for Enqueue<C> {
    /// Filters and triggers are functions of the operator. A panic in one of them must not end the watch, which other
    /// controllers share: the event is dropped, and the log says so.
    fn event(&self, event: &Event<C>, key: &Request) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take(event, key))) {
            let (controller, kind, panic) = (&*self.controller, &*self.kind, panic_text(&*panic));
            tracing::error!(controller, kind, object = %key, panic, "a filter or a trigger panicked");
        }
    }

    fn rest(&self) {
        let mut found = self.found.lock();
        if !found.is_empty() {
            self.queue.add_all(found.drain(..));
        }
    }
}

impl<C: Object> Enqueue<C> {
    /// Collects the keys of an event for [`Listener::rest`].
    fn take(&self, event: &Event<C>, key: &Request) {
        if !self.filter.passes(&event.meta()) {
            return;
        }
        let priority = self.trigger.own_priority().unwrap_or(usual_priority(event.origin()));
        let mut found = self.found.lock();
        self.trigger.each_request(event, key, |request| {
            let (kind, object) = (self.kind.clone(), key.clone());
            found.push((request, priority, Cause::Object { kind, object, change: event.change() }));
        });
    }
}

/// The default priority of keys: low for the first list and resyncs, so that watch events go first. A relist finds
/// changes that the watch missed, which are as urgent as watch events.
fn usual_priority(origin: Origin) -> i32 {
    match origin {
        Origin::List | Origin::Resync => PRIORITY_LOW,
        Origin::Watch | Origin::Relist | Origin::Stream => PRIORITY_DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_relist_finds_is_as_urgent_as_what_a_watch_tells() {
        let origins = [Origin::List, Origin::Resync, Origin::Relist, Origin::Watch];
        assert_eq!(
            origins.map(usual_priority),
            [PRIORITY_LOW, PRIORITY_LOW, PRIORITY_DEFAULT, PRIORITY_DEFAULT]
        );
    }
}

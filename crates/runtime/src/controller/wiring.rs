//! From declarations to subscriptions: how a controller is connected to informers and queue.

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

/// What declarations become watches with.
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

/// A declaration that waits for its connection.
pub(super) type Wire<K> = Box<dyn FnOnce(&Wiring<'_, K>) -> Wired + Send>;

type EventCheck = Arc<dyn Fn(&EventMeta<'_>) -> bool + Send + Sync>;

/// What every event of a controller must pass, whatever its kind.
#[derive(Clone, Default)]
pub(super) struct EventFilter {
    /// What happens now, and what the first list brings.
    live: Vec<EventCheck>,
    /// What a relist found and a resync repeats: a filter of what happens never hides what the watch missed.
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

/// A source of keys that is no watch.
pub(super) type Feed = Box<dyn FnOnce(Queue, EventFilter) -> BoxFuture<'static, ()> + Send>;

/// A declaration that is watched. Its cache fills; keys come once it is connected to a queue.
pub(super) struct Wired {
    pub(super) informer: Arc<dyn AnyInformer>,
    /// None for a cache that is only read.
    pub(super) connect: Option<Connect>,
}

type Connect = Box<dyn FnOnce(Consumer<'_>) -> Connected + Send + Sync>;

/// Whom the keys are for.
#[derive(Clone, Copy)]
pub(super) struct Consumer<'a> {
    pub(super) controller: &'a Arc<str>,
    pub(super) queue: &'a Queue,
    pub(super) filter: &'a EventFilter,
}

/// A trigger that fills a queue, for as long as this lives.
pub(super) struct Connected {
    _subscription: Subscription,
    /// Replays the cache into the queue.
    pub(super) replay: Box<dyn Fn() + Send + Sync>,
}

/// Watches a source for a trigger.
pub(super) fn wire<K: Object, C: Object>(source: Source<C>, trigger: Trigger<C>) -> Wire<K> {
    Box::new(move |wiring| watched(wiring.informers.get(source), trigger))
}

/// Watches a source for reads alone.
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

/// Queues what events concern: live changes before what was there already.
struct Enqueue<C> {
    controller: Arc<str>,
    queue: Queue,
    trigger: Trigger<C>,
    filter: EventFilter,
    kind: Arc<str>,
    /// The keys of events that came together, to be added together.
    found: Mutex<Vec<(Request, i32, Cause)>>,
}

impl<C: Object> Listener<C> for Enqueue<C> {
    /// The functions that decide here are the operator's own. One that panics must not end the watch, which others
    /// share: that change wakes nobody, and the log says so.
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
    /// Keeps the keys that the event concerns, for [`Listener::rest`].
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

/// What nobody waits for lets live changes pass. What a relist finds is a change that the watch missed.
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

//! From declarations to subscriptions: how a controller is connected to informers and queue.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::cache::Cache;
use crate::cause::Cause;
use crate::event::{Event, EventMeta, Origin};
use crate::informer::{AnyInformer, Informer, Informers, Subscription};
use crate::queue::{Add, PRIORITY_DEFAULT, PRIORITY_LOW, Queue};
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

/// What every event of a controller must pass, whatever its kind.
pub(super) type EventFilter = Arc<dyn Fn(&EventMeta<'_>) -> bool + Send + Sync>;

/// A source of keys that is no watch.
pub(super) type Feed = Box<dyn FnOnce(Queue) -> BoxFuture<'static, ()> + Send>;

/// A declaration that is watched. Its cache fills; keys come once it is connected to a queue.
pub(super) struct Wired {
    pub(super) informer: Arc<dyn AnyInformer>,
    /// None for a cache that is only read.
    pub(super) connect: Option<Connect>,
}

type Connect = Box<dyn FnOnce(&Queue, Option<EventFilter>) -> Connected + Send + Sync>;

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
    let connect: Connect = Box::new(move |queue, filter| connect(informer, trigger, queue, filter));
    Wired { informer: any, connect: Some(connect) }
}

fn connect<C: Object>(
    informer: Informer<C>,
    trigger: Trigger<C>,
    queue: &Queue,
    filter: Option<EventFilter>,
) -> Connected {
    let kind: Arc<str> = informer.source().resource().kind.as_str().into();
    let (queue, trigger) = (queue.clone(), Arc::new(trigger));
    let handler = Arc::new(move |event: &Event<C>, key: &Request| {
        if filter.as_ref().is_none_or(|filter| filter(&event.meta())) {
            enqueue(&queue, &trigger, &kind, event, key);
        }
    });
    let subscription = informer.subscribe_keyed({
        let handler = handler.clone();
        move |event, key| handler(event, key)
    });
    let replay = {
        let informer = informer.clone();
        move || informer.replay_keyed(&*handler)
    };
    Connected { _subscription: subscription, replay: Box::new(replay) }
}

/// Queues what an event concerns: live changes before what was there already.
fn enqueue<C: Object>(queue: &Queue, trigger: &Trigger<C>, kind: &Arc<str>, event: &Event<C>, key: &Request) {
    let usual = match event.origin() {
        Origin::List | Origin::Resync => PRIORITY_LOW,
        Origin::Watch | Origin::Relist => PRIORITY_DEFAULT,
    };
    let priority = trigger.own_priority().unwrap_or(usual);
    trigger.each_request(event, key, |request| {
        let cause = Cause::Object { kind: kind.clone(), object: key.clone(), change: event.change() };
        queue.add_with(request, Add { priority, cause: Some(cause), ..Add::default() });
    });
}

//! The work queue: keys, never events.
//!
//! A key is in the queue at most once. A key that is being worked on is never handed out a second time; if it is
//! added meanwhile, it is handed out once more after [`Queue::done`]. Ready keys are handed out by priority, then in
//! the order of their arrival, except that a namespace with very many ready keys lets others pass (see
//! [`ROUND_SIZE`]). Failed keys come back after a backoff of their own.
//!
//! The queue keeps the ledger: every key that is ready or in work is a piece of work, and the earliest delayed key
//! is its deadline.

mod backoff;
mod state;

pub use backoff::Backoff;
pub use state::ROUND_SIZE;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::{Deadline, Env, Station};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Request;
use crate::cause::{Cause, Causes};
use state::State;

/// The priority of keys that a watch, a person or a timer added.
pub const PRIORITY_DEFAULT: i32 = 0;

/// The priority of keys from an initial list or a resync: live changes go first.
pub const PRIORITY_LOW: i32 = -100;

/// What a queue can hold.
pub trait QueueKey: Clone + Eq + Ord + Hash + fmt::Display + Send + Sync + 'static {
    /// What fairness is among: keys of one group let those of others pass when they are very many.
    fn group(&self) -> Option<&Arc<str>> {
        None
    }
}

impl QueueKey for Request {
    fn group(&self) -> Option<&Arc<str>> {
        self.namespace.as_ref()
    }
}

/// A rate-limited, deduplicating queue of keys with priorities. Cloning shares it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use evenkeel_runtime::{Env, Queue, Request};
///
/// let queue = Queue::new("pods", &Env::seeded(1));
/// queue.add(Request::namespaced("prod", "web"));
/// queue.add(Request::namespaced("prod", "web"));
/// assert_eq!(queue.len(), 1);
///
/// let item = queue.get().await.unwrap();
/// assert_eq!(item.key.to_string(), "prod/web");
/// queue.forget(&item.key);
/// queue.done(&item.key);
/// assert!(queue.is_empty());
/// # });
/// ```
pub struct Queue<T: QueueKey = Request> {
    shared: Arc<Shared<T>>,
}

struct Shared<T: QueueKey> {
    state: Mutex<State<T>>,
    /// Told when a key may be ready, once for each, and when the queue shuts down.
    ready: Notify,
    /// Told when a key is done and the queue is empty, for those who drain.
    drained: Notify,
    /// The earliest delayed key, for the ledger.
    deadline: Deadline,
    station: Station,
    backoff: Backoff,
    env: Env,
}

/// A key that was handed out.
#[derive(Clone, Debug)]
pub struct Item<T = Request> {
    /// The key.
    pub key: T,
    /// The highest priority it was added with.
    pub priority: i32,
    /// Why it was added.
    pub causes: Causes,
    /// When it became ready.
    pub ready_at: Instant,
    /// How many times in a row it was added by [`Queue::add_rate_limited`], without [`Queue::forget`].
    pub requeues: u32,
}

/// How to add a key.
#[derive(Clone, Debug, Default)]
pub struct Add {
    /// Where the key is queued already, the higher priority stands.
    pub priority: i32,
    /// Not before this much time has passed; where the key is queued already, the earlier time stands.
    pub after: Option<Duration>,
    /// Waits for the key's backoff, and lengthens it; a time in `after` replaces the backoff this once.
    pub rate_limited: bool,
    /// Why.
    pub cause: Option<Cause>,
}

impl<T: QueueKey> Queue<T> {
    /// An empty queue with the usual [`Backoff`].
    pub fn new(name: &str, env: &Env) -> Self {
        Self::with_backoff(name, env, Backoff::default())
    }

    /// An empty queue with a backoff of one's own.
    pub fn with_backoff(name: &str, env: &Env, backoff: Backoff) -> Self {
        let ledger = env.ledger();
        let shared = Shared {
            state: Mutex::default(),
            ready: Notify::new(),
            drained: Notify::new(),
            deadline: ledger.deadline(format!("queue {name}: earliest delayed key")),
            station: ledger.station(format!("queue {name}")),
            backoff,
            env: env.clone(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Adds a key, to be handed out as soon as possible.
    pub fn add(&self, key: T) {
        self.add_with(key, Add::default());
    }

    /// Adds a key, to be handed out after `delay`.
    pub fn add_after(&self, key: T, delay: Duration) {
        self.add_with(key, Add { after: Some(delay), ..Add::default() });
    }

    /// Adds a key, to be handed out after its backoff, which grows with each call.
    pub fn add_rate_limited(&self, key: T) {
        self.add_with(key, Add { rate_limited: true, ..Add::default() });
    }

    /// Adds a key. After a shutdown this does nothing.
    pub fn add_with(&self, key: T, add: Add) {
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        if state.is_shut_down() {
            return;
        }
        let mut delay = add.after;
        if add.rate_limited {
            let failures = state.count_failure(&key);
            delay = delay.or_else(|| Some(self.shared.backoff.delay(failures, &self.shared.env, now)));
        }
        let at = delay.filter(|delay| !delay.is_zero()).and_then(|delay| now.checked_add(delay));
        let became_ready = state.add(key, add.priority, at, add.cause, now, &self.shared.station);
        self.shared.deadline.set(state.next_due());
        drop(state);
        // A delayed key may have become the earliest: a waiting worker then sets its timer anew.
        if became_ready || at.is_some() {
            self.shared.ready.notify_one();
        }
    }

    /// Waits for the next key; `None` after a shutdown. Every key that was handed out must be given to
    /// [`Queue::done`].
    pub async fn get(&self) -> Option<Item<T>> {
        loop {
            let ready = self.shared.ready.notified();
            let due = match self.poll_get() {
                Poll::Item(item) => return Some(*item),
                Poll::ShutDown => return None,
                Poll::Wait(due) => due,
            };
            match due {
                None => ready.await,
                Some(due) => {
                    let _ = tokio::time::timeout_at(due, ready).await;
                }
            }
        }
    }

    /// The next key, if one is ready now.
    pub fn try_get(&self) -> Option<Item<T>> {
        match self.poll_get() {
            Poll::Item(item) => Some(*item),
            Poll::Wait(_) | Poll::ShutDown => None,
        }
    }

    fn poll_get(&self) -> Poll<T> {
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        state.promote_due(now, &self.shared.station);
        let next = state.pop();
        self.shared.deadline.set(state.next_due());
        let more = state.has_ready();
        let shut_down = state.is_shut_down();
        let due = state.next_due();
        drop(state);
        match next {
            Some(item) => {
                // Several keys may fall due at once while only one worker woke.
                if more {
                    self.shared.ready.notify_one();
                }
                Poll::Item(Box::new(item))
            }
            None if shut_down => Poll::ShutDown,
            None => Poll::Wait(due),
        }
    }

    /// Says that the work on a key is over; if it was added meanwhile, it is queued again now.
    pub fn done(&self, key: &T) {
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        let (became_ready, ended) = state.done(key, now, &self.shared.station);
        self.shared.deadline.set(state.next_due());
        drop(ended);
        let drained = state.is_idle();
        drop(state);
        if became_ready {
            self.shared.ready.notify_one();
        }
        if drained {
            self.shared.drained.notify_waiters();
        }
    }

    /// Forgets the failures of a key, so that its next backoff is the shortest.
    pub fn forget(&self, key: &T) {
        self.shared.state.lock().forget(key);
    }

    /// How many times in a row the key was added by [`Queue::add_rate_limited`].
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.shared.state.lock().failures(key)
    }

    /// How many keys are ready to be handed out.
    pub fn len(&self) -> usize {
        let mut state = self.shared.state.lock();
        state.promote_due(Instant::now(), &self.shared.station);
        self.shared.deadline.set(state.next_due());
        state.ready_len()
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys wait for their time.
    pub fn len_delayed(&self) -> usize {
        self.shared.state.lock().delayed_len()
    }

    /// How many keys are being worked on.
    pub fn len_in_flight(&self) -> usize {
        self.shared.state.lock().in_flight_len()
    }

    /// How many adds there were, deduplicated or not.
    pub fn adds(&self) -> u64 {
        self.shared.state.lock().adds()
    }

    /// How many of them were rate-limited.
    pub fn retries(&self) -> u64 {
        self.shared.state.lock().retries()
    }

    /// Ends the queue: nothing more is added, ready keys are dropped, `get` gives `None`.
    pub fn shut_down(&self) {
        self.end(true);
    }

    /// Ends the queue after the ready keys were handed out and all that are in flight are done; delayed keys are
    /// dropped.
    pub async fn shut_down_with_drain(&self) {
        self.end(false);
        loop {
            let drained = self.shared.drained.notified();
            if self.shared.state.lock().is_idle() {
                return;
            }
            drained.await;
        }
    }

    fn end(&self, drop_ready: bool) {
        let mut state = self.shared.state.lock();
        state.shut_down(drop_ready);
        self.shared.deadline.set(None);
        drop(state);
        self.shared.ready.notify_waiters();
        // A waiter that is just about to wait would miss the line above; each passes this one on.
        self.shared.ready.notify_one();
    }
}

enum Poll<T> {
    Item(Box<Item<T>>),
    ShutDown,
    /// Nothing is ready before this time.
    Wait(Option<Instant>),
}

impl<T: QueueKey> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T: QueueKey> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        f.debug_struct("Queue")
            .field("ready", &state.ready_len())
            .field("delayed", &state.delayed_len())
            .field("in_flight", &state.in_flight_len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

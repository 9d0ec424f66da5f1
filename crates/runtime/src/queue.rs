//! The work queue: keys, never events.
//!
//! A key is in the queue at most once. A key that is being worked on is never handed out a second time; if it is
//! added meanwhile, it is handed out once more after [`Queue::done`]. Ready keys are handed out by priority, then in
//! the order of their arrival, except that a namespace with very many ready keys lets others pass (see
//! [`ROUND_SIZE`]). A key whose priority is raised stands behind those that had it before. Failed keys come back after a
//! backoff of their own.
//!
//! The queue keeps the ledger: every key that is ready or in work is a piece of work, and the earliest delayed key
//! is its deadline.

mod account;
mod backoff;
mod groups;
mod handoff;
mod lines;
mod slots;
mod state;
mod sync;
mod table;
mod turns;

pub use backoff::Backoff;
pub use state::ROUND_SIZE;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::Env;
use tokio::time::Instant;

use crate::Request;
use crate::cause::{Cause, Causes};
use account::Account;
use handoff::{Handoff, Look, Wake};
use state::{End, State};

/// The priority of keys that a watch, a person or a timer added.
pub const PRIORITY_DEFAULT: i32 = 0;

/// The priority of keys from an initial list or a resync: live changes go first.
pub const PRIORITY_LOW: i32 = -100;

/// What a queue can hold.
///
/// ```
/// use std::fmt;
/// use evenkeel_runtime::queue::{Queue, QueueKey};
/// use evenkeel_runtime::Env;
///
/// #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
/// struct Tenant(u64);
///
/// impl fmt::Display for Tenant {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         write!(f, "tenant {}", self.0)
///     }
/// }
///
/// impl QueueKey for Tenant {}
///
/// let queue: Queue<Tenant> = Queue::new("tenants", &Env::seeded(1));
/// queue.add(Tenant(7));
/// assert_eq!(queue.len(), 1);
/// ```
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
    state: Handoff<Accounted<T>>,
    backoff: Backoff,
    env: Env,
}

/// The state and what the ledger was told of it.
struct Accounted<T> {
    state: State<T>,
    account: Account,
}

impl<T: QueueKey> Accounted<T> {
    /// Changes the state and keeps the ledger at it.
    #[inline]
    fn change<R>(&mut self, change: impl FnOnce(&mut State<T>) -> R) -> R {
        let result = change(&mut self.state);
        self.account.balance(self.state.pending_len(), self.state.next_due());
        result
    }
}

/// A key that was handed out.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use evenkeel_runtime::queue::{Add, Item, Queue};
/// use evenkeel_runtime::{Cause, Env, Request};
///
/// let queue = Queue::new("pods", &Env::seeded(1));
/// let cause = Some(Cause::External("webhook".into()));
/// queue.add_with(Request::namespaced("prod", "web"), Add { priority: 5, cause, ..Add::default() });
/// let item: Item = queue.get().await.unwrap();
/// assert_eq!((item.priority, item.requeues), (5, 0));
/// assert_eq!(item.causes.to_string(), "webhook");
/// queue.done(&item.key);
/// # });
/// ```
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
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use evenkeel_runtime::queue::{Add, PRIORITY_LOW, Queue};
/// use evenkeel_runtime::{Env, Request};
///
/// let queue = Queue::new("pods", &Env::seeded(1));
/// let later = Add { priority: PRIORITY_LOW, after: Some(Duration::from_secs(60)), ..Add::default() };
/// queue.add_with(Request::namespaced("prod", "web"), later);
/// assert_eq!((queue.len(), queue.len_delayed()), (0, 1));
/// # });
/// ```
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
        let account = Account::open(env.ledger(), name);
        let state = Handoff::new(Accounted { state: State::default(), account });
        Self { shared: Arc::new(Shared { state, backoff, env: env.clone() }) }
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
        let shared = &*self.shared;
        let now = Instant::now();
        shared.change(|state| {
            if state.is_shut_down() {
                return ((), Wake::default());
            }
            let mut delay = add.after;
            if add.rate_limited {
                let failures = state.count_failure(&key);
                delay = delay.or_else(|| Some(shared.backoff.delay(failures, &shared.env, now)));
            }
            let at = delay.filter(|delay| !delay.is_zero()).and_then(|delay| now.checked_add(delay));
            let became_ready = state.add(key, add.priority, at, add.cause, now);
            // A delayed key may have become the earliest: a waiting worker then sets its timer anew.
            ((), Wake { one: became_ready || at.is_some(), ..Wake::default() })
        });
    }

    /// Adds several keys, for now, with their priorities and causes.
    pub(crate) fn add_all(&self, adds: impl Iterator<Item = (T, i32, Cause)>) {
        let now = Instant::now();
        self.shared.change(|state| {
            if state.is_shut_down() {
                return ((), Wake::default());
            }
            let mut one = false;
            for (key, priority, cause) in adds {
                one |= state.add(key, priority, None, Some(cause), now);
            }
            // Whoever takes the first of them wakes the next worker.
            ((), Wake { one, ..Wake::default() })
        });
    }

    /// Waits for the next key; `None` after a shutdown. Every key that was handed out must be given to
    /// [`Queue::done`].
    pub async fn get(&self) -> Option<Item<T>> {
        self.shared.state.take(|kept| kept.change(look)).await
    }

    /// The next key, if one is ready now.
    pub fn try_get(&self) -> Option<Item<T>> {
        match self.shared.change(look) {
            Look::Found(item) => item,
            Look::Wait(_) => None,
        }
    }

    /// Says that the work on a key is over; if it was added meanwhile, it is queued again now.
    pub fn done(&self, key: &T) {
        self.shared.end_work(|state| state.done(key));
    }

    /// [`Queue::forget`] and [`Queue::done`] at once: what most reconciles end with.
    pub(crate) fn succeeded(&self, key: &T) {
        self.shared.end_work(|state| state.succeeded(key));
    }

    /// Gives a key back that was not worked on: it is queued again with its causes and its priority.
    pub(crate) fn put_back(&self, item: Item<T>) {
        self.shared.end_work(|state| state.put_back(item));
    }

    /// Forgets the failures of a key, so that its next backoff is the shortest.
    pub fn forget(&self, key: &T) {
        self.read(|state| state.forget(key));
    }

    /// How many times in a row the key was added by [`Queue::add_rate_limited`].
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.read(|state| state.failures(key))
    }

    /// How many keys are ready to be handed out.
    pub fn len(&self) -> usize {
        self.read(|state| {
            state.promote_due(Instant::now());
            state.ready_len()
        })
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys wait for their time.
    pub fn len_delayed(&self) -> usize {
        self.read(|state| state.delayed_len())
    }

    /// How many keys are being worked on.
    pub fn len_in_flight(&self) -> usize {
        self.read(|state| state.in_flight_len())
    }

    /// How many times a key became ready: adds without those that found it ready already.
    pub fn adds(&self) -> u64 {
        self.read(|state| state.adds())
    }

    /// How many adds were for later: rate-limited, or after a time.
    pub fn retries(&self) -> u64 {
        self.read(|state| state.retries())
    }

    /// Ends the queue: nothing more is added, ready keys are dropped, `get` gives `None`.
    pub fn shut_down(&self) {
        self.end(End::Closed);
    }

    /// Ends the queue after the ready keys were handed out and all that are in flight are done; delayed keys are
    /// dropped.
    pub async fn shut_down_with_drain(&self) {
        self.end(End::Draining);
        self.shared.state.drained(|kept| kept.state.is_idle()).await;
    }

    fn end(&self, end: End) {
        self.shared.change(|state| {
            state.shut_down(end);
            ((), Wake { all: true, drained: state.is_idle(), ..Wake::default() })
        });
    }

    /// Looks at the state; nobody is woken.
    fn read<R>(&self, read: impl FnOnce(&mut State<T>) -> R) -> R {
        self.shared.change(|state| (read(state), Wake::default()))
    }
}

impl<T: QueueKey> Shared<T> {
    fn change<R>(&self, change: impl FnOnce(&mut State<T>) -> (R, Wake)) -> R {
        self.state.change(|kept| kept.change(change))
    }

    fn end_work(&self, end: impl FnOnce(&mut State<T>) -> bool) {
        self.change(|state| {
            let became_ready = end(state);
            ((), Wake { one: became_ready, drained: state.is_idle(), ..Wake::default() })
        });
    }
}

/// Takes the next key, if one is ready: `Found(None)` after a shutdown.
fn look<T: QueueKey>(state: &mut State<T>) -> (Look<Option<Item<T>>>, Wake) {
    if state.delayed_len() > 0 {
        state.promote_due(Instant::now());
    }
    match state.pop() {
        // Several keys may fall due at once while only one worker woke.
        Some(item) => (Look::Found(Some(item)), Wake { one: state.has_ready(), ..Wake::default() }),
        None if state.is_shut_down() => (Look::Found(None), Wake::default()),
        None => (Look::Wait(state.next_due()), Wake::default()),
    }
}

impl<T: QueueKey> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T: QueueKey> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ready, delayed, in_flight) =
            self.read(|state| (state.ready_len(), state.delayed_len(), state.in_flight_len()));
        f.debug_struct("Queue")
            .field("ready", &ready)
            .field("delayed", &delayed)
            .field("in_flight", &in_flight)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod interleaving;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

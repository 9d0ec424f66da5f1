//! The work queue. It carries keys, never events.
//!
//! A key is in the queue at most once. A key in flight (handed out, and not done yet) is never handed out a second time;
//! if it is added meanwhile, it is handed out once more after [`Queue::done`]. Ready keys are handed out by priority,
//! then in the order of their arrival, except that namespaces take turns if one of them has very many ready keys (see
//! [`ROUND_SIZE`]). A key whose priority is raised goes behind the keys that have that priority already. Each failed key
//! comes back after its own backoff.
//!
//! The queue keeps the ledger up to date: every key that is ready or in flight is pending work, and the time of the
//! earliest delayed key is a deadline. A key that a successful reconcile asked to look at again later is at rest until
//! then, unless its reconciles keep writing.

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
use std::sync::{Arc, Weak};
use std::time::Duration;

use evenkeel_env::{Env, Purpose};
use tokio::time::Instant;

use crate::Request;
use crate::cause::{Cause, Causes};
use account::Account;
use handoff::{Handoff, Look, Wake};
use state::{End, Later, State};

/// The priority of keys that a watch event, a timer or a direct call added.
pub const PRIORITY_DEFAULT: i32 = 0;

/// The priority of keys from an initial list or a resync: live changes go first.
pub const PRIORITY_LOW: i32 = -100;

/// A key that a queue can hold.
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
    /// The group of the key. Groups take turns if one of them has very many ready keys.
    fn group(&self) -> Option<&Arc<str>> {
        None
    }
}

impl QueueKey for Request {
    fn group(&self) -> Option<&Arc<str>> {
        self.namespace.as_ref()
    }
}

/// A rate-limited, deduplicating queue of keys with priorities. Clones share one queue.
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

/// The state of the queue, with its entries in the ledger.
struct Accounted<T> {
    state: State<T>,
    account: Account,
}

impl<T: QueueKey> Accounted<T> {
    /// Changes the state, and the entries in the ledger with it.
    #[inline]
    fn change<R>(&mut self, change: impl FnOnce(&mut State<T>) -> R) -> R {
        let result = change(&mut self.state);
        self.account.balance(self.state.pending_len(), self.state.dues());
        result
    }
}

/// A key that the queue handed out.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use evenkeel_runtime::queue::{Add, Item, Queue};
/// use evenkeel_runtime::{Cause, Env, Request};
///
/// let queue = Queue::new("pods", &Env::seeded(1));
/// let add = Add::default().priority(5).cause(Cause::External("webhook".into()));
/// queue.add_with(Request::namespaced("prod", "web"), add);
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
    /// The highest priority that the key was added with.
    pub priority: i32,
    /// Why the key was added.
    pub causes: Causes,
    /// When the key became ready.
    pub ready_at: Instant,
    /// How many times the key was added by [`Queue::add_rate_limited`] since the last [`Queue::forget`].
    pub requeues: u32,
}

/// Options for adding a key.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use evenkeel_runtime::queue::{Add, PRIORITY_LOW, Queue};
/// use evenkeel_runtime::{Env, Request};
///
/// let queue = Queue::new("pods", &Env::seeded(1));
/// let later = Add::default().priority(PRIORITY_LOW).after(Duration::from_secs(60));
/// queue.add_with(Request::namespaced("prod", "web"), later);
/// assert_eq!((queue.len(), queue.len_delayed()), (0, 1));
/// # });
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use = "`Queue::add_with` takes the options"]
pub struct Add {
    /// The priority. If the key is queued already, the higher priority wins.
    pub priority: i32,
    /// The delay before the key is ready. If the key is queued already, the earlier time wins.
    pub after: Option<Duration>,
    /// Whether the key waits for its backoff, which grows with each such add. A delay in `after` replaces the backoff this
    /// time.
    pub rate_limited: bool,
    /// Why the key is added.
    pub cause: Option<Cause>,
}

impl Add {
    /// Sets the priority.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Delays the key.
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Makes the key wait for its backoff, which grows with each such add.
    pub fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }

    /// Sets why the key is added.
    pub fn cause(mut self, cause: Cause) -> Self {
        self.cause = Some(cause);
        self
    }
}

impl<T: QueueKey> Queue<T> {
    /// An empty queue with the default [`Backoff`].
    pub fn new(name: &str, env: &Env) -> Self {
        Self::with_backoff(name, env, Backoff::default())
    }

    /// An empty queue with this backoff.
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

    /// Adds a key with options. Does nothing after a shutdown.
    pub fn add_with(&self, key: T, add: Add) {
        self.add_for(key, add, Purpose::Work);
    }

    /// Adds a key with options, and returns its delay. `purpose` is the ledger's purpose for that delay.
    pub(crate) fn add_for(&self, key: T, add: Add, purpose: Purpose) -> Option<Duration> {
        let shared = &*self.shared;
        let now = Instant::now();
        shared.change(|state| {
            if state.is_shut_down() {
                return (None, Wake::default());
            }
            let mut delay = add.after;
            if add.rate_limited {
                let failures = state.count_failure(&key);
                delay = delay.or_else(|| Some(shared.backoff.delay(failures, &shared.env, now)));
            }
            let at = delay.filter(|delay| !delay.is_zero()).and_then(|delay| now.checked_add(delay));
            let later = at.map(|at| Later { at, purpose });
            let became_ready = state.add(key, add.priority, later, add.cause, now);
            // The key may now be the earliest delayed one: a waiting worker must reset its timer.
            (delay, Wake { one: became_ready || at.is_some(), ..Wake::default() })
        })
    }

    /// Adds several keys without a delay, with their priorities and causes.
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
            // Waking one worker is enough: whoever takes a key wakes the next worker.
            ((), Wake { one, ..Wake::default() })
        });
    }

    /// Waits for the next key. Returns `None` after a shutdown. Every key that was handed out must be passed to
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

    /// Ends the work on a key. If the key was added meanwhile, it is queued again now.
    pub fn done(&self, key: &T) {
        self.shared.end_work(|state| state.done(key));
    }

    /// Does what [`Queue::forget`] and [`Queue::done`] do, in one step: most reconciles end like this.
    pub(crate) fn succeeded(&self, key: &T) {
        self.shared.end_work(|state| state.succeeded(key));
    }

    /// Puts back a key that was handed out but not worked on, with its causes and its priority.
    pub(crate) fn put_back(&self, item: Item<T>) {
        self.shared.end_work(|state| state.put_back(item));
    }

    /// Forgets the failures of a key, so that its backoff starts over.
    pub fn forget(&self, key: &T) {
        self.read(|state| state.forget(key));
    }

    /// How many times the key was added by [`Queue::add_rate_limited`] since the last [`Queue::forget`].
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.read(|state| state.failures(key))
    }

    /// The number of ready keys.
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

    /// The number of delayed keys.
    pub fn len_delayed(&self) -> usize {
        self.read(|state| state.delayed_len())
    }

    /// The number of keys in flight: handed out, and not done yet.
    pub fn len_in_flight(&self) -> usize {
        self.read(|state| state.in_flight_len())
    }

    /// How many times a key became ready. An add of a key that is ready already does not count.
    pub fn adds(&self) -> u64 {
        self.read(|state| state.adds())
    }

    /// How many adds had a delay or were rate-limited.
    pub fn retries(&self) -> u64 {
        self.read(|state| state.retries())
    }

    /// Shuts the queue down: adds do nothing, ready keys are dropped, and `get` returns `None`.
    pub fn shut_down(&self) {
        self.end(End::Closed);
    }

    /// Shuts the queue down after all ready keys were handed out and all keys in flight are done. Delayed keys are
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

    /// Reads the state without waking anybody.
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

/// Takes the next key, if one is ready. `Found(None)` means that the queue was shut down.
fn look<T: QueueKey>(state: &mut State<T>) -> (Look<Option<Item<T>>>, Wake) {
    if state.delayed_len() > 0 {
        state.promote_due(Instant::now());
    }
    match state.pop() {
        // Several delayed keys may become ready at once while only one worker wakes.
        Some(item) => (Look::Found(Some(item)), Wake { one: state.has_ready(), ..Wake::default() }),
        None if state.is_shut_down() => (Look::Found(None), Wake::default()),
        None => (Look::Wait(state.next_due()), Wake::default()),
    }
}

/// A reference to a queue that does not keep it alive, because the pending work of a queue must end with its
/// controller.
pub(crate) struct WeakQueue(Weak<Shared<Request>>);

impl WeakQueue {
    pub(crate) fn upgrade(&self) -> Option<Queue> {
        self.0.upgrade().map(|shared| Queue { shared })
    }
}

impl Queue {
    pub(crate) fn downgrade(&self) -> WeakQueue {
        WeakQueue(Arc::downgrade(&self.shared))
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

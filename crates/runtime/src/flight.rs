//! The flight recorder: what the controllers of a manager did recently, and why.
//!
//! The recorder is always on, and bounded: it uses 8 MiB unless [`Manager::flight_bytes`](crate::Manager::flight_bytes)
//! sets another size. Each worker of each controller writes to a ring buffer of its own, so that workers share no lock.
//! All rings have equal shares of the memory. A full ring drops its oldest reconcile first, but failed and slow
//! reconciles move to a reserved quarter of the ring, and leave that oldest first.
//!
//! A reconcile is recorded when it has ended, from what its worker holds anyway: the key and causes are moved into the
//! record instead of being dropped. Everything else is computed when the record is read ([`Flight::record`]).
//!
//! The recorder keeps field paths of objects. It keeps values only of numbers, booleans and words such as phases and
//! the status and reason of conditions, and never of Secrets or of fields that are sensitive by their name or by
//! [`Manager::sensitive`](crate::Manager::sensitive).

mod changes;
mod describe;
mod notes;
mod ring;
mod sections;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_env::Env;
use evenkeel_record::{Entry, Origin, Record, Watch};
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use crate::queue::{Queue, WeakQueue};

pub(crate) use changes::{Body, Sensitive, changes, fields};
pub(crate) use notes::{Tally, asked, error_text, follow};
pub(crate) use ring::{Ended, Flown, Ring};

/// The default limit of a flight recorder's memory: enough for about 30,000 reconciles without requests.
pub const FLIGHT_BYTES: usize = 8 << 20;

/// The smallest share of one ring. The largest reconcile that is recorded takes about 30 KiB.
const RING_BYTES_MIN: usize = 64 << 10;

/// How many webhook calls and leadership changes are kept: about 200 KiB.
#[cfg(any(feature = "leader-election", feature = "webhooks"))]
const NOTICES_MAX: usize = 1024;

/// The record of what a manager's controllers did. Clones share one record.
///
/// ```no_run
/// # fn example(manager: evenkeel_runtime::Manager) {
/// let flight = manager.flight();
/// // later, while the manager runs:
/// for found in evenkeel_runtime::flight::questions::loops(&flight.record()) {
///     eprintln!("{found}");
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct Flight {
    inner: Arc<Inner>,
}

pub use evenkeel_record::{self as record, questions};

struct Inner {
    start: Instant,
    started: Timestamp,
    bytes_max: AtomicUsize,
    rings: Mutex<Vec<Arc<Ring>>>,
    controllers: Mutex<Vec<Running>>,
    /// The webhook calls and leadership changes.
    notices: Mutex<VecDeque<Entry>>,
    /// Describes the watches of the manager.
    watches: Mutex<Option<DescribeWatches>>,
    sensitive: Arc<RwLock<Sensitive>>,
}

/// Describes the watches of a manager.
type DescribeWatches = Box<dyn Fn() -> Vec<Watch> + Send + Sync>;

/// A running controller.
struct Running {
    name: Arc<str>,
    kind: String,
    workers: usize,
    /// A weak reference: a record may outlive its manager, whose pending work must end.
    queue: WeakQueue,
}

/// A position in the record, for readers that follow it.
#[derive(Clone, Debug, Default)]
pub struct Position {
    /// For each ring, the number of reconciles that were recorded in it.
    rings: Vec<u64>,
    /// The time up to which notices have been read, in microseconds since the start.
    notices: u64,
}

impl Flight {
    pub(crate) fn new(env: &Env) -> Self {
        let inner = Inner {
            start: Instant::now(),
            started: env.now(),
            bytes_max: AtomicUsize::new(FLIGHT_BYTES),
            rings: Mutex::default(),
            controllers: Mutex::default(),
            notices: Mutex::default(),
            watches: Mutex::new(None),
            sensitive: Arc::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// When the record begins.
    pub fn started(&self) -> Instant {
        self.inner.start
    }

    /// Whether `other` is a clone of this recorder.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns everything that the recorder currently holds, in order of time.
    pub fn record(&self) -> Record {
        self.record_after(&mut Position::default())
    }

    /// Returns what was recorded after `position`, and moves `position` on. Controllers and watches are described as
    /// they are now.
    pub fn record_after(&self, position: &mut Position) -> Record {
        let rings = self.inner.rings.lock().clone();
        position.rings.resize(rings.len(), 0);
        let mut record = Record {
            origin: Origin::Operator,
            started: self.inner.started.to_string(),
            taken: self.micros(Instant::now()),
            bytes_max: self.inner.bytes_max.load(Ordering::Relaxed) as u64,
            ..Record::default()
        };
        for (ring, seen) in rings.iter().zip(&mut position.rings) {
            let (flown, kept) = ring.after(seen);
            record.bytes += kept.bytes as u64;
            record.dropped += kept.dropped;
            let described = flown.iter().map(|flown| describe::reconcile(flown, ring, self.inner.start));
            record.entries.extend(described.map(|it| Entry::Reconcile(Box::new(it))));
        }
        let notices = self.inner.notices.lock();
        record.entries.extend(notices.iter().filter(|it| it.at() >= position.notices).cloned());
        position.notices = record.taken;
        drop(notices);
        record.entries.sort_by_key(Entry::at);
        record.controllers = self.controllers();
        record.watches = self.inner.watches.lock().as_ref().map(|watches| watches()).unwrap_or_default();
        record
    }

    fn controllers(&self) -> Vec<evenkeel_record::Controller> {
        let running = self.inner.controllers.lock();
        let described = running.iter().map(|running| {
            let queue = running.queue.upgrade();
            let count = |of: fn(&Queue) -> usize| queue.as_ref().map_or(0, of);
            evenkeel_record::Controller {
                name: running.name.to_string(),
                operator: String::new(),
                kind: running.kind.clone(),
                workers: running.workers,
                ready: count(Queue::len),
                delayed: count(Queue::len_delayed),
                in_flight: count(Queue::len_in_flight),
            }
        });
        described.collect()
    }

    /// The time of an instant in the record.
    fn micros(&self, at: Instant) -> u64 {
        micros(at.saturating_duration_since(self.inner.start))
    }

    /// Whether reconciles are recorded: with a limit of no bytes they are not.
    pub(crate) fn is_on(&self) -> bool {
        self.inner.bytes_max.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn set_bytes_max(&self, bytes: usize) {
        self.inner.bytes_max.store(bytes, Ordering::Relaxed);
        self.share();
    }

    pub(crate) fn mark_sensitive(&self, path: &str) {
        self.inner.sensitive.write().mark(path);
    }

    pub(crate) fn sensitive(&self) -> Arc<RwLock<Sensitive>> {
        self.inner.sensitive.clone()
    }

    pub(crate) fn describe_watches(&self, watches: impl Fn() -> Vec<Watch> + Send + Sync + 'static) {
        *self.inner.watches.lock() = Some(Box::new(watches));
    }

    /// Adds the rings of a starting controller, one for each of its workers. `ids` is the prefix of its reconcile ids.
    pub(crate) fn rings(
        &self,
        name: &Arc<str>,
        kind: &str,
        ids: &str,
        workers: usize,
        queue: &Queue,
    ) -> Vec<Arc<Ring>> {
        let rings: Vec<_> = (0..workers).map(|_| Arc::new(Ring::new(name.clone(), kind, ids))).collect();
        self.inner.rings.lock().extend(rings.iter().cloned());
        let running =
            Running { name: name.clone(), kind: kind.to_owned(), workers, queue: queue.downgrade() };
        self.inner.controllers.lock().push(running);
        self.share();
        rings
    }

    /// Gives all rings equal shares of the memory.
    fn share(&self) {
        let rings = self.inner.rings.lock();
        let share = self.inner.bytes_max.load(Ordering::Relaxed) / rings.len().max(1);
        rings.iter().for_each(|ring| ring.limit(share.max(RING_BYTES_MIN)));
    }

    #[cfg(feature = "leader-election")]
    pub(crate) fn leads(&self, lease: &str, leads: bool) {
        let at = self.micros(Instant::now());
        self.notice(Entry::Leadership { at, lease: lease.to_owned(), leads });
    }

    /// Notes a review that a webhook answered.
    #[cfg(feature = "webhooks")]
    pub(crate) fn reviewed(&self, path: &str, begun: Instant, code: u16) {
        let call = evenkeel_record::WebhookCall {
            at: self.micros(begun),
            path: path.to_owned(),
            code,
            took: micros(begun.elapsed()),
            ..evenkeel_record::WebhookCall::default()
        };
        self.notice(Entry::Webhook(call));
    }

    #[cfg(any(feature = "leader-election", feature = "webhooks"))]
    fn notice(&self, entry: Entry) {
        let mut notices = self.inner.notices.lock();
        if notices.len() == NOTICES_MAX {
            notices.pop_front();
        }
        notices.push_back(entry);
    }
}

/// A duration in microseconds.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flight({} rings)", self.inner.rings.lock().len())
    }
}

#[cfg(test)]
mod tests;

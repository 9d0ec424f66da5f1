//! The ledger of pending work, from which the test kit knows whether a cluster is at rest.
//!
//! A part that has work to do (a request, an event that is being delivered, a key, a reconcile) holds a [`Work`] until it
//! is done. A part that will act at a known time (a retry, a delayed key, a node's transition) keeps a [`Deadline`] set.
//! A deadline has a [`Purpose`]: a part that only wants to look again later is at rest until then. Upkeep timers (resync,
//! leases, heartbeats, bookmarks, watch timeouts) are not work and are not entered.
//!
//! *The hand-over rule:* when work passes from one part to another, the receiver enters its [`Work`] before the sender
//! drops its own. A stream of events drops the work of an item only when the consumer asks for the next item, or when the
//! stream is dropped: by then the consumer has handled the item.

mod turns;
mod wait;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use turns::Turns;
use wait::Wait;

/// After how many moves the waiting tasks check whether the world makes progress; a power of two.
const LOOK_EVERY: u64 = 4096;

/// The pending work of one world. Clones share the same ledger.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// use std::time::Duration;
/// use evenkeel_env::Ledger;
///
/// let ledger = Ledger::new();
/// let station = ledger.station("requests");
/// let work = station.enter_with("GET /api");
/// let error = ledger.settled(Duration::from_secs(1)).await.unwrap_err();
/// assert!(error.to_string().contains("requests: 1 (GET /api)"));
/// drop(work);
/// ledger.settled(Duration::from_secs(1)).await.unwrap();
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    inner: Arc<Inner>,
}

/// Deadlines by time and id, with their labels.
type Deadlines = BTreeMap<(Instant, u64), Arc<str>>;

#[derive(Debug, Default)]
struct Inner {
    /// The number of [`Work`]s plus the number of [`Tally`]s above zero.
    holders: AtomicUsize,
    next_id: AtomicU64,
    /// Counts entered work and moved deadlines. A reader of several fields compares the count before and after, to know
    /// that the fields belong together.
    moves: AtomicU64,
    /// The stations that exist, by id. Only reports read it; entering work does not lock it.
    stations: Mutex<BTreeMap<u64, Arc<StationInner>>>,
    /// The deadlines that are set, by purpose and time.
    deadlines: Mutex<[Deadlines; Purpose::COUNT]>,
    /// Notified when no work is pending, when a deadline changes, and every [`LOOK_EVERY`] moves.
    changed: Notify,
    /// The id of the newest task that waits for rest; zero if none does.
    wait: AtomicU64,
    /// What was seen to repeat endlessly during that wait.
    turning: Mutex<Option<String>>,
}

#[derive(Debug)]
struct StationInner {
    name: Arc<str>,
    count: AtomicUsize,
    /// The descriptions of single pieces of work, by id.
    details: Mutex<BTreeMap<u64, Detail>>,
}

/// The description of a piece of work. It is formatted only for a report.
struct Detail(Box<dyn fmt::Display + Send>);

impl fmt::Debug for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A named part of the system that has work: a watch, a queue, the API server's requests.
///
/// The station leaves the ledger when its last clone and its last [`Work`] are dropped.
#[derive(Clone, Debug)]
pub struct Station {
    entry: Arc<StationEntry>,
}

#[derive(Debug)]
struct StationEntry {
    ledger: Arc<Inner>,
    id: u64,
    inner: Arc<StationInner>,
}

/// A piece of pending work. It is done when this value is dropped.
#[derive(Debug)]
pub struct Work {
    entry: Arc<StationEntry>,
    detail: Option<u64>,
}

/// A station that counts its pieces of work itself, because they come and go too often to be entered one by one. All of
/// them are done when this value is dropped.
#[derive(Debug)]
pub struct Tally {
    entry: Arc<StationEntry>,
    count: usize,
}

/// Why a part will act at a known time. The purpose decides whether the cluster counts as at rest until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The part will look again, although it knows of nothing unfinished. The cluster is at rest until then.
    Look,
    /// The part will look again after a write, which may have been one of several. If that happens within the limit of
    /// the wait, the cluster is not at rest; if later, it is.
    Follow,
    /// The part will go on with unfinished work, such as a retry. The cluster is not at rest.
    Work,
}

impl Purpose {
    const COUNT: usize = 3;
}

/// The earliest deadline of each purpose.
#[derive(Clone, Copy, Debug)]
struct Next {
    look: Option<Instant>,
    follow: Option<Instant>,
    work: Option<Instant>,
}

impl Next {
    /// Whether a deadline of any purpose is due. A part whose deadline is due is about to act.
    fn is_due(&self) -> bool {
        let now = Instant::now();
        [self.look, self.follow, self.work].into_iter().flatten().any(|at| at <= now)
    }
}

/// The next time at which a part will act by itself, although it holds no work until then.
#[derive(Debug)]
pub struct Deadline {
    ledger: Arc<Inner>,
    id: u64,
    what: Arc<str>,
    purpose: Purpose,
    at: Mutex<Option<Instant>>,
}

/// One line of a report about what is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The name of the station, or the purpose of the deadline.
    pub what: String,
    /// How many pieces of work the station holds; zero for a deadline.
    pub count: usize,
    /// The descriptions of single pieces of work.
    pub details: Vec<String>,
    /// The time until the deadline; `None` for a station.
    pub due_in: Option<Duration>,
}

/// The world did not come to rest within the limit.
#[derive(Clone, Debug)]
pub struct Unsettled {
    /// The time limit of the wait.
    pub limit: Duration,
    /// What was still pending.
    pub pending: Vec<Pending>,
    /// Whether the wait ended early because something triggers itself forever while no virtual time passes.
    pub endless: bool,
    /// What triggers itself, if that is known: "reconciles by my-operator of default/a".
    pub turning: Option<String>,
    /// Why it does not rest, as far as that is known, the most important reason first. The ledger knows none; those who
    /// know add them.
    pub reasons: Vec<String>,
}

impl Ledger {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a station without work.
    pub fn station(&self, name: impl Into<Arc<str>>) -> Station {
        let inner = Arc::new(StationInner {
            name: name.into(),
            count: AtomicUsize::new(0),
            details: Mutex::default(),
        });
        let id = self.inner.next_id();
        self.inner.stations.lock().insert(id, inner.clone());
        Station { entry: Arc::new(StationEntry { ledger: self.inner.clone(), id, inner }) }
    }

    /// Adds a station that counts its work itself, beginning with none.
    pub fn tally(&self, name: impl Into<Arc<str>>) -> Tally {
        Tally { entry: self.station(name).entry, count: 0 }
    }

    /// Creates a deadline of unfinished work. It is not set yet.
    pub fn deadline(&self, what: impl Into<Arc<str>>) -> Deadline {
        self.deadline_for(Purpose::Work, what)
    }

    /// Creates a deadline of this purpose. It is not set yet.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// use evenkeel_env::{Ledger, Purpose};
    /// use tokio::time::Instant;
    ///
    /// let ledger = Ledger::new();
    /// let look = ledger.deadline_for(Purpose::Look, "look at the weather again");
    /// look.set(Some(Instant::now() + Duration::from_secs(300)));
    /// ledger.settled(Duration::from_secs(60)).await.unwrap();
    /// # });
    /// ```
    pub fn deadline_for(&self, purpose: Purpose, what: impl Into<Arc<str>>) -> Deadline {
        Deadline {
            ledger: self.inner.clone(),
            id: self.inner.next_id(),
            what: what.into(),
            purpose,
            at: Mutex::new(None),
        }
    }

    /// Returns how many pieces of work are pending. This sums over all stations; [`Ledger::is_empty`] is cheaper.
    pub fn len(&self) -> usize {
        self.inner.stations.lock().values().map(|station| station.count.load(Ordering::SeqCst)).sum()
    }

    /// Whether no work is pending. Deadlines do not count.
    pub fn is_empty(&self) -> bool {
        self.inner.holders.load(Ordering::SeqCst) == 0
    }

    /// Returns everything that is pending, deadlines included.
    pub fn pending(&self) -> Vec<Pending> {
        self.inner.pending()
    }

    /// Waits until no work is pending and no deadline is due. Does not wait for deadlines in the future.
    pub async fn idle(&self, limit: Duration) -> Result<(), Unsettled> {
        let (end, mut wait) = (Instant::now() + limit, Wait::begin(&self.inner, limit));
        loop {
            let changed = self.inner.changed.notified();
            match self.inner.at_rest() {
                Some(next) if !next.is_due() => return Ok(()),
                _ => wait.changed(changed, end).await?,
            }
        }
    }

    /// Waits until no work is pending and no deadline is set that counts as work (see [`Purpose`]). Lets time pass for
    /// deadlines, up to `limit`.
    pub async fn settled(&self, limit: Duration) -> Result<(), Unsettled> {
        let (end, mut wait) = (Instant::now() + limit, Wait::begin(&self.inner, limit));
        loop {
            let changed = self.inner.changed.notified();
            match self.inner.at_rest() {
                Some(next) if !next.is_due() => match next.work {
                    Some(work) if work > end => return Err(wait.failed(false, None)),
                    None if next.follow.is_none_or(|follow| follow > end) => return Ok(()),
                    _ => wait.changed(changed, end).await?,
                },
                _ => wait.changed(changed, end).await?,
            }
        }
    }
}

impl Inner {
    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn hold(&self) {
        self.holders.fetch_add(1, Ordering::SeqCst);
        self.moved();
    }

    fn let_go(&self) {
        if self.holders.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.changed.notify_waiters();
        }
    }

    /// Counts a move. Every [`LOOK_EVERY`] moves, lets the waiting tasks check for progress.
    fn moved(&self) {
        if self.moves.fetch_add(1, Ordering::SeqCst) % LOOK_EVERY == LOOK_EVERY - 1 {
            self.changed.notify_waiters();
        }
    }

    fn next_deadlines(&self) -> Next {
        let deadlines = self.deadlines.lock();
        let first = |purpose: Purpose| deadlines[purpose as usize].keys().next().map(|(at, _)| *at);
        Next { look: first(Purpose::Look), follow: first(Purpose::Follow), work: first(Purpose::Work) }
    }

    fn pending(&self) -> Vec<Pending> {
        let now = Instant::now();
        let stations = self.stations.lock();
        let busy = stations.values().filter_map(|station| {
            let count = station.count.load(Ordering::SeqCst);
            let details = station.details.lock().values().map(|detail| detail.0.to_string()).collect();
            (count > 0).then(|| Pending { what: station.name.to_string(), count, details, due_in: None })
        });
        let deadlines = self.deadlines.lock();
        let due = deadlines.iter().rev().flatten().map(|((at, _), what)| Pending {
            what: what.to_string(),
            count: 0,
            details: Vec::new(),
            due_in: Some(at.saturating_duration_since(now)),
        });
        busy.chain(due).collect()
    }

    /// Returns the next deadlines if no work is pending, `None` otherwise.
    ///
    /// With several threads, work can become a deadline, or a deadline work, between two reads. The answer therefore
    /// holds only if the count of moves is the same before and after.
    fn at_rest(&self) -> Option<Next> {
        loop {
            let moves = self.moves.load(Ordering::SeqCst);
            if self.holders.load(Ordering::SeqCst) > 0 {
                return None;
            }
            let next = self.next_deadlines();
            if self.moves.load(Ordering::SeqCst) == moves {
                return Some(next);
            }
        }
    }
}

impl Station {
    /// Enters a piece of work.
    pub fn enter(&self) -> Work {
        self.entry.ledger.hold();
        self.entry.inner.count.fetch_add(1, Ordering::SeqCst);
        Work { entry: self.entry.clone(), detail: None }
    }

    /// Enters a piece of work with a description for reports. The description is formatted only for a report.
    pub fn enter_with(&self, detail: impl fmt::Display + Send + 'static) -> Work {
        let mut work = self.enter();
        let id = self.entry.ledger.next_id();
        self.entry.inner.details.lock().insert(id, Detail(Box::new(detail)));
        work.detail = Some(id);
        work
    }

    /// Returns how many pieces of work the station holds.
    pub fn count(&self) -> usize {
        self.entry.inner.count.load(Ordering::SeqCst)
    }
}

impl Drop for StationEntry {
    fn drop(&mut self) {
        self.ledger.stations.lock().remove(&self.id);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(id) = self.detail {
            self.entry.inner.details.lock().remove(&id);
        }
        self.entry.inner.count.fetch_sub(1, Ordering::SeqCst);
        self.entry.ledger.let_go();
    }
}

impl Tally {
    /// Sets how many pieces of work there are.
    #[inline]
    pub fn set(&mut self, count: usize) {
        let before = std::mem::replace(&mut self.count, count);
        if before == 0 && count > 0 {
            self.entry.ledger.hold();
        }
        self.entry.inner.count.store(count, Ordering::Relaxed);
        if before > 0 && count == 0 {
            self.entry.ledger.let_go();
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Deadline {
    /// Sets or clears the time. A deadline that is due stays in the ledger until it is cleared or moved.
    pub fn set(&self, at: Option<Instant>) {
        let mut current = self.at.lock();
        if *current == at {
            return;
        }
        {
            let mut deadlines = self.ledger.deadlines.lock();
            let deadlines = &mut deadlines[self.purpose as usize];
            if let Some(old) = *current {
                deadlines.remove(&(old, self.id));
            }
            if let Some(new) = at {
                deadlines.insert((new, self.id), self.what.clone());
            }
            self.ledger.moves.fetch_add(1, Ordering::SeqCst);
        }
        *current = at;
        self.ledger.changed.notify_waiters();
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.set(None);
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.due_in {
            Some(due_in) => write!(f, "{}: due in {due_in:?}", self.what)?,
            None => write!(f, "{}: {}", self.what, self.count)?,
        }
        if !self.details.is_empty() {
            write!(f, " ({})", self.details.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.turning, self.endless) {
            (Some(what), _) => write!(f, "not settled: {what} go on and on without time passing")?,
            (None, true) => f.write_str("not settled: it goes on and on without time passing")?,
            (None, false) => write!(f, "not settled within {:?}", self.limit)?,
        }
        match self.reasons.split_first() {
            None => f.write_str("; still pending:")?,
            Some((first, others)) => {
                write!(f, ": {first}")?;
                others.iter().try_for_each(|reason| write!(f, "\n  {reason}"))?;
                f.write_str("\nstill pending:")?;
            }
        }
        self.pending.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for Unsettled {}

#[cfg(test)]
mod tests;

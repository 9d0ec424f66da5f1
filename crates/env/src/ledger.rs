//! The ledger of pending work: quiescence as a fact.
//!
//! Every part that holds work (a request, an event on its way, a key, a reconcile) holds a [`Work`] for as long; a
//! part that will act at a known time (a retry, a delayed key, a node's transition) keeps a [`Deadline`] set. Upkeep
//! timers (resync, leases, heartbeats, bookmarks, watch timeouts) are not work and are not entered.
//!
//! *The hand-over rule:* whoever passes work on lets the receiver enter it before letting go of its own [`Work`].
//! A stream of events lets go of an item's work only when the next item is asked for, or when the stream is dropped:
//! by then the consumer has dealt with it.

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

/// How often those who wait are asked to look at that; a power of two.
const LOOK_EVERY: u64 = 4096;

/// Who holds work right now. Cloning shares the same ledger.
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

#[derive(Debug, Default)]
struct Inner {
    /// How many hold something: each [`Work`] does, and each [`Tally`] that is not zero.
    holders: AtomicUsize,
    next_id: AtomicU64,
    /// Counts work that was entered and deadlines that moved: whoever reads several fields knows by it whether they
    /// belong together.
    moves: AtomicU64,
    /// Stations that are alive, by id; for reports, never on the way of the work.
    stations: Mutex<BTreeMap<u64, Arc<StationInner>>>,
    /// Deadlines that are set, by time.
    deadlines: Mutex<BTreeMap<(Instant, u64), Arc<str>>>,
    /// Told when nobody holds anything any more, when a deadline changes, and now and then while work is entered.
    changed: Notify,
    /// Who waits for rest, by a number; zero if nobody does.
    wait: AtomicU64,
    /// What was seen to go on and on during that wait.
    turning: Mutex<Option<String>>,
}

#[derive(Debug)]
struct StationInner {
    name: Arc<str>,
    count: AtomicUsize,
    /// What single works said of themselves, by id.
    details: Mutex<BTreeMap<u64, Detail>>,
}

/// What a piece of work says of itself, told when somebody asks.
struct Detail(Box<dyn fmt::Display + Send>);

impl fmt::Debug for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A named place that holds work: a watch, a queue, the API server's requests.
///
/// Its entry goes with the last clone of it and the last [`Work`] in it.
#[derive(Clone, Debug)]
pub struct Station {
    place: Arc<Place>,
}

#[derive(Debug)]
struct Place {
    ledger: Arc<Inner>,
    id: u64,
    inner: Arc<StationInner>,
}

/// A piece of pending work; it is done when this is dropped.
#[derive(Debug)]
pub struct Work {
    place: Arc<Place>,
    detail: Option<u64>,
}

/// As many pieces of work as it says, for a place of its own where they come and go too often to be entered one by one;
/// they are done when this is dropped.
#[derive(Debug)]
pub struct Tally {
    place: Arc<Place>,
    count: usize,
}

/// The next time at which a part will act by itself, while it holds no other work.
#[derive(Debug)]
pub struct Deadline {
    ledger: Arc<Inner>,
    id: u64,
    what: Arc<str>,
    at: Mutex<Option<Instant>>,
}

/// One line of what is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The station, or what the deadline is for.
    pub what: String,
    /// How many pieces of work it holds; zero for a deadline.
    pub count: usize,
    /// What single pieces said of themselves.
    pub details: Vec<String>,
    /// For a deadline: how long until then.
    pub due_in: Option<Duration>,
}

/// The world did not come to rest within the limit.
#[derive(Clone, Debug)]
pub struct Unsettled {
    /// The limit that was set.
    pub limit: Duration,
    /// What was still pending.
    pub pending: Vec<Pending>,
    /// Whether it was given up because more and more happened while no time passed: something wakes itself for ever.
    pub endless: bool,
    /// What that is, where it is known: "reconciles by my-operator of default/a".
    pub turning: Option<String>,
}

impl Ledger {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// A place that will hold work under `name`.
    pub fn station(&self, name: impl Into<Arc<str>>) -> Station {
        let inner = Arc::new(StationInner {
            name: name.into(),
            count: AtomicUsize::new(0),
            details: Mutex::default(),
        });
        let id = self.inner.next_id();
        self.inner.stations.lock().insert(id, inner.clone());
        Station { place: Arc::new(Place { ledger: self.inner.clone(), id, inner }) }
    }

    /// A place under `name` that counts its work itself; none yet.
    pub fn tally(&self, name: impl Into<Arc<str>>) -> Tally {
        Tally { place: self.station(name).place, count: 0 }
    }

    /// A deadline, not set yet.
    pub fn deadline(&self, what: impl Into<Arc<str>>) -> Deadline {
        Deadline {
            ledger: self.inner.clone(),
            id: self.inner.next_id(),
            what: what.into(),
            at: Mutex::new(None),
        }
    }

    /// How many pieces of work are pending. It asks every station; [`Ledger::is_empty`] does not.
    pub fn len(&self) -> usize {
        self.inner.stations.lock().values().map(|station| station.count.load(Ordering::SeqCst)).sum()
    }

    /// Whether no work is pending; deadlines do not count.
    pub fn is_empty(&self) -> bool {
        self.inner.holders.load(Ordering::SeqCst) == 0
    }

    /// Everything that is pending, deadlines included.
    pub fn pending(&self) -> Vec<Pending> {
        self.inner.pending()
    }

    /// Waits until no work is pending and no deadline has come. Later ones are not waited for, though time may pass.
    pub async fn idle(&self, limit: Duration) -> Result<(), Unsettled> {
        let (end, mut wait) = (Instant::now() + limit, Wait::begin(&self.inner, limit));
        loop {
            let changed = self.inner.changed.notified();
            match self.inner.at_rest() {
                Some(None) => return Ok(()),
                // Whoever set one that has come is about to act on it.
                Some(Some(next)) if next > Instant::now() => return Ok(()),
                _ => wait.changed(changed, end).await?,
            }
        }
    }

    /// Waits until no work is pending and no deadline is set, letting time pass up to `limit` for the deadlines.
    pub async fn settled(&self, limit: Duration) -> Result<(), Unsettled> {
        let (end, mut wait) = (Instant::now() + limit, Wait::begin(&self.inner, limit));
        loop {
            let changed = self.inner.changed.notified();
            match self.inner.at_rest() {
                Some(None) => return Ok(()),
                Some(Some(next)) if next > end => return Err(wait.failed(false, None)),
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

    /// Counts a move, and now and then has those who wait see how many there were.
    fn moved(&self) {
        if self.moves.fetch_add(1, Ordering::SeqCst) % LOOK_EVERY == LOOK_EVERY - 1 {
            self.changed.notify_waiters();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.lock().keys().next().map(|(at, _)| *at)
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
        let due = deadlines.iter().map(|((at, _), what)| Pending {
            what: what.to_string(),
            count: 0,
            details: Vec::new(),
            due_in: Some(at.saturating_duration_since(now)),
        });
        busy.chain(due).collect()
    }

    /// Where no work is pending: the next deadline. On several threads work may become a deadline and a deadline work
    /// between two looks, so that it is the same moment only if nothing moved meanwhile.
    fn at_rest(&self) -> Option<Option<Instant>> {
        loop {
            let moves = self.moves.load(Ordering::SeqCst);
            if self.holders.load(Ordering::SeqCst) > 0 {
                return None;
            }
            let next = self.next_deadline();
            if self.moves.load(Ordering::SeqCst) == moves {
                return Some(next);
            }
        }
    }
}

impl Station {
    /// Enters a piece of work.
    pub fn enter(&self) -> Work {
        self.place.ledger.hold();
        self.place.inner.count.fetch_add(1, Ordering::SeqCst);
        Work { place: self.place.clone(), detail: None }
    }

    /// Enters a piece of work that says what it is in a report. It is asked for its words only then.
    pub fn enter_with(&self, detail: impl fmt::Display + Send + 'static) -> Work {
        let mut work = self.enter();
        let id = self.place.ledger.next_id();
        self.place.inner.details.lock().insert(id, Detail(Box::new(detail)));
        work.detail = Some(id);
        work
    }

    /// How many pieces of work this place holds.
    pub fn count(&self) -> usize {
        self.place.inner.count.load(Ordering::SeqCst)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.ledger.stations.lock().remove(&self.id);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(id) = self.detail {
            self.place.inner.details.lock().remove(&id);
        }
        self.place.inner.count.fetch_sub(1, Ordering::SeqCst);
        self.place.ledger.let_go();
    }
}

impl Tally {
    /// How many pieces of work there are from now on.
    #[inline]
    pub fn set(&mut self, count: usize) {
        let before = std::mem::replace(&mut self.count, count);
        if before == 0 && count > 0 {
            self.place.ledger.hold();
        }
        self.place.inner.count.store(count, Ordering::Relaxed);
        if before > 0 && count == 0 {
            self.place.ledger.let_go();
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Deadline {
    /// Sets or clears the time. A deadline that has come stays in the ledger until it is cleared or moved.
    pub fn set(&self, at: Option<Instant>) {
        let mut current = self.at.lock();
        if *current == at {
            return;
        }
        {
            let mut deadlines = self.ledger.deadlines.lock();
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
            (Some(what), _) => {
                write!(f, "not settled: {what} go on and on without time passing; still pending:")?
            }
            (None, true) => {
                f.write_str("not settled: it goes on and on without time passing; still pending:")?
            }
            (None, false) => write!(f, "not settled within {:?}; still pending:", self.limit)?,
        }
        self.pending.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for Unsettled {}

#[cfg(test)]
mod tests;

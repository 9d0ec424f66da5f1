//! The open connections of a server: how many there may be, which are idle, and which one leaves for a new one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The open connections of one server. Clones share them.
#[derive(Clone)]
pub(super) struct Peers {
    inner: Arc<Inner>,
}

struct Inner {
    most: usize,
    open: Mutex<Open>,
    /// Notified when a connection has ended or has become idle.
    room: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_number: BTreeMap<u64, Arc<State>>,
}

struct State {
    activity: watch::Sender<Activity>,
    /// Cancelled when the connection must make room for another one.
    evicted: CancellationToken,
}

/// What a client does.
#[derive(Clone, Copy)]
struct Activity {
    /// How many of its requests are being served.
    running: usize,
    /// Whether it has sent a request.
    has_asked: bool,
    /// When the last request ended, or the connection began.
    since: Instant,
}

/// One open connection. Its place is free when the value is dropped.
pub(super) struct Peer {
    peers: Peers,
    number: u64,
    state: Arc<State>,
}

/// A request that is being served.
pub(super) struct Running {
    peers: Peers,
    state: Arc<State>,
}

/// How long a connection may be idle.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleLimits {
    /// Before its first request.
    pub(super) first: Duration,
    /// Between two requests.
    pub(super) between: Duration,
}

impl Peers {
    /// Room for this many connections.
    pub(super) fn new(most: usize) -> Self {
        let (open, room) = (Mutex::default(), Notify::new());
        Self { inner: Arc::new(Inner { most, open, room }) }
    }

    /// A place for a new connection. If there is none, an idle connection is closed: one that has not sent a request, or
    /// else the one that has been idle for longest. If all are busy, the new one waits.
    pub(super) async fn admit(&self) -> Peer {
        loop {
            match self.try_admit() {
                Some(peer) => return peer,
                None => self.inner.room.notified().await,
            }
        }
    }

    fn try_admit(&self) -> Option<Peer> {
        let mut open = self.inner.open.lock();
        if open.by_number.len() >= self.inner.most {
            let activity = |state: &State| *state.activity.borrow();
            let idle = open.by_number.iter().map(|(number, state)| (*number, activity(state)));
            let idle = idle.filter(|(_, activity)| activity.running == 0);
            let (number, _) = idle.min_by_key(|(_, activity)| (activity.has_asked, activity.since))?;
            if let Some(state) = open.by_number.remove(&number) {
                state.evicted.cancel();
            }
        }
        let number = open.next;
        open.next += 1;
        let activity = Activity { running: 0, has_asked: false, since: Instant::now() };
        let (activity, _) = watch::channel(activity);
        let state = Arc::new(State { activity, evicted: CancellationToken::new() });
        open.by_number.insert(number, state.clone());
        Some(Peer { peers: self.clone(), number, state })
    }
}

impl Peer {
    /// Begins a request.
    pub(super) fn begin(&self) -> Running {
        self.state.activity.send_modify(|activity| {
            activity.running += 1;
            activity.has_asked = true;
        });
        Running { peers: self.peers.clone(), state: self.state.clone() }
    }

    /// Returns when the connection must be closed: because it was idle for too long, or to make room for another one.
    pub(super) async fn must_leave(&self, limits: IdleLimits) {
        tokio::select! {
            biased;
            () = self.state.evicted.cancelled() => {}
            () = self.idle_too_long(limits) => {}
        }
    }

    async fn idle_too_long(&self, limits: IdleLimits) {
        let mut activity = self.state.activity.subscribe();
        loop {
            let Activity { running, has_asked, since } = *activity.borrow_and_update();
            let limit = if has_asked { limits.between } else { limits.first };
            let changed = activity.changed();
            if running > 0 {
                // The sender lives as long as this connection.
                let _ = changed.await;
            } else if tokio::time::timeout_at(since + limit, changed).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.peers.inner.open.lock().by_number.remove(&self.number);
        self.peers.inner.room.notify_one();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.state.activity.send_modify(|activity| {
            activity.running -= 1;
            activity.since = Instant::now();
        });
        self.peers.inner.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const LIMITS: IdleLimits =
        IdleLimits { first: Duration::from_secs(10), between: Duration::from_secs(120) };

    fn admit(peers: &Peers) -> Peer {
        peers.admit().now_or_never().expect("there is room")
    }

    fn is_evicted(peer: &Peer) -> bool {
        peer.state.evicted.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_never_asked_leave_first_then_those_that_are_idle_for_longest() {
        let peers = Peers::new(3);
        let [api_server, prober, silent] = [(); 3].map(|()| admit(&peers));
        drop(api_server.begin());
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(prober.begin());
        let _fourth = admit(&peers);
        assert_eq!([&api_server, &prober, &silent].map(is_evicted), [false, false, true]);
        drop(_fourth.begin());
        let _running = api_server.begin();
        let _fifth = admit(&peers);
        assert_eq!([&api_server, &prober, &_fourth].map(is_evicted), [false, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_are_busy_a_new_one_waits_for_the_first_that_is_not() {
        let peers = Peers::new(2);
        let (first, second) = (admit(&peers), admit(&peers));
        let (busy, _busy) = (first.begin(), second.begin());
        let mut third = std::pin::pin!(peers.admit());
        assert!(third.as_mut().now_or_never().is_none());
        drop(busy);
        let _third = third.now_or_never().expect("the first is idle");
        assert!(is_evicted(&first) && !is_evicted(&second));
        drop(second);
        admit(&peers);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_end_in_time_and_busy_ones_do_not() {
        let peers = Peers::new(2);
        let (silent, asked) = (admit(&peers), admit(&peers));
        let begun = Instant::now();
        silent.must_leave(LIMITS).await;
        assert_eq!(begun.elapsed(), LIMITS.first);
        let running = asked.begin();
        let long = Duration::from_secs(3600);
        assert!(tokio::time::timeout(long, asked.must_leave(LIMITS)).await.is_err());
        drop(running);
        let begun = Instant::now();
        asked.must_leave(LIMITS).await;
        assert_eq!(begun.elapsed(), LIMITS.between);
    }
}

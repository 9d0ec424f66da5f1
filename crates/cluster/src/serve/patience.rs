//! How long a connection is kept for a client that does not get on with its next request.
//!
//! Such a bound holds for every request and is almost never met. So no request sets a timer: heads are counted, and a
//! timer of the connection looks a few times within the bound whether one came.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// How many times it is looked within the bound: a client may take longer by one part of so many.
const LOOKS: u32 = 4;

/// What the client of a connection does. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// How many heads of requests came.
    heads: AtomicU64,
    /// How many requests are waiting for their answers, or taking them.
    open: AtomicU64,
}

/// A request that takes its time: while this is kept, the client is waited for.
pub(crate) struct Open(Activity);

impl Activity {
    /// Notes that the head of a request came. One task reads the heads of a connection, so that none is lost.
    pub(crate) fn note_head(&self) {
        let heads = self.0.heads.load(Ordering::Relaxed);
        self.0.heads.store(heads + 1, Ordering::Relaxed);
    }

    /// Notes that a request takes its time.
    pub(crate) fn open(&self) -> Open {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The patience with a client, until it is at its end.
pub(crate) struct Patience {
    activity: Activity,
    timer: Pin<Box<Sleep>>,
    /// The time between two looks.
    pause: Duration,
    /// What was seen at the last look: the heads, and whether a request was open.
    seen: (u64, bool),
    /// How many looks in a row have seen nothing.
    quiet: u32,
}

impl Patience {
    pub(crate) fn new(activity: Activity, bound: Duration) -> Self {
        let pause = bound / LOOKS;
        Self { activity, timer: Box::pin(sleep(pause)), pause, seen: (0, false), quiet: 0 }
    }

    /// Whether it has to be polled: before, it would only say that it is pending.
    pub(crate) fn is_due(&self) -> bool {
        self.timer.is_elapsed()
    }

    /// Ready when the client brought no head for as long as the bound, while nothing was open.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.quiet < LOOKS {
            std::task::ready!(self.timer.as_mut().poll(cx));
            let Counts { heads, open } = &*self.activity.0;
            let now = (heads.load(Ordering::Relaxed), open.load(Ordering::Relaxed) > 0);
            let active = now != self.seen || now.1;
            self.quiet = if active { 0 } else { self.quiet + 1 };
            self.seen = now;
            self.timer.as_mut().reset(Instant::now() + self.pause);
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const BOUND: Duration = Duration::from_secs(8);

    async fn lost(patience: &mut Patience) -> Duration {
        let start = Instant::now();
        poll_fn(|cx| patience.poll(cx)).await;
        start.elapsed()
    }

    /// Waits for it in vain.
    async fn kept(patience: &mut Patience, how_long: Duration) {
        let waited = tokio::time::timeout(how_long, poll_fn(|cx| patience.poll(cx))).await;
        assert!(waited.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_waited_for_as_long_as_the_bound() {
        let mut patience = Patience::new(Activity::default(), BOUND);
        assert!(!patience.is_due());
        let took = lost(&mut patience).await;
        assert!(took >= BOUND && took < BOUND + Duration::from_millis(10), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn each_head_begins_the_bound_anew() {
        let activity = Activity::default();
        let mut patience = Patience::new(activity.clone(), BOUND);
        for _ in 0..5 {
            kept(&mut patience, BOUND * 3 / 4).await;
            activity.note_head();
        }
        let took = lost(&mut patience).await;
        assert!(took >= BOUND && took <= BOUND * 5 / 4 + Duration::from_millis(10), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_an_answer_is_not_given_up_and_has_the_bound_after_it() {
        let activity = Activity::default();
        let mut patience = Patience::new(activity.clone(), BOUND);
        activity.note_head();
        let open = activity.open();
        kept(&mut patience, BOUND * 100 - BOUND / 100).await;
        drop(open);
        let took = lost(&mut patience).await;
        assert!(took >= BOUND && took <= BOUND * 5 / 4 + Duration::from_millis(10), "{took:?}");
    }
}

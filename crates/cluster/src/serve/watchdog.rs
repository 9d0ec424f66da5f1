//! The watchdog of a connection: it closes the connection of a client that sends no request, or does not read its
//! responses, for too long.
//!
//! These timeouts apply to every request and almost never expire. So no request sets a timer: the client's actions are
//! counted (`activity.rs`), and a single timer per connection checks a few times within each timeout whether the
//! counters have changed.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::activity::{Activity, Seen};

/// How many checks are made within the shortest timeout. A client may exceed a timeout by one pause between checks.
const LOOKS: u32 = 4;

/// The timeouts of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For the first request, and for the rest of a head of which a part has arrived.
    pub(crate) head: Duration,
    /// For the next request.
    pub(crate) idle: Duration,
    /// For the client to read what was sent to it.
    pub(crate) unread: Duration,
    /// Whether bytes that do not complete a head belong to an incomplete one. False for HTTP/2, where they may belong
    /// to other frames.
    pub(crate) bytes_are_heads: bool,
}

/// The timeout that has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimedOut {
    /// The client sent no request.
    NoRequest,
    /// The client did not read its response.
    Unread,
}

/// The watchdog of one connection.
pub(crate) struct Watchdog {
    activity: Activity,
    limits: Limits,
    timer: Pin<Box<Sleep>>,
    /// The time between two checks.
    pause: Duration,
    /// The counters at the last check.
    seen: Seen,
    /// How many checks in a row have found no new and no open request.
    quiet: u32,
    /// How many checks in a row have found that the client reads nothing.
    unread: u32,
    timed_out: Option<TimedOut>,
}

impl Watchdog {
    pub(crate) fn new(activity: Activity, limits: Limits) -> Self {
        let pause = limits.head.min(limits.idle).min(limits.unread) / LOOKS;
        Self {
            activity,
            limits,
            timer: Box::pin(sleep(pause)),
            pause,
            seen: Seen::default(),
            quiet: 0,
            unread: 0,
            timed_out: None,
        }
    }

    /// Whether a check is due. Until then, [`Watchdog::poll`] is pending.
    pub(crate) fn is_due(&self) -> bool {
        self.timer.is_elapsed()
    }

    /// Ready when a timeout has expired.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<TimedOut> {
        loop {
            if let Some(timed_out) = self.timed_out {
                return Poll::Ready(timed_out);
            }
            std::task::ready!(self.timer.as_mut().poll(cx));
            self.look();
            self.timer.as_mut().reset(Instant::now() + self.pause);
        }
    }

    fn look(&mut self) {
        self.activity.forgive();
        let now = self.activity.seen();
        let before = std::mem::replace(&mut self.seen, now);
        let active = now.is_open || before.is_open || now.heads != before.heads;
        self.quiet = if active { 0 } else { self.quiet + 1 };
        let blocked = now.blocked && before.blocked && now.drained == before.drained;
        let stuck = now.oldest_unsent.is_some() && now.oldest_unsent == before.oldest_unsent;
        self.unread = if blocked || stuck { self.unread + 1 } else { 0 };
        let in_head = now.heads == 0 || (self.limits.bytes_are_heads && now.in_head);
        let bound = if in_head { self.limits.head } else { self.limits.idle };
        if self.unread >= self.looks(self.limits.unread) {
            self.timed_out = Some(TimedOut::Unread);
        } else if self.quiet >= self.looks(bound) {
            self.timed_out = Some(TimedOut::NoRequest);
        }
    }

    /// How many checks fit into a timeout.
    fn looks(&self, bound: Duration) -> u32 {
        bound.as_nanos().div_ceil(self.pause.as_nanos().max(1)).try_into().unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const HEAD: Duration = Duration::from_secs(8);
    const IDLE: Duration = Duration::from_secs(24);
    const UNREAD: Duration = Duration::from_secs(16);

    fn watchdog(activity: &Activity, bytes_are_heads: bool) -> Watchdog {
        let limits = Limits { head: HEAD, idle: IDLE, unread: UNREAD, bytes_are_heads };
        Watchdog::new(activity.clone(), limits)
    }

    /// Waits for the watchdog, which must fire after `bound` and not much later.
    async fn lost_after(watchdog: &mut Watchdog, bound: Duration) -> TimedOut {
        let start = Instant::now();
        let timed_out = poll_fn(|cx| watchdog.poll(cx)).await;
        let took = start.elapsed();
        assert!(took >= bound && took <= bound + HEAD / LOOKS + Duration::from_millis(10), "{took:?}");
        timed_out
    }

    /// Asserts that the watchdog does not fire for this long.
    async fn kept(watchdog: &mut Watchdog, how_long: Duration) {
        let waited = tokio::time::timeout(how_long, poll_fn(|cx| watchdog.poll(cx))).await;
        assert!(waited.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_waited_for_as_long_as_for_a_head() {
        let mut watchdog = watchdog(&Activity::default(), true);
        assert!(!watchdog.is_due());
        assert_eq!(lost_after(&mut watchdog, HEAD).await, TimedOut::NoRequest);
    }

    #[tokio::test(start_paused = true)]
    async fn each_head_begins_the_bound_anew() {
        let activity = Activity::default();
        let mut watchdog = watchdog(&activity, true);
        for _ in 0..5 {
            kept(&mut watchdog, HEAD * 3 / 4).await;
            activity.note_head();
        }
        assert_eq!(lost_after(&mut watchdog, IDLE).await, TimedOut::NoRequest);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_has_begun_has_the_shorter_bound_and_frames_are_none() {
        for (bytes_are_heads, bound) in [(true, HEAD), (false, IDLE)] {
            let activity = Activity::default();
            let mut watchdog = watchdog(&activity, bytes_are_heads);
            activity.note_head();
            kept(&mut watchdog, HEAD / LOOKS / 2).await;
            kept(&mut watchdog, HEAD / LOOKS).await;
            activity.note_read();
            let start = Instant::now();
            assert_eq!(poll_fn(|cx| watchdog.poll(cx)).await, TimedOut::NoRequest);
            assert!(start.elapsed() <= bound && start.elapsed() + HEAD / 2 >= bound, "{:?}", start.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_an_answer_is_not_given_up_and_has_the_bound_after_it() {
        let activity = Activity::default();
        let mut watchdog = watchdog(&activity, true);
        activity.note_head();
        let open = activity.open();
        kept(&mut watchdog, HEAD * 100 - HEAD / 100).await;
        drop(open);
        assert_eq!(lost_after(&mut watchdog, IDLE).await, TimedOut::NoRequest);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_given_up_even_while_it_asks() {
        let activity = Activity::default();
        let mut watchdog = watchdog(&activity, false);
        let _open = activity.open();
        activity.note_blocked();
        kept(&mut watchdog, UNREAD / 2).await;
        activity.note_drained();
        activity.note_blocked();
        assert_eq!(lost_after(&mut watchdog, UNREAD).await, TimedOut::Unread);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_no_window_is_given_for_is_given_up_beside_others_that_are_read() {
        let activity = Activity::default();
        let mut watchdog = watchdog(&activity, false);
        let _open = activity.open();
        let stuck = activity.handed_over();
        for _ in 0..6 {
            activity.note_head();
            drop(activity.handed_over());
            kept(&mut watchdog, HEAD / LOOKS).await;
        }
        drop(stuck);
        let _stuck = activity.handed_over();
        assert_eq!(lost_after(&mut watchdog, UNREAD).await, TimedOut::Unread);
    }
}

//! How long a connection is kept for a client that does not get on: that brings no request, or does not read its
//! answers.
//!
//! Such bounds hold for every request and are almost never met. So no request sets a timer: what a client does is
//! counted (`activity.rs`), and one timer of the connection looks a few times within the bounds whether anything was.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::activity::{Activity, Seen};

/// How many looks are taken within the shortest bound: a client may take longer by one part of so many.
const LOOKS: u32 = 4;

/// The bounds of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For the first request, and for the rest of a head that began to arrive.
    pub(crate) head: Duration,
    /// For the next request.
    pub(crate) idle: Duration,
    /// For a client to read what was sent to it.
    pub(crate) unread: Duration,
    /// Whether bytes that are no complete head are the beginning of one. HTTP/2 has other frames.
    pub(crate) bytes_are_heads: bool,
}

/// What a client did not do in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimedOut {
    /// The client brought no request.
    NoRequest,
    /// The client did not read its answer.
    Unread,
}

/// The patience with one client.
pub(crate) struct Watchdog {
    activity: Activity,
    limits: Limits,
    timer: Pin<Box<Sleep>>,
    /// The time between two looks.
    pause: Duration,
    /// What was seen at the last look.
    seen: Seen,
    /// How many looks in a row have seen no new request, while none was open.
    quiet: u32,
    /// How many looks in a row have seen that the client takes nothing.
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

    /// Whether [`Watchdog::poll`] has news: before, it would only say that it is pending.
    pub(crate) fn is_due(&self) -> bool {
        self.timer.is_elapsed()
    }

    /// Ready when the client has not done what it should for as long as the bound.
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

    /// How many looks a bound takes.
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

    /// Waits for the end of the patience, which must come after `bound` and not much later.
    async fn lost_after(watchdog: &mut Watchdog, bound: Duration) -> TimedOut {
        let start = Instant::now();
        let timed_out = poll_fn(|cx| watchdog.poll(cx)).await;
        let took = start.elapsed();
        assert!(took >= bound && took <= bound + HEAD / LOOKS + Duration::from_millis(10), "{took:?}");
        timed_out
    }

    /// Waits for the end of the patience in vain.
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

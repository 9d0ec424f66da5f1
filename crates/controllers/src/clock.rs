//! Time as statuses hold it, and timers that nobody waits for.
//!
//! A key that must be looked at again soon, as part of getting somewhere, is asked for with `Action::requeue`: that is
//! *work*, and `settled()` follows it. A deadline that only matters if nothing happens until then (a rollout that may
//! get stuck, a schedule, a lifetime) is *upkeep*: it is set here, outside of the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use evenkeel_env::{Env, Work};
use evenkeel_runtime::Request;
use futures::Stream;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The time in whole seconds: finer parts are lost when a status is written, and would make it differ for ever.
pub(crate) fn seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// The time so many seconds after another. Users may write any number and any time: what lies beyond the calendar is its
/// first or last moment.
pub(crate) fn after(time: Timestamp, seconds: i64) -> Timestamp {
    let bound = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(bound)
}

/// Reminds a controller of its keys, as upkeep. Cloning shares it.
#[derive(Clone, Debug)]
pub(crate) struct Reminders {
    sender: mpsc::UnboundedSender<(Request, Option<Instant>)>,
}

/// The keys that [`Reminders`] are due for.
#[derive(Debug)]
struct Due {
    receiver: mpsc::UnboundedReceiver<(Request, Option<Instant>)>,
    /// One for each key: a later call replaces an earlier one, so that memory is bounded by the keys.
    keys: BTreeMap<Request, Instant>,
    times: BTreeSet<(Instant, Request)>,
}

impl Reminders {
    /// Reminders, and the stream by which a controller gets them.
    pub(crate) fn channel() -> (Self, impl Stream<Item = Request> + Send + 'static) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let due = Due { receiver, keys: BTreeMap::new(), times: BTreeSet::new() };
        (Self { sender }, futures::stream::unfold(due, Due::next))
    }

    /// Reminds of the key after this time, and not at the time that was set before; `None` clears it.
    pub(crate) fn set(&self, key: &Request, after: Option<Duration>) {
        // The receiver is gone only when the controller is; then nobody is to be reminded.
        // A time that lies beyond what the clock can count never comes.
        let at = after.and_then(|after| Instant::now().checked_add(after));
        let _ = self.sender.send((key.clone(), at));
    }
}

impl Due {
    async fn next(mut self) -> Option<(Request, Self)> {
        loop {
            let first = self.times.first().cloned();
            let sleep = async {
                match &first {
                    Some((at, _)) => tokio::time::sleep_until(*at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                set = self.receiver.recv() => {
                    let (key, at) = set?;
                    self.replace(key, at);
                }
                () = sleep => {
                    let (_, key) = first?;
                    self.replace(key.clone(), None);
                    return Some((key, self));
                }
            }
        }
    }

    fn replace(&mut self, key: Request, at: Option<Instant>) {
        if let Some(old) = self.keys.remove(&key) {
            self.times.remove(&(old, key.clone()));
        }
        if let Some(at) = at {
            self.keys.insert(key.clone(), at);
            self.times.insert((at, key));
        }
    }
}

/// Keys that a controller begins with, of objects that nothing announces. They are pending work from this call on
/// until the controller has taken them.
pub(crate) fn at_start(
    env: &Env,
    what: &str,
    keys: Vec<Request>,
) -> impl Stream<Item = Request> + Send + 'static {
    let work = env.ledger().station(what).enter();
    let keys = keys.into_iter();
    futures::stream::unfold(
        (keys, Some(work)),
        |(mut keys, work): (std::vec::IntoIter<Request>, Option<Work>)| async move {
            // Dropped with the state, when the stream is asked for more than there is: by then all keys are queued.
            keys.next().map(|key| (key, (keys, work)))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_reminded_of_once_at_the_last_time_set() {
        let (reminders, stream) = Reminders::channel();
        let mut stream = std::pin::pin!(stream);
        let (a, b) = (Request::cluster("a"), Request::cluster("b"));
        let start = Instant::now();
        reminders.set(&a, Some(Duration::from_secs(1)));
        reminders.set(&b, Some(Duration::from_secs(2)));
        reminders.set(&a, Some(Duration::from_secs(5)));
        assert_eq!(stream.next().await, Some(b.clone()));
        assert_eq!(start.elapsed(), Duration::from_secs(2));
        reminders.set(&b, Some(Duration::from_secs(1)));
        reminders.set(&b, None);
        assert_eq!(stream.next().await, Some(a));
        assert_eq!(start.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_controller_begins_with_is_pending_until_taken() {
        let env = Env::seeded(1);
        let mut stream = Box::pin(at_start(&env, "start", vec![Request::cluster("a")]));
        assert_eq!(env.ledger().len(), 1);
        assert!(stream.next().await.is_some());
        assert_eq!(env.ledger().len(), 1);
        assert!(stream.next().await.is_none());
        assert_eq!(env.ledger().len(), 0);
    }
}

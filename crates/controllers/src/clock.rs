//! Times as statuses store them, and upkeep timers.
//!
//! A key that must soon be reconciled again to make progress is requeued with `Action::requeue`. That counts as *work*,
//! for which `settled()` waits, because the cluster runs these controllers with `Manager::later_looks_are_work`. A
//! deadline that matters only if nothing happens until then (a rollout that may get stuck, a schedule, a time to live)
//! is *upkeep*: [`Reminders`] keep it out of the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use evenkeel_runtime::Request;
use futures::Stream;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Cuts a time to whole seconds. The API server stores no finer times, so that a status with one would always differ.
pub(crate) fn seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Returns the time so many seconds after another. Users can write any number, so that the result saturates at the first
/// and last time of the calendar.
pub(crate) fn after(time: Timestamp, seconds: i64) -> Timestamp {
    let bound = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(bound)
}

/// Sends keys to a controller after a delay, as upkeep. Clones share the channel.
#[derive(Clone, Debug)]
pub(crate) struct Reminders {
    sender: mpsc::UnboundedSender<(Request, Option<Instant>)>,
}

/// The receiving end of [`Reminders`].
#[derive(Debug)]
struct Due {
    receiver: mpsc::UnboundedReceiver<(Request, Option<Instant>)>,
    /// The time of each key. A later call replaces an earlier one, so that the number of keys bounds the memory.
    keys: BTreeMap<Request, Instant>,
    times: BTreeSet<(Instant, Request)>,
}

impl Reminders {
    /// Opens a channel: the reminders, and the stream by which a controller receives the keys.
    pub(crate) fn channel() -> (Self, impl Stream<Item = Request> + Send + 'static) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let due = Due { receiver, keys: BTreeMap::new(), times: BTreeSet::new() };
        (Self { sender }, futures::stream::unfold(due, Due::next))
    }

    /// Sends the key after a delay, instead of after the delay that was set before. `None` cancels it.
    pub(crate) fn set(&self, key: &Request, after: Option<Duration>) {
        // A delay beyond the range of the clock never ends.
        let at = after.and_then(|after| Instant::now().checked_add(after));
        // Sending fails only after the controller has ended, when nobody needs the key.
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
}

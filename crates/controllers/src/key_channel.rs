//! A channel that carries keys to a controller from a part other than its watches.
//!
//! The channel follows the ledger's hand-over rule: a key is pending work from the moment it is sent until the
//! controller's queue holds it.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_env::{Env, Station, Work};
use evenkeel_runtime::Request;
use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// The sending end of a key channel. Clones send into the same channel.
#[derive(Clone, Debug)]
pub(crate) struct KeySender {
    sender: mpsc::UnboundedSender<(Request, Work)>,
    /// The keys in the channel. Each is in it at most once, so that the number of keys bounds the channel's length.
    in_flight: Arc<Mutex<BTreeSet<Request>>>,
    station: Station,
}

struct KeyReceiver {
    receiver: mpsc::UnboundedReceiver<(Request, Work)>,
    in_flight: Arc<Mutex<BTreeSet<Request>>>,
    /// The work of the key that was received last. It ends when the controller asks for the next key.
    _last: Option<Work>,
}

/// Opens a channel: the sender, and the stream by which a controller receives the keys.
///
/// `what` names the channel's station in the ledger.
pub(crate) fn channel(env: &Env, what: &str) -> (KeySender, impl Stream<Item = Request> + Send + 'static) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let in_flight = Arc::new(Mutex::new(BTreeSet::new()));
    let keys = KeySender { sender, in_flight: in_flight.clone(), station: env.ledger().station(what) };
    let receiver = KeyReceiver { receiver, in_flight, _last: None };
    (keys, futures::stream::unfold(receiver, KeyReceiver::next))
}

impl KeySender {
    /// Sends a key, unless it is in the channel already.
    pub(crate) fn send(&self, key: Request) {
        if self.in_flight.lock().insert(key.clone()) {
            // Sending fails only after the controller has ended, when nobody needs the key.
            let _ = self.sender.send((key, self.station.enter()));
        }
    }
}

impl KeyReceiver {
    async fn next(mut self) -> Option<(Request, Self)> {
        self._last = None;
        let (key, work) = self.receiver.recv().await?;
        self.in_flight.lock().remove(&key);
        self._last = Some(work);
        Some((key, self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;

    #[tokio::test]
    async fn a_key_is_work_until_the_next_is_asked_for() {
        let env = Env::seeded(1);
        let (keys, stream) = channel(&env, "test");
        let mut stream = Box::pin(stream);
        keys.send(Request::cluster("a"));
        keys.send(Request::cluster("a"));
        assert_eq!(env.ledger().len(), 1);
        assert_eq!(stream.next().await, Some(Request::cluster("a")));
        assert_eq!(env.ledger().len(), 1);
        assert!(futures::poll!(stream.next()).is_pending());
        assert_eq!(env.ledger().len(), 0);
    }
}

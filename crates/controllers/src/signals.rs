//! Keys for a controller from a part that is no watch of its own, by the hand-over rule of the ledger: a key is
//! pending work from the moment it is given until the controller's queue has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_env::{Env, Station, Work};
use evenkeel_runtime::Request;
use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// Gives keys to a controller. Cloning shares it.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    sender: mpsc::UnboundedSender<(Request, Work)>,
    /// What is on its way: a key is at most once in the channel, which bounds it by the number of keys.
    on_their_way: Arc<Mutex<BTreeSet<Request>>>,
    station: Station,
}

struct Receiver {
    receiver: mpsc::UnboundedReceiver<(Request, Work)>,
    on_their_way: Arc<Mutex<BTreeSet<Request>>>,
    /// The work of the key that was given out last; it ends when the next one is asked for.
    _last: Option<Work>,
}

impl Signals {
    /// A way to give keys, and the stream by which a controller gets them.
    pub(crate) fn channel(env: &Env, what: &str) -> (Self, impl Stream<Item = Request> + Send + 'static) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let on_their_way = Arc::new(Mutex::new(BTreeSet::new()));
        let signals =
            Self { sender, on_their_way: on_their_way.clone(), station: env.ledger().station(what) };
        let receiver = Receiver { receiver, on_their_way, _last: None };
        (signals, futures::stream::unfold(receiver, Receiver::next))
    }

    /// Gives a key.
    pub(crate) fn give(&self, key: Request) {
        if self.on_their_way.lock().insert(key.clone()) {
            // The receiver is gone only when the controller is; then nobody is to be told.
            let _ = self.sender.send((key, self.station.enter()));
        }
    }
}

impl Receiver {
    async fn next(mut self) -> Option<(Request, Self)> {
        self._last = None;
        let (key, work) = self.receiver.recv().await?;
        self.on_their_way.lock().remove(&key);
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
        let (signals, stream) = Signals::channel(&env, "test");
        let mut stream = Box::pin(stream);
        signals.give(Request::cluster("a"));
        signals.give(Request::cluster("a"));
        assert_eq!(env.ledger().len(), 1);
        assert_eq!(stream.next().await, Some(Request::cluster("a")));
        assert_eq!(env.ledger().len(), 1);
        assert!(futures::poll!(stream.next()).is_pending());
        assert_eq!(env.ledger().len(), 0);
    }
}

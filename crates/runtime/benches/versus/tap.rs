//! A tap on the watches of a client: it notes when events pass, and can hold them back.
//!
//! Events that are held back either stay in the server, which encodes them when they are polled, or are read from the
//! server and wait on the client's side, so that a measure contains the runtime's time only.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;

/// A tap, the same for both sides. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Tap {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    closed: Option<Hold>,
    waiting: Vec<Waker>,
    last: Option<Instant>,
}

/// Where held events wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    WithServer,
    WithClient,
}

impl Tap {
    /// A client whose watches go through this tap.
    pub(crate) fn around(&self, client: Client) -> Client {
        let tap = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (tap, client) = (tap.clone(), client.clone());
            async move {
                let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                let response: Response<Body> = client.send(request).await?;
                Ok::<_, kube::Error>(response.map(|body| Tapped {
                    body,
                    waiting: VecDeque::new(),
                    tap: watch.then_some(tap),
                }))
            }
        });
        Client::new(service, namespace)
    }

    /// Holds events back from now on.
    pub(crate) fn close(&self, hold: Hold) {
        self.state.lock().closed = Some(hold);
    }

    pub(crate) fn open(&self) {
        let mut state = self.state.lock();
        state.closed = None;
        state.waiting.drain(..).for_each(Waker::wake);
    }

    /// When the last event passed.
    pub(crate) fn last_event(&self) -> Instant {
        self.state.lock().last.expect("an event was given out")
    }
}

struct Tapped {
    body: Body,
    /// The events that were read from the server while the tap was closed.
    waiting: VecDeque<Polled>,
    /// The tap; `None` for requests that are not watches.
    tap: Option<Tap>,
}

type Polled = Option<Result<Frame<Bytes>, kube::Error>>;

impl Tapped {
    /// Reads the server's events without passing them on.
    fn take_in(&mut self, cx: &mut Context<'_>) {
        while !matches!(self.waiting.back(), Some(None | Some(Err(_)))) {
            match http_body::Body::poll_frame(Pin::new(&mut self.body), cx) {
                Poll::Ready(frame) => self.waiting.push_back(frame),
                Poll::Pending => return,
            }
        }
    }
}

impl http_body::Body for Tapped {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Polled> {
        let this = &mut *self;
        let Some(tap) = this.tap.clone() else { return Pin::new(&mut this.body).poll_frame(cx) };
        let closed = {
            let mut state = tap.state.lock();
            if state.closed.is_some() {
                state.waiting.push(cx.waker().clone());
            }
            state.closed
        };
        match closed {
            Some(Hold::WithServer) => return Poll::Pending,
            Some(Hold::WithClient) => {
                this.take_in(cx);
                return Poll::Pending;
            }
            None => {}
        }
        let frame = match this.waiting.pop_front() {
            Some(frame) => Poll::Ready(frame),
            None => Pin::new(&mut this.body).poll_frame(cx),
        };
        if matches!(frame, Poll::Ready(Some(_))) {
            tap.state.lock().last = Some(Instant::now());
        }
        frame
    }
}

//! A tap on the watches of a client: it notes when an event is given out, and can hold events back.

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

/// The same for both sides. Cloning shares it.
#[derive(Clone, Default)]
pub(crate) struct Tap {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    closed: bool,
    waiting: Vec<Waker>,
    last: Option<Instant>,
}

impl Tap {
    /// A client whose watches run through this tap.
    pub(crate) fn around(&self, client: Client) -> Client {
        let tap = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (tap, client) = (tap.clone(), client.clone());
            async move {
                let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                let response: Response<Body> = client.send(request).await?;
                Ok::<_, kube::Error>(response.map(|body| Tapped { body, tap: watch.then_some(tap) }))
            }
        });
        Client::new(service, namespace)
    }

    /// Holds back what comes from now on.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
    }

    pub(crate) fn open(&self) {
        let mut state = self.state.lock();
        state.closed = false;
        state.waiting.drain(..).for_each(Waker::wake);
    }

    /// When the last event was given out.
    pub(crate) fn last_event(&self) -> Instant {
        self.state.lock().last.expect("an event was given out")
    }
}

struct Tapped {
    body: Body,
    /// None for what is no watch.
    tap: Option<Tap>,
}

impl http_body::Body for Tapped {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if let Some(tap) = &this.tap {
            let mut state = tap.state.lock();
            if state.closed {
                state.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
        }
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if let (Some(tap), Poll::Ready(Some(_))) = (&this.tap, &frame) {
            tap.state.lock().last = Some(Instant::now());
        }
        frame
    }
}

//! A layer between a client and the server, with which a test decides about requests.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::Client;
use kube::client::Body;

type Seamed = UnsyncBoxBody<Bytes, kube::Error>;

/// The answer to a request.
pub(crate) enum Answer {
    Pass,
    /// Refuses the request with this code and message.
    Refuse(u16, &'static str),
    /// Answers 200 and then sends nothing, for ever.
    Silence,
}

/// A client whose requests `decide` answers or lets pass.
pub(crate) fn around(
    client: Client,
    decide: impl Fn(&Request<Body>) -> Answer + Clone + Send + Sync + 'static,
) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, answer) = (client.clone(), decide(&request));
        async move {
            Ok::<Response<Seamed>, kube::Error>(match answer {
                Answer::Pass => client.send(request).await?.map(|body| body.boxed_unsync()),
                Answer::Silence => Response::new(Silent.boxed_unsync()),
                Answer::Refuse(code, message) => {
                    let status = serde_json::json!({
                        "kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "Invalid",
                    });
                    let body = Body::from(status.to_string().into_bytes()).boxed_unsync();
                    Response::builder().status(code).body(body).expect("the parts are valid")
                }
            })
        }
    });
    Client::new(service, namespace)
}

/// A client that cuts one watch once, in the middle of the line after `lines` lines over all watches. Also returns the
/// counter of lines, which exceeds `lines` after the cut.
pub(crate) fn cut_once_after(client: Client, lines: usize) -> (Client, Arc<AtomicUsize>) {
    let namespace = client.default_namespace().to_owned();
    let given = Arc::new(AtomicUsize::new(0));
    let counted = given.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, given) = (client.clone(), given.clone());
        async move {
            let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let response = client.send(request).await?;
            Ok::<Response<Seamed>, kube::Error>(match watch {
                true => response.map(|body| Cut { body, given, lines, ended: false }.boxed_unsync()),
                false => response.map(|body| body.boxed_unsync()),
            })
        }
    });
    (Client::new(service, namespace), counted)
}

struct Silent;

impl http_body::Body for Silent {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, kube::Error>>> {
        Poll::Pending
    }
}

struct Cut {
    body: Body,
    given: Arc<AtomicUsize>,
    lines: usize,
    ended: bool,
}

impl http_body::Body for Cut {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, kube::Error>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        let frame = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => frame,
            other => return other,
        };
        let data = frame.into_data().unwrap_or_default();
        let ends: Vec<usize> =
            data.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
        let given = this.given.fetch_add(ends.len(), Ordering::SeqCst);
        let Some(whole) = this.lines.checked_sub(given).filter(|whole| *whole < ends.len()) else {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        };
        this.ended = true;
        let start = if whole == 0 { 0 } else { ends[whole - 1] };
        Poll::Ready(Some(Ok(Frame::data(data.slice(..start.midpoint(ends[whole]))))))
    }
}

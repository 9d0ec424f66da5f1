//! Records the answers of a server and plays them to a client instead of the server.
//!
//! With an embedded server, the time of a list contains the server's time. The first run of a side is recorded; later
//! runs are answered from memory, so that a measure contains the runtime's time only.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;

/// Answers by request. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Tape {
    answers: Arc<Mutex<BTreeMap<String, Answer>>>,
}

type Answer = Arc<Mutex<Vec<Bytes>>>;

impl Tape {
    /// A client whose requests are answered from this tape, or by the server and recorded.
    pub(crate) fn around(&self, client: Client) -> Client {
        let tape = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (tape, client) = (tape.clone(), client.clone());
            async move {
                let question = question(request.uri());
                let watch = question.contains("watch=true");
                let known = tape.answers.lock().get(&question).cloned();
                if let Some(answer) = known {
                    return Ok(Response::new(Played::Again { answer, at: 0, watch }));
                }
                let response: Response<Body> = client.send(request).await?;
                let answer = Answer::default();
                tape.answers.lock().insert(question, answer.clone());
                Ok::<_, kube::Error>(response.map(|body| Played::First { body, answer }))
            }
        });
        Client::new(service, namespace)
    }
}

/// The request without its timeout, which is random.
fn question(uri: &http::Uri) -> String {
    let query = uri.query().unwrap_or_default().split('&');
    let kept: Vec<&str> = query.filter(|pair| !pair.starts_with("timeoutSeconds")).collect();
    format!("{}?{}", uri.path(), kept.join("&"))
}

enum Played {
    First { body: Body, answer: Answer },
    Again { answer: Answer, at: usize, watch: bool },
}

impl http_body::Body for Played {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::First { body, answer } => {
                let frame = Pin::new(body).poll_frame(cx);
                if let Poll::Ready(Some(Ok(frame))) = &frame {
                    answer.lock().extend(frame.data_ref().cloned());
                }
                frame
            }
            Self::Again { answer, at, watch } => {
                let frame = answer.lock().get(*at).cloned();
                *at += 1;
                match frame {
                    Some(frame) => Poll::Ready(Some(Ok(Frame::data(frame)))),
                    // A recorded watch has no further events.
                    None if *watch => Poll::Pending,
                    None => Poll::Ready(None),
                }
            }
        }
    }
}

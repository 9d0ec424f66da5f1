//! A watch that stays open between steps.

use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use http::Response;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::server::body_value;

/// How many events are buffered. No script causes as many.
const EVENTS_MAX: usize = 1024;

/// An open watch. A task reads it all the time, so that it ends when the server ends it, even if no step asks for its
/// events then.
pub(crate) struct Watch {
    pub(crate) status: u16,
    events: mpsc::Receiver<Value>,
    reading: JoinHandle<()>,
}

impl Watch {
    pub(crate) fn new(answer: Response<Body>) -> Self {
        let status = answer.status().as_u16();
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let lines =
            Lines { is_one_document: status != 200, body: answer.into_body(), buffer: BytesMut::new() };
        Self { status, events, reading: tokio::spawn(lines.send_to(sender)) }
    }

    /// Returns the next `count` events, or fewer if `timeout` passes or the watch ends.
    pub(crate) async fn take(&mut self, count: Option<usize>, timeout: Duration) -> Vec<Value> {
        let end = Instant::now() + timeout;
        let mut events = Vec::new();
        while count.is_none_or(|count| events.len() < count) {
            match timeout_at(end, self.events.recv()).await {
                Ok(Some(event)) => events.push(event),
                Ok(None) | Err(_) => break,
            }
        }
        events
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

struct Lines {
    /// Whether the body is one document of several lines, as an error is. Events are one line each.
    is_one_document: bool,
    body: Body,
    /// The beginning of a line that is not complete yet.
    buffer: BytesMut,
}

impl Lines {
    async fn send_to(mut self, events: mpsc::Sender<Value>) {
        while let Some(Ok(frame)) = self.body.frame().await {
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
            while let Some(line) = self.line() {
                if !line.trim_ascii().is_empty() && events.send(body_value(&line)).await.is_err() {
                    return;
                }
            }
        }
        if self.is_one_document && !self.buffer.is_empty() {
            let _ = events.send(body_value(&self.buffer)).await;
        }
    }

    fn line(&mut self) -> Option<BytesMut> {
        let end = self.buffer.iter().position(|byte| !self.is_one_document && *byte == b'\n')?;
        let line = self.buffer.split_to(end);
        self.buffer.advance(1);
        Some(line)
    }
}

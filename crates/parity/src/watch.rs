//! A watch that is kept open between steps.

use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use http::Response;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::server::body_value;

pub(crate) struct Watch {
    pub(crate) status: u16,
    body: Body,
    /// What was read and is no whole line yet.
    buffer: BytesMut,
    ended: bool,
}

impl Watch {
    pub(crate) fn new(answer: Response<Body>) -> Self {
        Self {
            status: answer.status().as_u16(),
            body: answer.into_body(),
            buffer: BytesMut::new(),
            ended: false,
        }
    }

    /// `count` events, or what came until `timeout` passed or the watch ended.
    pub(crate) async fn take(&mut self, count: Option<usize>, timeout: Duration) -> Vec<Value> {
        let end = Instant::now() + timeout;
        let mut events = Vec::new();
        while count.is_none_or(|count| events.len() < count) {
            match timeout_at(end, self.next()).await {
                Ok(Some(event)) => events.push(event),
                Ok(None) | Err(_) => break,
            }
        }
        events
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(line) = self.line() {
                if !line.trim_ascii().is_empty() {
                    return Some(body_value(&line));
                }
                continue;
            }
            if self.ended {
                return None;
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(_)) | None => self.ended = true,
            }
        }
    }

    /// A refusal is one document, whatever lines it has; events are one line each.
    fn line(&mut self) -> Option<Vec<u8>> {
        if self.status != 200 {
            return (self.ended && !self.buffer.is_empty()).then(|| self.buffer.split().to_vec());
        }
        let end = self.buffer.iter().position(|byte| *byte == b'\n')?;
        let line = self.buffer.split_to(end).to_vec();
        self.buffer.advance(1);
        Some(line)
    }
}

//! Sends requests, and reads their answers and the lines of a watch.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;
use serde::Deserialize;
use serde::de::Error as _;

/// The longest line of a watch: the largest object that etcd takes is 1.5 MiB, JSON escapes and the envelope stay
/// well below this. A server that sends more without a newline is not speaking our protocol.
const LINE_MAX_BYTES: usize = 64 << 20;

/// Sends a request. Returns the response with its body still unread, or the server's refusal as an error.
pub(crate) async fn open(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> kube::Result<http::Response<Body>> {
    let response = client.send(request.map(Body::from)).await?;
    if response.status().is_success() {
        return Ok(response);
    }
    let code = response.status();
    let retry_after = retry_after(response.headers());
    let bytes = response.into_body().collect_bytes().await?;
    Err(kube::Error::Api(status_from(&bytes, code, retry_after).boxed()))
}

/// Sends a request and reads the whole body of the answer.
pub(crate) async fn send(client: &Client, request: http::Request<Vec<u8>>) -> kube::Result<Bytes> {
    open(client, request).await?.into_body().collect_bytes().await
}

/// Reads JSON. UTF-8 is validated once for the whole text, not for each string in it.
pub(crate) fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> serde_json::Result<T> {
    serde_json::from_str(std::str::from_utf8(json).map_err(serde_json::Error::custom)?)
}

fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let seconds = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The refusal as a `Status`. If the body is not a `Status` (a proxy's page), it is made from the HTTP code.
fn status_from(bytes: &[u8], code: http::StatusCode, retry_after: Option<Duration>) -> Status {
    let mut status = serde_json::from_slice::<Status>(bytes).unwrap_or_else(|_| {
        let message = String::from_utf8_lossy(bytes).trim().to_owned();
        Status::failure(&message, code.canonical_reason().unwrap_or_default())
    });
    if status.code == 0 {
        status.code = code.as_u16();
    }
    if let Some(after) = retry_after {
        let seconds = u32::try_from(after.as_secs()).unwrap_or(u32::MAX);
        match &mut status.details {
            Some(details) if details.retry_after_seconds == 0 => details.retry_after_seconds = seconds,
            Some(_) => {}
            None => status.details = Some(only_retry_after(seconds)),
        }
    }
    status
}

fn only_retry_after(retry_after_seconds: u32) -> StatusDetails {
    StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds,
    }
}

/// Splits a streamed body into lines. A line within one frame is a slice of that frame, not a copy.
#[derive(Debug)]
pub(crate) struct Lines {
    body: Body,
    /// The rest of the current frame.
    frame: Bytes,
    /// The beginning of a line whose end has not arrived yet.
    partial: BytesMut,
    /// How the body ended, if its end was seen before it was asked for.
    end: Option<kube::Result<()>>,
}

impl Lines {
    pub(crate) fn new(body: Body) -> Self {
        Self { body, frame: Bytes::new(), partial: BytesMut::new(), end: None }
    }

    /// The next line without its newline; `None` at the end of the body. Bytes after the last newline are dropped: the
    /// stream was cut.
    pub(crate) async fn next(&mut self) -> kube::Result<Option<Bytes>> {
        if let Some(end) = self.end.take() {
            return end.map(|()| None);
        }
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.frame) {
                let line = self.frame.split_to(end + 1).slice(..end);
                if self.partial.is_empty() {
                    return Ok(Some(line));
                }
                self.partial.extend_from_slice(&line);
                return Ok(Some(std::mem::take(&mut self.partial).freeze()));
            }
            self.partial.extend_from_slice(&self.frame);
            self.frame = Bytes::new();
            if self.partial.len() > LINE_MAX_BYTES {
                return Err(kube::Error::LinesCodecMaxLineLengthExceeded);
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => self.frame = frame?.into_data().unwrap_or_default(),
            }
        }
    }

    /// This line and the lines after it that have already arrived, at most `most`. Later lines, and the end of the body,
    /// are left to [`Lines::next`].
    pub(crate) fn ready(&mut self, first: Bytes, most: usize) -> Vec<Bytes> {
        let mut lines = vec![first];
        while lines.len() < most {
            match self.next().now_or_never() {
                Some(Ok(Some(line))) => lines.push(line),
                None => break,
                Some(Ok(None)) => {
                    self.end = Some(Ok(()));
                    break;
                }
                Some(Err(error)) => {
                    self.end = Some(Err(error));
                    break;
                }
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Frames =
        futures::stream::Iter<std::array::IntoIter<Result<http_body::Frame<Bytes>, std::io::Error>, 3>>;
    type StreamBody = http_body_util::StreamBody<Frames>;

    #[tokio::test]
    async fn lines_are_found_across_frames() {
        let service = tower::service_fn(|_: http::Request<Body>| async {
            let frames = ["ab\nc", "d", "e\n\nf"].map(|text| Ok(http_body::Frame::data(Bytes::from(text))));
            let body = http_body_util::StreamBody::new(futures::stream::iter(frames));
            Ok::<_, std::io::Error>(http::Response::new(body as StreamBody))
        });
        let client = Client::new(service, "default");
        let request = http::Request::get("/").body(Vec::new()).unwrap();
        let mut lines = Lines::new(open(&client, request).await.unwrap().into_body());
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(String::from_utf8(line.to_vec()).unwrap());
        }
        assert_eq!(found, ["ab", "cde", ""]);
    }

    #[tokio::test]
    async fn what_is_there_already_is_taken_at_once_and_the_end_is_kept() {
        let service = tower::service_fn(|_: http::Request<Body>| async {
            Ok::<_, std::io::Error>(http::Response::new(Body::from(b"a\nb\nc\n".to_vec())))
        });
        let client = Client::new(service, "default");
        let request = http::Request::get("/").body(Vec::new()).unwrap();
        let mut lines = Lines::new(open(&client, request).await.unwrap().into_body());
        let first = lines.next().await.unwrap().unwrap();
        assert_eq!(lines.ready(first, 2), ["a", "b"]);
        let third = lines.next().await.unwrap().unwrap();
        assert_eq!(lines.ready(third, 9), ["c"]);
        assert!(lines.next().await.unwrap().is_none());
    }
}

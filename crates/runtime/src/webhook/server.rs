//! The webhook server, and its limits on reviews. The limits on connections are shared by all TLS servers of an
//! operator (`tls/connection.rs`).
//!
//! | limit | what the client sees |
//! |---|---|
//! | [`READ_MAX`] for the body of a request | status 408 |
//! | the size of a review | status 413 |
//! | [`BODY_BYTES_MAX`] in all bodies | status 503 with `Retry-After` |
//! | reviews at once | status 429 with `Retry-After` |
//! | the time of a review | status 504 |

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel_env::Env;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::certificates::Certificates;
use super::service::{Refusal, Webhooks, busy, refused, too_large};
use crate::listen::Listen;
use crate::tls::{self, Shown};

/// How long reading a body may take: the longest timeout of a webhook, after which the API server has given up.
const READ_MAX: Duration = Duration::from_secs(30);

/// The memory for the bodies of all requests together: enough for the conversion of two lists of 100 MiB, or for 36 of
/// the largest admission reviews.
const BODY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How much of a body that is too large is read and discarded before the response. A client that is still sending may
/// not see a response if the connection is closed at once.
const DISCARD_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Serves webhooks over TLS.
#[derive(Clone)]
pub(crate) struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    webhooks: Webhooks,
    shown: Shown,
    env: Env,
    listens: AtomicBool,
    body_bytes: Semaphore,
}

/// When and how a server stops.
pub(crate) struct Stop {
    /// Cancelled when the manager begins to stop. The server is then no longer ready, but keeps serving.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when everything that may need the webhooks has ended.
    pub(crate) stop: CancellationToken,
    /// How long the server keeps serving after `stopping`, until no API server sends requests to it any more.
    pub(crate) linger: Duration,
}

impl Server {
    pub(crate) fn new(webhooks: Webhooks, certificates: &Certificates, env: Env) -> Self {
        let inner = Inner {
            webhooks,
            shown: certificates.shown(),
            env,
            listens: AtomicBool::new(false),
            body_bytes: Semaphore::new(BODY_BYTES_MAX),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Checks whether the server can answer reviews. The error says why not.
    #[cfg_attr(not(feature = "health"), expect(dead_code, reason = "nobody can ask"))]
    pub(crate) fn check(&self, stopping: &CancellationToken) -> Result<(), String> {
        if stopping.is_cancelled() {
            return Err("stopping".to_owned());
        }
        if !self.inner.listens.load(Ordering::Relaxed) {
            return Err("not listening".to_owned());
        }
        self.inner.shown.check(self.inner.env.now())
    }

    /// Serves until told to stop, and then until the requests in progress have ended.
    pub(crate) async fn serve(self, listen: Listen, stop: Stop) -> io::Result<()> {
        let config = self.inner.shown.server_config(self.inner.env.clone()).map_err(io::Error::other)?;
        let listener = listen.begin().await?;
        tracing::info!(address = %listener.local_addr()?, "serving webhooks");
        self.inner.listens.store(true, Ordering::Relaxed);
        let server = self.clone();
        let answer = move |request: Request<Incoming>| {
            let server = server.clone();
            async move { server.answer(request).await }
        };
        let listens = self.inner.clone();
        let ended = async move {
            stop.ended().await;
            listens.listens.store(false, Ordering::Relaxed);
        };
        tls::serve(listener, config, ended, answer).await;
        Ok(())
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Bytes> {
        let (head, body) = request.into_parts();
        let mut room = None;
        self.inner.webhooks.answer_when_read(&head, |limit| self.read(body, limit, &mut room)).await
    }

    /// Reads a body. `room` is the body's share of [`BODY_BYTES_MAX`]; the caller holds it as long as the body.
    async fn read<'a>(
        &'a self,
        body: Incoming,
        limit: usize,
        room: &mut Option<tokio::sync::SemaphorePermit<'a>>,
    ) -> Result<Bytes, Refusal> {
        let read = self.read_frames(body, limit, room);
        tokio::time::timeout(READ_MAX, read).await.unwrap_or_else(|_| {
            let why = format!("the body did not arrive within {READ_MAX:?}");
            Err(Box::new(refused(StatusCode::REQUEST_TIMEOUT, "Timeout", &why)))
        })
    }

    async fn read_frames<'a>(
        &'a self,
        mut body: Incoming,
        limit: usize,
        room: &mut Option<tokio::sync::SemaphorePermit<'a>>,
    ) -> Result<Bytes, Refusal> {
        if body.size_hint().lower() > limit as u64 {
            discard(body).await;
            return Err(Box::new(too_large(limit)));
        }
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let why = format!("the body ended before its time: {error}");
                Box::new(refused(StatusCode::BAD_REQUEST, "BadRequest", &why))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > limit {
                discard(body).await;
                return Err(Box::new(too_large(limit)));
            }
            self.reserve(data.len(), room)?;
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.freeze())
    }

    fn reserve<'a>(
        &'a self,
        bytes: usize,
        room: &mut Option<tokio::sync::SemaphorePermit<'a>>,
    ) -> Result<(), Refusal> {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let Ok(more) = self.inner.body_bytes.try_acquire_many(permits) else {
            let why = format!("the reviews that are being read take {BODY_BYTES_MAX} bytes already");
            return Err(Box::new(busy(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &why)));
        };
        match room {
            Some(room) => room.merge(more),
            None => *room = Some(more),
        }
        Ok(())
    }
}

impl Stop {
    /// Waits until the server may stop.
    async fn ended(self) {
        self.stopping.cancelled().await;
        let linger = tokio::time::sleep(self.linger);
        self.stop.cancelled().await;
        linger.await;
    }
}

async fn discard(mut body: Incoming) {
    let mut left = DISCARD_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}

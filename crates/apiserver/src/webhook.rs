//! The interface of the client that calls admission webhooks. The cluster provides it, because this crate
//! opens no sockets.

use bytes::Bytes;
use futures::future::BoxFuture;

/// A request to a webhook, to be sent over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebhookQuestion {
    /// The address to connect to, as `host:port`.
    pub address: String,
    /// The name that the webhook's TLS certificate must have.
    pub server_name: String,
    /// The host and port of the request URL.
    pub authority: String,
    /// The path and query of the request URL.
    pub path: String,
    /// The CA certificates in PEM that are trusted for the webhook's TLS certificate; empty for those of the
    /// system.
    pub ca_bundle: Vec<u8>,
    /// The AdmissionReview, as JSON.
    pub body: Bytes,
}

/// The HTTP response of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookAnswer {
    /// The status code.
    pub code: u16,
    /// The body.
    pub body: Bytes,
}

/// A client that calls webhooks. It needs no timeout: the caller drops the future when the time is over.
pub trait WebhookCaller: Send + Sync {
    /// Posts a request to a webhook. The error is worded as in Go.
    fn post(&self, question: WebhookQuestion) -> BoxFuture<'_, Result<WebhookAnswer, String>>;
}

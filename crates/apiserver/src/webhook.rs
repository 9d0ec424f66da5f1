//! The interface of the client that calls admission and conversion webhooks. The cluster provides it, because
//! this crate opens no sockets.

use std::fmt;

use bytes::Bytes;
use futures::future::BoxFuture;

/// A request to a webhook, to be sent over TLS.
///
/// `Debug` shows neither the body, which may contain a Secret, nor the bundle.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebhookQuestion {
    /// The address to connect to, as `host:port`.
    pub address: String,
    /// The name that the webhook's TLS certificate must have.
    pub server_name: String,
    /// The host and port of the request URL, with port 443 if the URL has none. A Service is
    /// `NAME.NAMESPACE.svc:PORT`.
    pub destination: String,
    /// The host and port of the request URL, as written.
    pub authority: String,
    /// The path and query of the request URL.
    pub path: String,
    /// The CA certificates in PEM that are trusted for the webhook's TLS certificate; empty for those of the
    /// system.
    pub ca_bundle: Vec<u8>,
    /// The AdmissionReview or ConversionReview, as JSON.
    pub body: Bytes,
}

impl fmt::Debug for WebhookQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, server_name, authority, path, .. } = self;
        f.debug_struct("WebhookQuestion")
            .field("address", address)
            .field("server_name", server_name)
            .field("authority", authority)
            .field("path", path)
            .finish_non_exhaustive()
    }
}

/// The HTTP response of a webhook.
///
/// `Debug` does not show the body, which may contain a patch of a Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookAnswer {
    /// The status code.
    pub code: u16,
    /// The Content-Type, or an empty string if the response has none.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
}

impl fmt::Debug for WebhookAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookAnswer").field("code", &self.code).finish_non_exhaustive()
    }
}

/// A client that calls webhooks. It needs no timeout: the caller drops the future when the time is over.
pub trait WebhookCaller: Send + Sync {
    /// Posts a request to a webhook. The error is worded as in Go.
    fn post(&self, question: WebhookQuestion) -> BoxFuture<'_, Result<WebhookAnswer, String>>;

    /// Whether the webhook at this [destination](WebhookQuestion::destination) is served in this process, so that
    /// its Service need not be resolved to an address.
    fn serves(&self, _destination: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_to_a_webhook_and_comes_back_is_not_shown() {
        const PLANTED: &str = "planted-secret-c0ffee";
        let question = WebhookQuestion {
            address: "127.0.0.1:1".to_owned(),
            server_name: "localhost".to_owned(),
            destination: "localhost:1".to_owned(),
            authority: "localhost:1".to_owned(),
            path: "/x".to_owned(),
            ca_bundle: PLANTED.into(),
            body: PLANTED.into(),
        };
        let answer = WebhookAnswer { code: 200, content_type: String::new(), body: PLANTED.into() };
        let shown = format!("{question:?} {question:#?} {answer:?} {answer:#?}");
        let in_numbers = format!("{:?}", PLANTED.as_bytes());
        let in_numbers = in_numbers.trim_matches(['[', ']']);
        assert!(!shown.contains(PLANTED) && !shown.contains(in_numbers), "{shown}");
    }
}

//! What carries a question to an admission webhook: somebody else, since this crate opens no socket.

use bytes::Bytes;
use futures::future::BoxFuture;

/// A question to a webhook, as an HTTP request that is to be sent over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebhookQuestion {
    /// Where to connect to, as `host:port`.
    pub address: String,
    /// The name that the certificate must be for.
    pub server_name: String,
    /// The host of the request, with its port.
    pub authority: String,
    /// The path and the query.
    pub path: String,
    /// The certificates, in PEM, of which one must have signed that of the webhook; those of the system where it is
    /// empty.
    pub ca_bundle: Vec<u8>,
    /// The AdmissionReview, as JSON.
    pub body: Bytes,
}

/// What came back over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookAnswer {
    /// The status code.
    pub code: u16,
    /// The body.
    pub body: Bytes,
}

/// Who carries questions to webhooks. How long an answer may take is the caller's business: the future is dropped when
/// the time is over.
pub trait WebhookCaller: Send + Sync {
    /// Posts the question. The error says, as Go would, why there is no answer.
    fn post(&self, question: WebhookQuestion) -> BoxFuture<'_, Result<WebhookAnswer, String>>;
}

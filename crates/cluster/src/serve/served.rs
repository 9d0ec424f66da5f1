//! Reports of answered requests, for the record.

use std::sync::Arc;

use evenkeel_apiserver::{Body, Committed, User};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use tokio::time::Instant;

/// The longest name of a client that is taken from its User-Agent, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Called with each answered request.
pub(crate) type Observer = Arc<dyn Fn(Served) + Send + Sync>;

/// A request of a client, and its answer.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) begun: Instant,
    /// The client's name: the program in its User-Agent, or else its user.
    pub(crate) by: Arc<str>,
    pub(crate) content_type: Option<HeaderValue>,
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) status: u16,
    /// The revision that the request created, if it changed something.
    pub(crate) wrote: Option<u64>,
}

/// A request that is being answered.
pub(super) struct Serving {
    begun: Instant,
    by: Arc<str>,
    content_type: Option<HeaderValue>,
    method: Method,
    path: String,
}

impl Serving {
    pub(super) fn begin(head: &Parts, user: &User) -> Self {
        Self {
            begun: Instant::now(),
            by: program(&head.headers).unwrap_or(&user.name).into(),
            content_type: head.headers.get(header::CONTENT_TYPE).cloned(),
            method: head.method.clone(),
            path: head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        }
    }

    pub(super) fn end(self, observer: &Observer, answer: &Response<Body>) {
        let Self { begun, by, content_type, method, path } = self;
        let wrote = answer.extensions().get::<Committed>().map(|committed| committed.0);
        let status = answer.status().as_u16();
        observer(Served { begun, by, content_type, method, path, status, wrote });
    }
}

/// The name of the program in a User-Agent such as `kubectl/v1.36.4 (linux/amd64)`.
fn program(headers: &HeaderMap) -> Option<&str> {
    let agent = headers.get(header::USER_AGENT)?.to_str().ok()?;
    let name =
        agent.split(['/', ' ']).next().filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX)?;
    // Clients that were given no name of their own share that of their library.
    (!matches!(name, "kube-client" | "Go-http-client" | "python-requests" | "curl")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_called_by_its_program() {
        let named = |agent: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::USER_AGENT, agent.parse().unwrap());
            program(&headers).map(str::to_owned)
        };
        assert_eq!(named("kubectl/v1.36.4 (linux/amd64) kubernetes/abc").as_deref(), Some("kubectl"));
        assert_eq!(named("Go-http-client/2.0"), None);
        assert_eq!(named(&"x".repeat(100)), None);
        assert_eq!(named(""), None);
    }
}

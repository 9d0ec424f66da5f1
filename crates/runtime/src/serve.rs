//! The manager's own HTTP endpoints: health, readiness and metrics.

#[cfg(feature = "secured-server")]
mod access;
#[cfg(feature = "secured-server")]
mod secured;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::listen::{Listen, next_connection};
use crate::metrics::Metrics;
#[cfg(feature = "secured-server")]
pub use secured::SecuredServer;
#[cfg(feature = "secured-server")]
pub(crate) use secured::{Router, Secured};

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Named checks; all must pass.
#[derive(Clone, Default)]
pub(crate) struct Checks {
    list: Arc<Mutex<Vec<(String, Check)>>>,
}

impl Checks {
    pub(crate) fn add(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.list.lock().push((name.to_owned(), Box::new(check)));
    }

    /// Runs the checks, or only the named one. Returns 200, or 500 if a check failed, with a line for each check.
    fn answer(&self, only: Option<&str>) -> (StatusCode, String) {
        let list = self.list.lock();
        let mut code = StatusCode::OK;
        let mut text = String::new();
        for (name, check) in list.iter().filter(|(name, _)| only.is_none_or(|only| only == name)) {
            match check() {
                Ok(()) => text.push_str(&format!("[+]{name} ok\n")),
                Err(why) => {
                    code = StatusCode::INTERNAL_SERVER_ERROR;
                    text.push_str(&format!("[-]{name} failed: {why}\n"));
                }
            }
        }
        match only {
            Some(_) if text.is_empty() => no_page(),
            None if text.is_empty() => (code, "ok\n".into()),
            _ => (code, text),
        }
    }
}

/// The pages that are served at one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    All,
    /// `/healthz`, `/livez` and `/readyz`.
    Probes,
    Metrics,
}

impl Pages {
    fn has(self, path: &str) -> bool {
        match self {
            Self::All => true,
            Self::Probes => path != "/metrics",
            Self::Metrics => path == "/metrics",
        }
    }

    fn named(self) -> &'static str {
        match self {
            Self::All => "serving health and metrics",
            Self::Probes => "serving health",
            Self::Metrics => "serving metrics",
        }
    }
}

/// The endpoints at one address.
#[derive(Clone)]
pub(crate) struct Endpoints {
    pub(crate) pages: Pages,
    pub(crate) health: Checks,
    pub(crate) ready: Checks,
    #[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "there are no metrics to serve"))]
    pub(crate) metrics: Metrics,
}

impl Endpoints {
    /// Serves until told to stop.
    pub(crate) async fn serve(self, listen: Listen, stop: CancellationToken) -> std::io::Result<()> {
        let listener = listen.begin().await?;
        tracing::info!(address = %listener.local_addr()?, "{}", self.pages.named());
        // Connections end with this task, even if the task is aborted.
        let ended = stop.child_token();
        let _end = ended.clone().drop_guard();
        loop {
            let stream = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                stream = next_connection(&listener) => stream,
            };
            let endpoints = self.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let response = endpoints.answer(request.uri().path());
                async move { Ok::<_, Infallible>(response.map(Full::new)) }
            });
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let ended = ended.clone();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = ended.cancelled() => {}
                    // A broken connection concerns its client only.
                    _ = connection => {}
                }
            });
        }
    }

    pub(crate) fn answer(&self, path: &str) -> Response<Bytes> {
        let (page, check) = match path.get(1..).and_then(|path| path.split_once('/')) {
            Some((page, check)) => (&path[..=page.len()], Some(check)),
            None => (path, None),
        };
        let (code, kind, text) = match page {
            _ if !self.pages.has(page) => with_kind(no_page()),
            "/healthz" | "/livez" => with_kind(self.health.answer(check)),
            "/readyz" => with_kind(self.ready.answer(check)),
            #[cfg(feature = "metrics")]
            "/metrics" if check.is_none() => {
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                (StatusCode::OK, kind, self.metrics.encode())
            }
            _ => with_kind(no_page()),
        };
        response(code, kind, text)
    }
}

/// The media type of a text page for people.
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

fn no_page() -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, "404 page not found\n".into())
}

fn with_kind((code, text): (StatusCode, String)) -> (StatusCode, &'static str, String) {
    (code, PLAIN_TEXT, text)
}

/// Returns a plain-text response.
#[cfg(feature = "secured-server")]
fn text(code: StatusCode, text: &str) -> Response<Bytes> {
    response(code, PLAIN_TEXT, text.to_owned())
}

fn response(code: StatusCode, kind: &'static str, text: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests a page. Returns its code, content type and text.
    async fn page(endpoints: &Endpoints, path: &str) -> (u16, String, String) {
        let (head, body) = endpoints.answer(path).into_parts();
        let kind = head.headers[http::header::CONTENT_TYPE].to_str().unwrap().to_owned();
        let text = String::from_utf8(body.to_vec()).unwrap();
        (head.status.as_u16(), kind, text)
    }

    #[tokio::test]
    async fn a_page_says_what_each_check_found() {
        let (health, ready) = (Checks::default(), Checks::default());
        let endpoints = Endpoints {
            pages: Pages::All,
            health: health.clone(),
            ready: ready.clone(),
            metrics: Metrics::new(),
        };
        let plain = "text/plain; charset=utf-8".to_owned();
        for path in ["/healthz", "/livez", "/readyz"] {
            assert_eq!(page(&endpoints, path).await, (200, plain.clone(), "ok\n".into()), "{path}");
        }
        health.add("disk", || Ok(()));
        ready.add("disk", || Ok(()));
        ready.add("peers", || Err("none yet".into()));
        ready.add("clock", || Ok(()));
        for path in ["/healthz", "/livez"] {
            assert_eq!(page(&endpoints, path).await, (200, plain.clone(), "[+]disk ok\n".into()), "{path}");
        }
        let wanted = "[+]disk ok\n[-]peers failed: none yet\n[+]clock ok\n".to_owned();
        assert_eq!(page(&endpoints, "/readyz").await, (500, plain.clone(), wanted));
        // A single check has a page under its name.
        assert_eq!(page(&endpoints, "/readyz/clock").await, (200, plain.clone(), "[+]clock ok\n".into()));
        let alone = (500, plain.clone(), "[-]peers failed: none yet\n".into());
        assert_eq!(page(&endpoints, "/readyz/peers").await, alone);
        for path in ["/healthz/peers", "/healthz/", "/metrics/x"] {
            assert_eq!(page(&endpoints, path).await.0, 404, "{path}");
        }
        assert_eq!(page(&endpoints, "/else").await, (404, plain, "404 page not found\n".into()));
    }

    #[tokio::test]
    async fn metrics_are_in_the_format_that_their_type_says() {
        let metrics = Metrics::new();
        let backups = prometheus_client::metrics::counter::Counter::<u64>::default();
        metrics.register(|registry| registry.register("backups", "Backups taken", backups.clone()));
        backups.inc();
        let (health, ready) = (Checks::default(), Checks::default());
        let endpoints = Endpoints { pages: Pages::Metrics, health, ready, metrics };
        let (code, kind, text) = page(&endpoints, "/metrics").await;
        assert_eq!(
            (code, kind.as_str()),
            (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")
        );
        assert!(text.contains("\nbackups_total 1\n"), "an operator's own are among them:\n{text}");
        assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    }
}

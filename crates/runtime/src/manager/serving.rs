//! The endpoints of a manager: what is served, and where.

#[cfg(feature = "secured-server")]
use std::convert::Infallible;
#[cfg(feature = "secured-server")]
use std::future::Future;
use std::net::SocketAddr;
#[cfg(feature = "secured-server")]
use std::time::Duration;

#[cfg(feature = "secured-server")]
use futures::StreamExt as _;
#[cfg(feature = "secured-server")]
use http_body_util::combinators::UnsyncBoxBody;
#[cfg(feature = "secured-server")]
use http_body_util::{BodyExt as _, StreamBody};
#[cfg(feature = "secured-server")]
use tokio_util::sync::CancellationToken;

use super::Manager;
use super::stage::Stages;
use crate::informer::Informers;
use crate::listen::Listen;
use crate::serve::{Checks, Endpoints, Pages};
#[cfg(feature = "secured-server")]
use crate::serve::{Router, Secured, SecuredServer};
use crate::tasks::Tasks;
#[cfg(feature = "secured-server")]
use crate::{flight::Flight, flight::Position, tls::Content};

/// The path of the flight recorder's record; below it, `stream` follows the record.
#[cfg(feature = "secured-server")]
const RECORD: &str = "/debug/evenkeel";

/// How often a follower of the record is sent what is new.
#[cfg(feature = "secured-server")]
const NEWS_PERIOD: Duration = Duration::from_millis(500);

/// What a manager serves over HTTP.
#[derive(Default)]
pub(super) struct Serving {
    health: Checks,
    ready: Checks,
    /// Where health, readiness and metrics are served.
    listen: Option<Listen>,
    /// Whether this address serves probes only, without metrics.
    probes_only: bool,
    /// Where metrics are served, if not with the others.
    metrics_listen: Option<Listen>,
    /// The server of metrics and of the operator's own pages over TLS.
    #[cfg(feature = "secured-server")]
    secured: Option<SecuredServer>,
    #[cfg(feature = "secured-server")]
    router: Router,
}

impl Serving {
    /// The port of health and readiness.
    pub(super) fn port(&self) -> Option<u16> {
        self.listen.as_ref().and_then(Listen::port)
    }

    /// Adds a check to `/readyz`.
    #[cfg(feature = "webhook-server")]
    pub(super) fn ready(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.ready.add(name, check);
    }

    /// The port of metrics without TLS, if they have a port of their own.
    pub(super) fn metrics_port(&self) -> Option<u16> {
        self.metrics_listen.as_ref().and_then(Listen::port)
    }

    /// The port of metrics over TLS.
    #[cfg(feature = "secured-server")]
    pub(super) fn secured_port(&self) -> Option<u16> {
        self.secured.as_ref().and_then(SecuredServer::port)
    }
}

impl Manager {
    /// Serves `/healthz`, `/readyz` and, with the feature `metrics`, `/metrics` at this address while the manager runs.
    pub fn serve(mut self, address: SocketAddr) -> Self {
        self.serving.listen = Some(Listen::Address(address));
        self
    }

    /// Serves `/healthz` and `/readyz` at this address while the manager runs, and no metrics.
    pub fn serve_probes(mut self, address: SocketAddr) -> Self {
        self.serving.probes_only = true;
        self.serve(address)
    }

    /// Serves `/healthz`, `/readyz` and `/metrics` on a listener that is bound already: to a port that the system
    /// chose, or by the process that started this one.
    ///
    /// ```no_run
    /// # fn example(manager: evenkeel_runtime::Manager) -> std::io::Result<evenkeel_runtime::Manager> {
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// println!("http://{}/metrics", listener.local_addr()?);
    /// Ok(manager.serve_on(listener))
    /// # }
    /// ```
    pub fn serve_on(mut self, listener: std::net::TcpListener) -> Self {
        self.serving.listen = Some(Listen::On(listener));
        self
    }

    /// Serves `/metrics` at this address instead of the address of [`Manager::serve`]: probes come from the node,
    /// scrapes from elsewhere.
    ///
    /// ```no_run
    /// # fn example(manager: evenkeel_runtime::Manager) -> Result<evenkeel_runtime::Manager, std::net::AddrParseError> {
    /// Ok(manager.serve("0.0.0.0:8081".parse()?).serve_metrics("0.0.0.0:8080".parse()?))
    /// # }
    /// ```
    #[cfg(feature = "metrics")]
    pub fn serve_metrics(mut self, address: SocketAddr) -> Self {
        self.serving.metrics_listen = Some(Listen::Address(address));
        self
    }

    /// Serves `/metrics` on a listener that is bound already, instead of the address of [`Manager::serve`].
    #[cfg(feature = "metrics")]
    pub fn serve_metrics_on(mut self, listener: std::net::TcpListener) -> Self {
        self.serving.metrics_listen = Some(Listen::On(listener));
        self
    }

    /// Serves `/metrics` over TLS to clients whom the API server allows to read it, instead of at the address of
    /// [`Manager::serve`]. Also serves the pages of [`Manager::secured_page`].
    #[cfg(feature = "secured-server")]
    pub fn serve_secured(mut self, server: SecuredServer) -> Self {
        self.serving.secured = Some(server);
        self
    }

    /// Adds a page to the server of [`Manager::serve_secured`], for this path and all paths below it. Readers need RBAC
    /// permission for the path, as a `nonResourceURL`. The body of a request is not read.
    ///
    /// ```no_run
    /// # fn example(manager: evenkeel_runtime::Manager) -> evenkeel_runtime::Manager {
    /// manager.secured_page("/debug/backups", |request| async move {
    ///     http::Response::new(format!("nothing at {}\n", request.uri.path()).into())
    /// })
    /// # }
    /// ```
    #[cfg(feature = "secured-server")]
    pub fn secured_page<F, Fut>(mut self, path: &str, page: F) -> Self
    where
        F: Fn(http::request::Parts) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = http::Response<bytes::Bytes>> + Send + 'static,
    {
        self.serving.router.add(path, page);
        self
    }

    /// Adds a check to `/healthz`.
    pub fn health_check(
        self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.serving.health.add(name, check);
        self
    }

    /// Adds a check to `/readyz`, which also checks whether the caches are filled.
    pub fn ready_check(
        self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.serving.ready.add(name, check);
        self
    }

    /// Starts to serve the endpoints, each at its address.
    pub(super) fn start_serving(&mut self, tasks: &Tasks, stages: &mut Stages) {
        let (listen, metrics) = (self.serving.listen.take(), self.serving.metrics_listen.take());
        if listen.is_some() {
            self.serving.ready.add("caches", synced_check(self.informers.clone()));
        }
        #[cfg(feature = "secured-server")]
        let secured = self.start_secured(tasks, stages);
        #[cfg(not(feature = "secured-server"))]
        let secured = false;
        let pages =
            if metrics.is_some() || secured || self.serving.probes_only { Pages::Probes } else { Pages::All };
        let listens = [(listen, pages, "http"), (metrics, Pages::Metrics, "http of metrics")];
        for (listen, pages, name) in listens {
            let Some(listen) = listen else { continue };
            let running = self.endpoints(pages).serve(listen, stages.serving.stop.clone());
            stages.serving.start(tasks, name.into(), async move { Ok(running.await?) });
        }
    }

    fn endpoints(&self, pages: Pages) -> Endpoints {
        let (health, ready) = (self.serving.health.clone(), self.serving.ready.clone());
        Endpoints { pages, health, ready, metrics: self.metrics.clone() }
    }

    /// Starts the secured server, if there is one.
    #[cfg(feature = "secured-server")]
    fn start_secured(&mut self, tasks: &Tasks, stages: &mut Stages) -> bool {
        let Some(server) = self.serving.secured.take() else { return false };
        let (mut router, flight) = (std::mem::take(&mut self.serving.router), self.flight.clone());
        let stop = stages.serving.stop.clone();
        router.add(RECORD, {
            let flight = flight.clone();
            move |_| {
                std::future::ready(typed("application/json", bytes::Bytes::from(flight.record().to_json())))
            }
        });
        router.add(&format!("{RECORD}/stream"), move |_| {
            let events = events(flight.clone(), stop.clone());
            std::future::ready(typed("text/event-stream", Content::Stream(events)))
        });
        let secured = Secured::new(self.unfenced.clone(), router, self.endpoints(Pages::Metrics));
        let shown = secured.shown();
        self.metrics.certificate("metrics", move || shown.until());
        let running = secured.serve(server, self.env.clone(), stages.serving.stop.clone());
        stages.serving.start(tasks, "https of metrics".into(), async move { Ok(running.await?) });
        true
    }
}

/// Makes a response with this content type, which nobody may cache.
#[cfg(feature = "secured-server")]
fn typed<B>(media_type: &'static str, body: B) -> http::Response<B> {
    let mut answer = http::Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(media_type));
    headers.insert(http::header::CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    answer
}

/// Streams the record as server-sent events until the server stops. The data of each event is a record: of the first
/// one the whole record, and of each later one what is new.
#[cfg(feature = "secured-server")]
fn events(flight: Flight, stop: CancellationToken) -> UnsyncBoxBody<bytes::Bytes, Infallible> {
    let begin = (flight, Position::default(), true);
    let news = futures::stream::unfold(begin, |(flight, mut position, is_first)| async move {
        if !is_first {
            tokio::time::sleep(NEWS_PERIOD).await;
        }
        let event = bytes::Bytes::from(flight.record_after(&mut position).to_event());
        Some((Ok(hyper::body::Frame::data(event)), (flight, position, false)))
    });
    StreamBody::new(news.take_until(stop.cancelled_owned())).boxed_unsync()
}

/// The check of `/readyz` that passes once every cache has its first list.
fn synced_check(informers: Informers) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    move || match informers.stats().into_iter().find(|stat| !stat.synced) {
        Some(stat) => Err(format!("the cache of {} is not filled", stat.source)),
        None => Ok(()),
    }
}

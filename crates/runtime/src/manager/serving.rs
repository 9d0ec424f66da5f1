//! The endpoints of a manager: what is served, and where.

use std::net::SocketAddr;

use super::Manager;
use super::stage::Stages;
use crate::informer::Informers;
use crate::listen::Listen;
use crate::serve::{Checks, Endpoints, Pages};
use crate::tasks::Tasks;

/// What a manager serves over HTTP.
#[derive(Default)]
pub(super) struct Serving {
    health: Checks,
    ready: Checks,
    /// Where health, readiness and metrics are served.
    listen: Option<Listen>,
    /// Where metrics are served, if not with the others.
    metrics_listen: Option<Listen>,
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

    /// The port of metrics, if they have one of their own.
    pub(super) fn metrics_port(&self) -> Option<u16> {
        self.metrics_listen.as_ref().and_then(Listen::port)
    }
}

impl Manager {
    /// Serves `/healthz`, `/readyz` and, with the feature `metrics`, `/metrics` at this address while the manager runs.
    pub fn serve(mut self, address: SocketAddr) -> Self {
        self.serving.listen = Some(Listen::Address(address));
        self
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
        let pages = if metrics.is_some() { Pages::Probes } else { Pages::All };
        let listens = [(listen, pages, "http"), (metrics, Pages::Metrics, "http of metrics")];
        for (listen, pages, name) in listens {
            let Some(listen) = listen else { continue };
            let (health, ready) = (self.serving.health.clone(), self.serving.ready.clone());
            let endpoints = Endpoints { pages, health, ready, metrics: self.metrics.clone() };
            let running = endpoints.serve(listen, stages.serving.stop.clone());
            stages.serving.start(tasks, name.into(), async move { Ok(running.await?) });
        }
    }
}

/// The check of `/readyz` that passes once every cache has its first list.
fn synced_check(informers: Informers) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    move || match informers.stats().into_iter().find(|stat| !stat.synced) {
        Some(stat) => Err(format!("the cache of {} is not filled", stat.source)),
        None => Ok(()),
    }
}

//! The applications that an operator talks to: commands in containers, and HTTP through the names of Services.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Body, Destination, HttpFailure, Status};
use evenkeel_controllers::node::rules::Selector;
use futures::future::BoxFuture;
use http::uri::Scheme;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected};
use tower::BoxError;

use super::outside::{Outside, OutsideError};
use crate::cluster::Cluster;
use crate::containers::{
    Answer, CallKind, Connection, Containers, Exec, Exit, HttpFault, HttpFaults, Listener, PortCall,
    PortOwner,
};

/// The name under which HTTP requests to applications are in the record.
const RECORDED_AS: &str = "http";

/// What an application answers if [`HttpFault::Nonsense`] answers for it.
const NONSENSE: &str = "<html><body>It works!</body></html>";

impl Cluster {
    /// Lets a handler answer for the commands that clients run in the selected containers: the exit code is what it
    /// returns. The handler that was added last answers first. Without one, an exec is refused with status 501.
    ///
    /// The command ends when the handler returns. If the client goes away before, the handler's future is dropped.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kube::api::{Api, AttachParams};
    /// # use tokio::io::AsyncReadExt as _;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// use evenkeel_cluster::{Exec, PodSelector};
    ///
    /// cluster.on_exec(PodSelector::all().image("postgres:*"), |mut exec: Exec| async move {
    ///     match exec.command[0].as_str() {
    ///         "pg_dump" => exec.print("-- a dump\n").await,
    ///         other => exec.print_error(format!("{other}: not found\n")).await,
    ///     }
    ///     if exec.command[0] == "pg_dump" { 0 } else { 127 }
    /// });
    /// # });
    /// ```
    ///
    /// Has no effect on a remote cluster, whose containers run.
    pub fn on_exec<F, E>(&self, selector: Selector, handler: impl Fn(Exec) -> F + Send + Sync + 'static)
    where
        F: Future<Output = E> + Send + 'static,
        E: Into<Exit>,
    {
        self.on_command(CallKind::Exec, selector, handler);
    }

    /// Lets a handler answer for clients that attach to the selected containers, as [`Cluster::on_exec`] does for
    /// commands.
    pub fn on_attach<F, E>(&self, selector: Selector, handler: impl Fn(Exec) -> F + Send + Sync + 'static)
    where
        F: Future<Output = E> + Send + 'static,
        E: Into<Exit>,
    {
        self.on_command(CallKind::Attach, selector, handler);
    }

    fn on_command<F, E>(
        &self,
        kind: CallKind,
        selector: Selector,
        handler: impl Fn(Exec) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = E> + Send + 'static,
        E: Into<Exit>,
    {
        let handler = move |exec| -> BoxFuture<'static, Exit> {
            let running = handler(exec);
            Box::pin(async move { running.await.into() })
        };
        self.inner.containers.on_command(kind, selector, Arc::new(handler));
    }

    /// Lets a closure answer HTTP requests to a port of a Service in this handle's namespace. The Service must exist, and
    /// must have a ready endpoint: without one, connections are refused, as on a real cluster. The request has a
    /// [`PortCall`] in its extensions, which names the pod that would answer.
    ///
    /// Requests come from [`Cluster::http`], and through the API server by `services/proxy`.
    ///
    /// ```
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// # let labels = serde_json::json!({"app": "web"});
    /// # let web: Deployment = serde_json::from_value(serde_json::json!({
    /// #     "metadata": {"name": "web"},
    /// #     "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
    /// #         "spec": {"containers": [{"name": "main", "image": "nginx"}]}}},
    /// # })).unwrap();
    /// # let service: Service = serde_json::from_value(serde_json::json!({
    /// #     "metadata": {"name": "web"}, "spec": {"selector": labels, "ports": [{"port": 80}]},
    /// # })).unwrap();
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    ///
    /// cluster.serve_service("web", 80, |request: Request<Bytes>| async move {
    ///     Response::new(Bytes::from(format!("you asked for {}", request.uri().path())))
    /// });
    /// let http = cluster.http("my-operator");        // for the operator, in place of its HTTP client
    /// let health = || Request::get("http://web.default.svc/health").body(Bytes::new()).unwrap();
    /// assert_eq!(http.send(health()).await.unwrap_err().to_string(), "GET http://web.default.svc/health: no such host");
    ///
    /// cluster.apply(service).await?;
    /// cluster.apply(web).await?;
    /// cluster.settled().await;
    /// assert_eq!(http.send(health()).await.unwrap().into_body(), "you asked for /health");
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    ///
    /// Has no effect on a remote cluster.
    pub fn serve_service<F>(
        &self,
        name: &str,
        port: u16,
        handler: impl Fn(Request<Bytes>) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let owner = PortOwner::Service { namespace: self.namespace().to_owned(), name: name.to_owned() };
        self.inner.containers.listen(Listener { owner, port: Some(port), answer: answer(handler) });
    }

    /// Lets a closure answer HTTP requests to a port of the selected pods: through Services, by port-forward, and by
    /// `pods/proxy`. See [`Cluster::serve_service`].
    ///
    /// Has no effect on a remote cluster.
    pub fn serve_pods<F>(
        &self,
        selector: Selector,
        port: u16,
        handler: impl Fn(Request<Bytes>) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let owner = PortOwner::Pods(selector);
        self.inner.containers.listen(Listener { owner, port: Some(port), answer: answer(handler) });
    }

    /// Forwards connections to a port of the selected pods to something else, such as a program on this machine. `None`
    /// stands for all ports. If the closure fails, clients are told its error as the reason.
    ///
    /// Has no effect on a remote cluster.
    pub fn connect_pods<F>(
        &self,
        selector: Selector,
        port: Option<u16>,
        connect: impl Fn(PortCall) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<Connection, String>> + Send + 'static,
    {
        let connect =
            move |call| -> BoxFuture<'static, Result<Connection, String>> { Box::pin(connect(call)) };
        let answer = Answer::Connection(Arc::new(connect));
        self.inner.containers.listen(Listener { owner: PortOwner::Pods(selector), port, answer });
    }

    /// Returns an HTTP client for the operator with this name, which resolves the names of Services in this cluster
    /// (`NAME.NAMESPACE.svc`), those of pods behind them (`POD.NAME.NAMESPACE.svc`), and IP addresses of both. Give it to
    /// the operator in place of the client that it has in production: it is a [`tower::Service`].
    ///
    /// Its requests count as pending work and appear in the timeline. They can fail like requests to the API server:
    /// [`Cluster::fail_http`] makes them fail, and exploration crashes the operator before and after them and loses
    /// their answers.
    pub fn http(&self, operator: &str) -> ClusterHttp {
        ClusterHttp {
            outside: self.outside(operator, RECORDED_AS),
            server: self.inner.server.clone(),
            containers: self.inner.containers.clone(),
            faults: self.inner.http_faults.clone(),
            namespace: self.namespace().into(),
        }
    }

    /// Makes the next `times` requests of [`Cluster::http`] fail whose URL contains `url_part`.
    ///
    /// ```
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// use evenkeel_cluster::HttpFault;
    /// cluster.fail_http("orders.default.svc", HttpFault::Down, 3);
    /// cluster.fail_http("/health", HttpFault::Slow(std::time::Duration::from_secs(31)), usize::MAX);
    /// # });
    /// ```
    pub fn fail_http(&self, url_part: impl Into<String>, fault: HttpFault, times: usize) {
        self.inner.http_faults.arm(url_part.into(), fault, times);
    }
}

fn answer<F>(handler: impl Fn(Request<Bytes>) -> F + Send + Sync + 'static) -> Answer
where
    F: Future<Output = Response<Bytes>> + Send + 'static,
{
    let handler = move |request| -> BoxFuture<'static, Response<Bytes>> { Box::pin(handler(request)) };
    Answer::Http(Arc::new(handler))
}

/// An HTTP client of an operator for the applications in the cluster. Made by [`Cluster::http`]; cloning is cheap.
#[derive(Clone)]
pub struct ClusterHttp {
    outside: Outside,
    server: Option<ApiServer>,
    containers: Containers,
    faults: HttpFaults,
    /// The namespace in which a name without one is looked up.
    namespace: Arc<str>,
}

/// A request to an application got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
#[non_exhaustive]
pub struct HttpError {
    /// The method and the URL.
    pub what: String,
    /// What happened.
    pub why: String,
}

/// Reads the body of an answer to its end.
async fn collected(answer: Response<Body>) -> Response<Bytes> {
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    Response::from_parts(parts, body)
}

impl ClusterHttp {
    /// Sends a request. Its URI must have a host; without a port, it goes to port 80, or 443 for `https`. There is no TLS.
    ///
    /// # Errors
    /// Fails if no application is reached, or if its answer gets lost.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let what = format!("{} {}", request.method(), request.uri());
        let looks = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let effect = self.deliver(request);
        let carried = if looks {
            self.outside.ask(&what, effect).await
        } else {
            self.outside.call(&what, effect).await
        };
        let told = |OutsideError { why, .. }: OutsideError| format!("{why} (injected)");
        carried.map_err(told).flatten().map_err(|why| HttpError { what, why })
    }

    async fn deliver(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let fault = self.faults.strike(&request.uri().to_string());
        match fault {
            Some(HttpFault::Down) => return Err("connection refused (injected)".to_owned()),
            Some(HttpFault::Slow(delay)) => tokio::time::sleep(delay).await,
            Some(HttpFault::Nonsense) => return Ok(Response::new(Bytes::from_static(NONSENSE.as_bytes()))),
            Some(HttpFault::Status(code)) => {
                let mut answer = Response::new(Bytes::new());
                *answer.status_mut() =
                    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                return Ok(answer);
            }
            Some(HttpFault::LostAnswer) | None => {}
        }
        let to = self.resolve(request.uri())?;
        let answer = match self.containers.send(to, Scheme::HTTP, request).await {
            Ok(answer) => Ok(collected(answer).await),
            Err(HttpFailure::Failed(why)) => Err(why),
            Err(_) => Err("connection refused: no handler answers".to_owned()),
        };
        match fault {
            Some(HttpFault::LostAnswer) => {
                Err("the connection broke before the answer arrived (injected)".to_owned())
            }
            _ => answer,
        }
    }

    /// Finds what a URI leads to.
    fn resolve(&self, uri: &http::Uri) -> Result<Destination, String> {
        let Some(server) = &self.server else {
            return Err("a remote cluster is reached by its network".to_owned());
        };
        let host = uri.host().ok_or("the URL has no host")?;
        let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(default);
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let found = if address.parse::<std::net::IpAddr>().is_ok() {
            server.address_destination(address, port)
        } else {
            let host = host.strip_suffix(".cluster.local").unwrap_or(host);
            let host = host.strip_suffix(".svc").unwrap_or(host);
            let labels: Vec<&str> = host.split('.').collect();
            match labels[..] {
                [service] => server.service_destination(&self.namespace, service, &port.to_string()),
                [service, namespace] => server.service_destination(namespace, service, &port.to_string()),
                [pod, service, namespace] => server.pod_destination(namespace, service, pod, port),
                _ => Err(Status::not_found("", "services", host)),
            }
        };
        found.map_err(|status| {
            if status.code == 404 { "no such host" } else { "connection refused" }.to_owned()
        })
    }
}

impl tower::Service<Request<Bytes>> for ClusterHttp {
    type Response = Response<Bytes>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Bytes>, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let client = self.clone();
        Box::pin(async move { client.send(request).await.map_err(BoxError::from) })
    }
}

//! Pages over TLS, for clients whom the API server allows to read them.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::Env;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use jiff::SignedDuration;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::Endpoints;
use super::access::Access;
use crate::listen::Listen;
use crate::tls::{self, Content, Shown};

/// How long a self-made certificate is valid: controller-runtime's value.
const VALID: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How long before its expiry a certificate is replaced.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(60 * 24);
/// How far before its creation a certificate's validity begins, because clocks differ.
const EARLY: SignedDuration = SignedDuration::from_hours(24);
/// How often the age of the certificate is checked.
const LOOK_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// A server for metrics and for the operator's own pages, over TLS and only for clients whom the API server allows to
/// read the path.
///
/// A client sends the bearer token of a user or a ServiceAccount. The server asks the API server whose token it is
/// (TokenReview) and whether that user may `get` the path (SubjectAccessReview of a `nonResourceURL`), and caches the
/// results for a while. [`Manager::manifests`](crate::Manager::manifests) contains the rules that the operator needs
/// for that, and a ClusterRole `NAME-metrics-reader` for readers.
///
/// Without [`SecuredServer::certificates_in_folder`], the server uses a self-signed certificate, which clients cannot
/// verify. That is controller-runtime's default as well.
///
/// ```no_run
/// # fn example(manager: evenkeel_runtime::Manager) -> Result<evenkeel_runtime::Manager, std::net::AddrParseError> {
/// use evenkeel_runtime::SecuredServer;
///
/// Ok(manager.serve("0.0.0.0:8081".parse()?).serve_secured(SecuredServer::new("0.0.0.0:8443".parse()?)))
/// # }
/// ```
#[must_use]
pub struct SecuredServer {
    listen: Listen,
    folder: Option<PathBuf>,
}

impl SecuredServer {
    /// A server at this address.
    pub fn new(address: SocketAddr) -> Self {
        Self { listen: Listen::Address(address), folder: None }
    }

    /// A server on a listener that is already bound, to a port that the system chose, or by the process that started
    /// this one.
    pub fn on(listener: std::net::TcpListener) -> Self {
        Self { listen: Listen::On(listener), folder: None }
    }

    /// Reads the certificate from the files `tls.crt` and `tls.key` in this folder, in which cert-manager's Secrets can
    /// be mounted. The files are read again when they change.
    pub fn certificates_in_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    pub(crate) fn port(&self) -> Option<u16> {
        self.listen.port()
    }
}

impl fmt::Debug for SecuredServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, folder } = self;
        f.debug_struct("SecuredServer").field("listen", listen).field("folder", folder).finish()
    }
}

/// Answers a request, given its head.
type Answer = Arc<dyn Fn(Parts) -> BoxFuture<'static, Response<Content>> + Send + Sync>;

/// The operator's own pages, by path prefix.
#[derive(Clone, Default)]
pub(crate) struct Router {
    pages: Vec<(String, Answer)>,
}

impl Router {
    /// Adds a page for this path and all paths below it.
    pub(crate) fn add<F, Fut, B>(&mut self, path: &str, page: F)
    where
        F: Fn(Parts) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Response<B>> + Send + 'static,
        B: Into<Content> + 'static,
    {
        let path = path.trim_end_matches('/').to_owned();
        let answer = move |head| {
            let answer = page(head);
            async move { answer.await.map(Into::into) }.boxed()
        };
        self.pages.push((path, Arc::new(answer)));
    }

    /// Returns the page with the longest prefix of the path.
    fn find(&self, path: &str) -> Option<&Answer> {
        let below = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let pages = self.pages.iter().filter(|(prefix, _)| below(prefix));
        pages.max_by_key(|(prefix, _)| prefix.len()).map(|(_, page)| page)
    }
}

/// What a secured server serves, and who may read it.
#[derive(Clone)]
pub(crate) struct Secured {
    inner: Arc<Inner>,
}

struct Inner {
    access: Access,
    shown: Shown,
    router: Router,
    endpoints: Endpoints,
}

impl Secured {
    /// Serves the pages of the router and the endpoints. `client` asks the API server who may read them.
    pub(crate) fn new(client: Client, router: Router, endpoints: Endpoints) -> Self {
        let inner = Inner { access: Access::new(client), shown: Shown::default(), router, endpoints };
        Self { inner: Arc::new(inner) }
    }

    /// The certificate that the server presents.
    pub(crate) fn shown(&self) -> Shown {
        self.inner.shown.clone()
    }

    /// Serves until told to stop.
    pub(crate) async fn serve(
        self,
        server: SecuredServer,
        env: Env,
        stop: CancellationToken,
    ) -> io::Result<()> {
        let shown = self.shown();
        let config = shown.server_config(env.clone()).map_err(io::Error::other)?;
        if server.folder.is_none() {
            show_own(&shown, &env).map_err(io::Error::other)?;
        }
        let listener = server.listen.begin().await?;
        tracing::info!(address = %listener.local_addr()?, "serving metrics over TLS");
        let answer = move |request: Request<Incoming>| {
            let secured = self.clone();
            async move { secured.answer(request.into_parts().0).await }
        };
        let serving = tls::serve(listener, config, stop.clone().cancelled_owned(), answer);
        let keeping = async {
            match server.folder {
                Some(folder) => tls::keep_folder(folder, "metrics", shown, stop).await,
                None => keep_own(&shown, &env).await,
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = serving => Ok(()),
            () = keeping => Ok(()),
        }
    }

    async fn answer(&self, head: Parts) -> Response<Content> {
        let Inner { access, router, endpoints, .. } = &*self.inner;
        if let Err(refusal) = access.check(&head).await {
            return refusal.map(Content::Whole);
        }
        match router.find(head.uri.path()) {
            Some(page) => page(head).await,
            None => endpoints.answer(head.uri.path()).map(Content::Whole),
        }
    }
}

/// Replaces the self-signed certificate before it expires.
async fn keep_own(shown: &Shown, env: &Env) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let later = env.now().saturating_add(RENEW_BEFORE).unwrap_or(env.now());
        if shown.check(later).is_err()
            && let Err(error) = show_own(shown, env)
        {
            tracing::warn!(error, "cannot renew the certificate of the metrics");
        }
    }
}

/// Makes a new self-signed certificate and presents it from now on.
fn show_own(shown: &Shown, env: &Env) -> Result<(), crate::error::BoxError> {
    let validity = tls::Validity::from(env.now(), EARLY, VALID);
    let issued = tls::issue(("metrics", "metrics CA"), &["localhost".to_owned()], validity)?;
    shown.show(tls::Identity::from_pem(issued.certificate.as_bytes(), issued.key.as_bytes())?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[tokio::test]
    async fn a_page_has_all_paths_below_it_and_the_longest_beginning_wins() {
        let mut router = Router::default();
        let page = |text: &'static str| {
            move |_: Parts| async move { Response::new(Bytes::from_static(text.as_bytes())) }
        };
        router.add("/debug/", page("debug"));
        router.add("/debug/queues", page("queues"));
        for (path, wanted) in [
            ("/debug", Some("debug")),
            ("/debug/", Some("debug")),
            ("/debug/else", Some("debug")),
            ("/debug/queues", Some("queues")),
            ("/debug/queues/a", Some("queues")),
            ("/debug/queuesx", Some("debug")),
            ("/debugger", None),
            ("/", None),
        ] {
            let head = || Request::get(path).body(()).unwrap().into_parts().0;
            let found = match router.find(path) {
                Some(page) => match page(head()).await.into_body() {
                    Content::Whole(bytes) => Some(bytes),
                    Content::Stream(_) => None,
                },
                None => None,
            };
            assert_eq!(found.as_deref(), wanted.map(str::as_bytes), "{path}");
        }
    }
}

//! The cluster behind TLS on a port.

mod authority;
mod connection;
mod identity;
mod kubeconfig;
mod pace;
mod patience;
mod tls;
mod tokens;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, bootstrap};
use evenkeel_env::Env;
use futures::future::BoxFuture;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

pub use authority::AuthorityError;
pub(crate) use authority::{Authority, signing_key};
pub(crate) use identity::{Certificate, identify, unauthorized};
pub use tokens::{TokenFileError, Tokens};

use connection::Host;
use pace::Traffic;

/// How many connections may be open. Each costs some 50 KiB with its TLS buffers: 200 MiB at the bound, and far more
/// clients than one developer's machine has.
const MOST_CONNECTIONS: usize = 4096;
/// How long to wait after an accept that failed for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The user of the kubeconfig.
const ADMIN: (&str, &str) = ("kubernetes-admin", "system:masters");

/// Where and how a cluster is served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeOptions {
    /// The address; port 0 takes any free one. On loopback unless set.
    pub bind: SocketAddr,
    /// Who may come with a bearer token.
    pub tokens: Tokens,
    /// How long a client may take for the TLS handshake. It takes two round trips: 10 s unless set.
    pub handshake_timeout: Duration,
    /// How long a client may take for the head of a request: as long as kube-apiserver gives, 32 s, unless set.
    pub head_timeout: Duration,
    /// How long a client may take for the body of a request: the minute that kube-apiserver gives to a whole request,
    /// unless set.
    pub body_timeout: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            bind: (Ipv4Addr::LOCALHOST, 0).into(),
            tokens: Tokens::default(),
            handshake_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(32),
            body_timeout: Duration::from_secs(60),
        }
    }
}

/// A cluster could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The cluster is not in this process.
    #[error("a cluster elsewhere cannot be served from here")]
    Elsewhere,
    /// There is no certificate authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The store does not take in where the cluster is reached.
    #[error("cannot write the endpoints of the API server")]
    Advertise(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// A cluster on a port: it listens already, and serves when it is [run](Server::run).
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    host: Host,
    ending: watch::Sender<bool>,
    kubeconfig: String,
}

impl Server {
    pub(crate) async fn bind(
        server: ApiServer,
        authority: &Authority,
        env: Env,
        options: ServeOptions,
    ) -> Result<Self, ServeError> {
        let bind = |source| ServeError::Bind { address: options.bind, source };
        let listener = TcpListener::bind(options.bind).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        // An address that means all of them leads nowhere.
        if !address.ip().is_unspecified() {
            let advertised =
                bootstrap::advertise(server.store(), &address.ip().to_string(), address.port()).await;
            advertised.map_err(|error| ServeError::Advertise(Box::new(error)))?;
        }
        let tls = tls::Tls::new(authority.certificate(), &authority.server(&[address.ip()])?, env)?;
        let admin = authority.client(ADMIN.0, ADMIN.1)?;
        let kubeconfig = kubeconfig::kubeconfig(&url(address), authority.certificate(), &admin);
        let (sender, ending) = watch::channel(false);
        let tokens = Arc::new(options.tokens);
        server.trust(tokens.clone());
        let host = Host {
            server,
            tls,
            tokens,
            ending,
            handshake_timeout: options.handshake_timeout,
            head_timeout: options.head_timeout,
            body_timeout: options.body_timeout,
            traffic: Traffic::default(),
        };
        Ok(Self { listener, address, host, ending: sender, kubeconfig })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the API.
    pub fn url(&self) -> String {
        url(self.address)
    }

    /// A kubeconfig for the administrator, who is in `system:masters`.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Writes the kubeconfig to a file that only its owner can read.
    pub fn write_kubeconfig(&self, path: &Path) -> io::Result<()> {
        authority::write_private(path, &self.kubeconfig)
    }

    /// Serves until `stop` is done. Then no connection is taken any more, watches end, and requests have a moment.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let mut stop = std::pin::pin!(stop);
        loop {
            let accept = async {
                let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
                (self.listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                biased;
                () = &mut stop => break,
                Some(_) = connections.join_next() => continue,
                accepted = accept => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serving(self.host.clone(), stream, place));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.listener);
        // Open watches end with the store; then the connections have nothing left to do.
        self.host.server.store().close();
        let _ = self.ending.send(true);
        while connections.join_next().await.is_some() {}
    }
}

/// Serves one connection. Boxed here, so that the road of every request is compiled with this crate and for speed, and
/// not once more in each program that calls [`Server::run`], by the settings of that program.
fn serving(host: Host, stream: TcpStream, place: OwnedSemaphorePermit) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        host.serve(stream).await;
        drop(place);
    })
}

/// Clients cannot connect to "any address": they are given loopback.
fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
    };
    format!("https://{}", SocketAddr::new(ip, address.port()))
}

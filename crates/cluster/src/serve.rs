//! The cluster behind TLS on a port.

mod activity;
mod authority;
mod connection;
mod connection_slots;
mod connections_max;
mod identity;
mod in_flight;
mod kubeconfig;
mod socket;
mod tls;
mod tokens;
mod watch_batching;
mod watchdog;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, bootstrap};
use evenkeel_env::Env;
use futures::future::BoxFuture;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use authority::AuthorityError;
pub(crate) use authority::{Authority, signing_key};
pub(crate) use identity::{Certificate, identify, unauthorized};
pub use tokens::{TokenFileError, Tokens};

use crate::private_file::write_private;

use connection::{Host, Timeouts};
use connection_slots::{ConnectionSlot, ConnectionSlots};
use in_flight::InFlight;
use watch_batching::BusyWatches;

/// How long to wait after an accept that failed for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long all connections together have to end. Each has a moment of its own; thousands of them share a busy
/// processor, and whoever sent SIGTERM sends SIGKILL next.
const END_MAX: Duration = Duration::from_secs(3);
/// The user of the kubeconfig.
const ADMIN: (&str, &str) = ("kubernetes-admin", "system:masters");

/// Where and how a cluster is served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeOptions {
    /// The address; port 0 takes any free one. On loopback unless set.
    pub bind: SocketAddr,
    /// The users that come with a bearer token.
    pub tokens: Tokens,
    /// How many connections may be open. A quarter of them is for clients that have not said yet who they are; where
    /// all of those are taken, the oldest idle one is closed for a new one. Unless set, as many as the limit of open
    /// files allows, and 8,192 at most.
    pub connections_max: usize,
    /// How many requests that read may be in flight: as many as kube-apiserver allows, 400, unless set. One user has
    /// three quarters of them at most; one request more is refused with status 429. Members of `system:masters` are
    /// always served and not counted.
    pub reads_max: usize,
    /// How many requests that write may be in flight: as many as kube-apiserver allows, 200, unless set. One user has
    /// three quarters of them at most, as of those that read.
    pub writes_max: usize,
    /// How many watches may be open: 32,768 unless set, of which one user has three quarters at most. An open watch
    /// that is quiet takes some 10 KiB, so that all of them take 320 MiB.
    pub watches_max: usize,
    /// How long a client may take for the TLS handshake. It takes two round trips: 10 s unless set.
    pub handshake_timeout: Duration,
    /// How long a client may take for its first request, and for the head of any: as long as kube-apiserver gives,
    /// 32 s, unless set.
    pub head_timeout: Duration,
    /// How long a connection without an open request is kept: as long as kube-apiserver keeps it, 90 s, unless set.
    pub idle_timeout: Duration,
    /// How long a client may leave what was sent to it unread until its connection is cut: the minute that
    /// kube-apiserver gives to a whole request, unless set.
    pub unread_timeout: Duration,
    /// How long a client may take for the body of a request: the minute that kube-apiserver gives to a whole request,
    /// unless set.
    pub body_timeout: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            bind: (Ipv4Addr::LOCALHOST, 0).into(),
            tokens: Tokens::default(),
            connections_max: connections_max::connections_max(),
            reads_max: 400,
            writes_max: 200,
            watches_max: 32_768,
            handshake_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(32),
            idle_timeout: Duration::from_secs(90),
            unread_timeout: Duration::from_secs(60),
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
    /// The API server is not in this process.
    #[error("a remote cluster cannot be served by this process")]
    Remote,
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
    slots: ConnectionSlots,
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
            timeouts: Timeouts {
                handshake: options.handshake_timeout,
                head: options.head_timeout,
                idle: options.idle_timeout,
                body: options.body_timeout,
                unread: options.unread_timeout,
            },
            busy_watches: BusyWatches::default(),
            in_flight: InFlight::new(options.reads_max, options.writes_max, options.watches_max),
        };
        let slots = ConnectionSlots::new(options.connections_max);
        Ok(Self { listener, address, host, slots, ending: sender, kubeconfig })
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
        write_private(path, &self.kubeconfig)
    }

    /// Serves until `stop` is done. Then no connection is taken any more, watches end, and requests have a moment.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                Some(_) = connections.join_next() => continue,
                accepted = self.accept() => accepted,
            };
            if let Some(stream) = accepted {
                connections.spawn(serving(self.host.clone(), stream, self.slots.take()));
            }
        }
        drop(self.listener);
        // Open watches end with the store; then the connections have nothing left to do.
        self.host.server.store().close();
        let _ = self.ending.send(true);
        let ended = tokio::time::timeout(END_MAX, async { while connections.join_next().await.is_some() {} });
        if ended.await.is_err() {
            tracing::warn!(connections = connections.len(), "connections are cut: they took too long to end");
        }
    }

    /// The next connection; none where it could not be taken. Out of file descriptors, a connection that is idle is
    /// closed, and the next attempt waits a little: the kernel would report the same connection again at once.
    async fn accept(&self) -> Option<TcpStream> {
        let error = match self.listener.accept().await {
            Ok((stream, _)) => return Some(stream),
            Err(error) => error,
        };
        tracing::warn!(%error, "cannot take a connection");
        // A client that was gone before its connection was taken is no reason to wait.
        if error.kind() != io::ErrorKind::ConnectionAborted {
            self.slots.make_room();
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
        None
    }
}

/// Serves one connection. Boxed here, so that the road of every request is compiled with this crate and for speed, and
/// not once more in each program that calls [`Server::run`], by the settings of that program.
fn serving(host: Host, stream: TcpStream, slot: ConnectionSlot) -> BoxFuture<'static, ()> {
    Box::pin(host.serve(stream, slot))
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

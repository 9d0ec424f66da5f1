//! Serves the cluster over TLS on a port.

mod activity;
mod authority;
mod connection;
mod connection_slots;
mod connections_max;
mod identity;
mod in_flight;
mod kubeconfig;
mod served;
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
pub(crate) use authority::{Authority, ClusterSigner, signing_key};
pub use evenkeel_apiserver::describe_types;
pub(crate) use identity::{Certificate, identify, unauthorized};
pub(crate) use served::{Observer, Served};
pub use tokens::{TokenFileError, Tokens};

use crate::private_file::write_private;

use connection::{Host, Timeouts};
use connection_slots::{ConnectionSlot, ConnectionSlots};
use in_flight::InFlight;
use watch_batching::BusyWatches;

/// How long to wait after an `accept` that failed because there are no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long the shutdown of all connections together may take. Thousands of connections share a processor, and a
/// SIGTERM is usually followed by a SIGKILL.
const END_MAX: Duration = Duration::from_secs(3);
/// User and group of the kubeconfig.
const ADMIN: (&str, &str) = ("kubernetes-admin", "system:masters");

/// How a cluster is served: address, tokens, limits and timeouts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeOptions {
    /// The address to listen on. Port 0 takes any free port. A free port on 127.0.0.1 unless set.
    pub bind: SocketAddr,
    /// The users of static bearer tokens. None unless set.
    pub tokens: Tokens,
    /// How many connections may be open. A quarter of them is for clients that are not authenticated yet; if all of
    /// those are taken, the oldest idle one is closed for a new one. Unless set, as many as the limit of open files
    /// allows, and 8,192 at most.
    pub connections_max: usize,
    /// How many reads may be in flight: 400 unless set, as with kube-apiserver. A single user may have three quarters
    /// of them; further requests get status 429. Members of `system:masters` are always served and not counted.
    pub reads_max: usize,
    /// How many writes may be in flight: 200 unless set, as with kube-apiserver. A single user may have three quarters
    /// of them.
    pub writes_max: usize,
    /// How many watches may be open: 32,768 unless set. A single user may have three quarters of them. A quiet watch
    /// takes some 10 KiB, so that all of them take 320 MiB.
    pub watches_max: usize,
    /// How long the TLS handshake, which needs two round trips, may take: 10 s unless set.
    pub handshake_timeout: Duration,
    /// How long a client may take to send its first request, and the head of any request: 32 s unless set, as with
    /// kube-apiserver.
    pub head_timeout: Duration,
    /// How long a connection without an open request is kept: 90 s unless set, as with kube-apiserver.
    pub idle_timeout: Duration,
    /// How long a client may not read its response until the connection is closed: 60 s unless set, the time that
    /// kube-apiserver allows for a whole request.
    pub unread_timeout: Duration,
    /// How long a client may take to send the body of a request: 60 s unless set, the time that kube-apiserver allows
    /// for a whole request.
    pub body_timeout: Duration,
    /// Whether the requests of clients are part of the cluster's record, without their bodies. False unless set.
    pub records: bool,
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
            records: false,
        }
    }
}

/// A cluster could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The API server is not in this process.
    #[error("a remote cluster cannot be served by this process")]
    Remote,
    /// A certificate cannot be created.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The address of the API server cannot be written to the Service `default/kubernetes`.
    #[error("cannot write the endpoints of the API server")]
    Advertise(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// A cluster on a port. It listens already, and answers once it is [run](Server::run).
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
        observer: Option<Observer>,
    ) -> Result<Self, ServeError> {
        let bind = |source| ServeError::Bind { address: options.bind, source };
        let listener = TcpListener::bind(options.bind).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        // Clients cannot connect to the address that stands for all interfaces, so it is not published.
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
            observer,
        };
        let slots = ConnectionSlots::new(options.connections_max);
        Ok(Self { listener, address, host, slots, ending: sender, kubeconfig })
    }

    /// The address that the server listens on.
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

    /// Serves until `stop` completes. Then no more connections are accepted, watches end, and open requests get a short
    /// time to complete.
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
        // Closing the store ends open watches, which would keep their connections open.
        self.host.server.store().close();
        let _ = self.ending.send(true);
        let ended = tokio::time::timeout(END_MAX, async { while connections.join_next().await.is_some() {} });
        if ended.await.is_err() {
            tracing::warn!(
                connections = connections.len(),
                "closed connections that took too long to shut down"
            );
        }
    }

    /// Accepts the next connection. `None` if that failed. If there are no more file descriptors, an idle connection is
    /// closed, and the next attempt waits a little, because the kernel reports the same connection again at once.
    async fn accept(&self) -> Option<TcpStream> {
        let error = match self.listener.accept().await {
            Ok((stream, _)) => return Some(stream),
            Err(error) => error,
        };
        tracing::warn!(%error, "cannot accept a connection");
        // If the client has gone away already, there is no reason to wait.
        if error.kind() != io::ErrorKind::ConnectionAborted {
            self.slots.make_room();
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
        None
    }
}

/// Serves one connection. The future is boxed here, so that the code of the request path is compiled in this crate,
/// with its optimization settings, and not again in each program that calls [`Server::run`].
fn serving(host: Host, stream: TcpStream, slot: ConnectionSlot) -> BoxFuture<'static, ()> {
    Box::pin(host.serve(stream, slot))
}

/// The URL for clients. If the server listens on all interfaces, it names the loopback address.
fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
    };
    format!("https://{}", SocketAddr::new(ip, address.port()))
}

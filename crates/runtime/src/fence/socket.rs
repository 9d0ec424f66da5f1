//! The sockets of a leader's client: the last place where a request can be held back.
//!
//! A request is checked when it is sent. Between that check and the kernel lie the connection pool, handshakes and the
//! tasks of the connections, and the process can be frozen anywhere in between. So every write to a socket checks the
//! fence again. Reading the clock is the last step before the system call; whether the socket is ready is found out
//! earlier. A process that is frozen between these two steps does send its bytes when it continues. If another process
//! can lead by then, that is logged as an error.
//!
//! The kernel keeps delivering bytes after the process has closed the socket or died, for minutes if the network is
//! cut. Sockets are therefore closed by a reset (`SO_LINGER` of zero), which discards undelivered bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tokio::net::TcpStream;
use tower::retry::RetryLayer;
use tower::{Service, ServiceBuilder};

use super::{Fence, Fenced};
use crate::error::BoxError;

/// Makes a client like `kube` does from this configuration, with sockets that respect the fence.
///
/// A configuration with a proxy is left to `kube`, which can open tunnels. The fence is then checked when a request is
/// sent, but not at the socket.
pub(super) fn client(config: Config, fence: Fence) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }
    let mut http = HttpConnector::new();
    // The layer above, which adds TLS, handles the scheme.
    http.enforce_http(false);
    let connector = config.rustls_https_connector_with_connector(Connector { http, fence })?;
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let sending: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry())))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(sending);
    Ok(Client::new(service, config.default_namespace))
}

/// Opens sockets that respect a fence.
#[derive(Clone)]
struct Connector {
    http: HttpConnector,
    fence: Fence,
}

impl Service<Uri> for Connector {
    type Response = Socket;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Socket, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.http.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, fence) = (self.http.call(uri), self.fence.clone());
        Box::pin(async move { Ok(Socket::new(connecting.await?, fence)?) })
    }
}

/// A socket that sends only while the last renewal of the lease is fresh.
struct Socket {
    stream: TokioIo<TcpStream>,
    fence: Fence,
}

impl Socket {
    fn new(stream: TokioIo<TcpStream>, fence: Fence) -> io::Result<Self> {
        if fence.is_used() {
            stream.inner().set_zero_linger()?;
        }
        Ok(Self { stream, fence })
    }

    /// Calls `write` as soon as the socket is ready, if the fence allows it then.
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let stream = self.stream.inner();
        loop {
            ready!(stream.poll_write_ready(cx))?;
            let bounds = self.fence.bounds();
            // Nothing may come between this check and the write.
            let written = if bounds.may_send() { write(stream) } else { Err(io::Error::other(Fenced)) };
            match written {
                // The socket was no longer ready; wait until it is ready again.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(bytes) if bounds.may_be_over() => {
                    tracing::error!(
                        bytes,
                        "this process was frozen while it sent a request: another process may lead already"
                    );
                    return Poll::Ready(Ok(bytes));
                }
                written => return Poll::Ready(written),
            }
        }
    }
}

impl Connection for Socket {
    fn connected(&self) -> Connected {
        self.stream.inner().connected()
    }
}

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl Write for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;
    use crate::fence::tests::TERMS;

    /// The two ends of a connection. The first respects the fence.
    async fn pair(fence: &Fence) -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        (Socket::new(TokioIo::new(near.unwrap()), fence.clone()).unwrap(), far.unwrap().0)
    }

    async fn write(socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
        std::future::poll_fn(|cx| Pin::new(&mut *socket).poll_write(cx, bytes)).await
    }

    /// A process is frozen after the check of a request and before its bytes reach the socket.
    #[tokio::test]
    async fn nothing_leaves_while_the_lease_is_in_doubt() {
        let fence = Fence::default();
        let (mut socket, mut far) = pair(&fence).await;
        assert_eq!(write(&mut socket, b"a").await.unwrap(), 1, "nobody is elected");
        fence.renewed(Instant::now(), TERMS);
        assert_eq!(write(&mut socket, b"b").await.unwrap(), 1);
        let long_ago = Instant::now().checked_sub(TERMS.renew_deadline).unwrap();
        fence.renewed(long_ago, TERMS);
        let refused = write(&mut socket, b"c").await.unwrap_err();
        assert!(refused.get_ref().is_some_and(|error| error.is::<Fenced>()), "{refused:?}");
        fence.close();
        assert!(write(&mut socket, b"d").await.is_err());
        drop(socket);
        let mut arrived = Vec::new();
        far.read_to_end(&mut arrived).await.unwrap();
        assert_eq!(arrived, b"ab");
    }

    /// A process frozen after the last check sends its bytes at a time when another process may lead. Nothing can
    /// prevent that, but it is noticed and logged.
    #[tokio::test(start_paused = true)]
    async fn who_was_frozen_on_the_way_to_the_system_call_notices_it() {
        let fence = Fence::default();
        fence.renewed(Instant::now(), TERMS);
        let (socket, _far) = pair(&fence).await;
        let bounds = fence.bounds();
        let frozen = std::future::poll_fn(|cx| {
            socket.poll_send(cx, |stream| {
                assert!(bounds.may_send() && !bounds.may_be_over());
                let _ = tokio::time::advance(TERMS.lease_duration).now_or_never();
                stream.try_write(b"late")
            })
        });
        assert_eq!(frozen.await.unwrap(), 4);
        assert!(bounds.may_be_over());
    }

    /// When a leader ends, bytes on their way are discarded and the server learns of it at once.
    #[tokio::test]
    async fn a_leaders_socket_is_reset() {
        let fence = Fence::default();
        fence.renewed(Instant::now(), TERMS);
        let (socket, mut far) = pair(&fence).await;
        drop(socket);
        let error = far.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

        let (socket, mut far) = pair(&Fence::default()).await;
        drop(socket);
        assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0, "where nobody is elected, a socket is closed");
        far.write_all(b"late").await.unwrap();
    }
}

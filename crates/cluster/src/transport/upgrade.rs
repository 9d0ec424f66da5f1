//! Connections that a client in this process upgrades, for exec, attach and port-forward.
//!
//! A client takes the upgraded connection out of the response, where only hyper can put it. So hyper's client makes one
//! request over a connection within the process, which is answered with status 101 here, and then both ends are handed
//! over: one to the client, the other to what the API server chose to serve the connection.

use evenkeel_apiserver::Upgrade;
use evenkeel_env::Env;
use evenkeel_streams::{Pipe, duplex};
use http::{Request, Response, StatusCode, header};
use http_body_util::Empty;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::BoxError;

use super::backend::ResponseBody;

/// The station of the bytes on their way.
const STATION: &str = "streams";
const SWITCHING: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: stream\r\n\r\n";
/// The end of the head of a request.
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// Serves the upgraded connection of an answer, and puts the client's end of it into the answer. Any other answer, and
/// that of a remote cluster, is left as it is.
pub(super) async fn connect(env: &Env, answer: &mut Response<ResponseBody>) -> Result<(), BoxError> {
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(());
    }
    let Some(upgrade) = answer.extensions_mut().remove::<Upgrade>() else { return Ok(()) };
    let station = env.ledger().station(STATION);
    let (client, mut server) = duplex(Some(&station));
    let (upgraded, switched) = futures::join!(upgraded(client), switch(&mut server));
    let upgraded = upgraded?;
    switched?;
    if let Some(served) = upgrade.serve(Box::new(server), Some(station)) {
        tokio::spawn(served);
    }
    answer.extensions_mut().insert(upgraded);
    Ok(())
}

/// Lets hyper make a request that is answered with status 101.
async fn upgraded(client: Pipe) -> Result<OnUpgrade, BoxError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client)).await?;
    // This task ends when the connection is handed over, or dropped.
    tokio::spawn(connection.with_upgrades());
    let request = Request::get("/")
        .header(header::HOST, "localhost")
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, "stream");
    let mut response = sender.send_request(request.body(Empty::<bytes::Bytes>::new())?).await?;
    Ok(hyper::upgrade::on(&mut response))
}

async fn switch(server: &mut Pipe) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(END_OF_HEAD) {
        if server.read_buf(&mut head).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    server.write_all(SWITCHING).await
}

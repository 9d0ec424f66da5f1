//! The server over a socket, in virtual time.

use std::future::Future;

use evenkeel_cluster::Cluster;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

struct Served {
    cluster: Cluster,
    shared: Arc<Shared>,
}

async fn served() -> Served {
    let cluster = Cluster::builder().seed(1).controllers(false).start().await.unwrap();
    let address = "127.0.0.1:0".parse().unwrap();
    let dashboard = Dashboard::bind(address, Source::Cluster(cluster.clone())).await.unwrap();
    let shared = dashboard.shared.clone();
    tokio::spawn(dashboard.run());
    Served { cluster, shared }
}

impl Served {
    /// Sends the head of a request, and the beginning of a body of this length.
    async fn begin(&self, line: &str, cookie: &str, length: usize, body: &str) -> TcpStream {
        let address = self.shared.address;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "{line} HTTP/1.1\r\nHost: {address}\r\nx-evenkeel-page: 1\r\nCookie: {cookie}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// The whole answer to a request.
    async fn ask(&self, line: &str, cookie: &str, body: &str) -> String {
        let mut stream = self.begin(line, cookie, body.len(), body).await;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Logs in by a one-time link. Returns the cookie.
    async fn log_in(&self) -> String {
        let code = self.shared.sessions.code();
        let answer = self.ask("POST /login", "", &json!({ "code": code }).to_string()).await;
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }
}

/// How long something takes in virtual time.
async fn time<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let begun = Instant::now();
    let done = work.await;
    (begun.elapsed(), done)
}

/// A logout ended the session, and not what it had begun: whoever had opened the stream of the record or a watch went on
/// reading for hours.
#[tokio::test(start_paused = true)]
async fn streams_and_watches_end_with_their_session() {
    let served = served().await;
    for line in ["GET /record/stream", "GET /k8s/api/v1/namespaces?watch=1"] {
        let cookie = served.log_in().await;
        let mut stream = served.begin(line, &cookie, 0, "").await;
        let mut read = vec![0; 12];
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(read, b"HTTP/1.1 200", "{line}");
        let by_itself = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut read)).await;
        assert!(by_itself.is_err(), "{line}: {}", String::from_utf8_lossy(&read));
        assert!(served.ask("POST /logout", &cookie, "").await.starts_with("HTTP/1.1 200"), "{line}");
        let (took, _) = time(stream.read_to_end(&mut read)).await;
        // By itself a watch ends after half an hour at the earliest, and the stream after eight hours.
        assert!(took < CHECK_PERIOD * 20, "{line} went on for {took:?}");
        assert!(served.ask(line, &cookie, "").await.starts_with("HTTP/1.1 401"), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_not_waited_for() {
    let served = served().await;
    let mut stream = served.begin("POST /login", "", 100, "{").await;
    let mut answer = [0; 12];
    let (took, _) = time(stream.read_exact(&mut answer)).await;
    assert!(&answer == b"HTTP/1.1 400" && took <= BODY_TIMEOUT * 2, "{took:?}");
}

/// Everybody may send a login, without being known.
#[tokio::test(start_paused = true)]
async fn a_login_is_small() {
    let served = served().await;
    let login = |bytes: usize| json!({ "token": "x".repeat(bytes) }).to_string();
    let code = async |bytes: usize| served.ask("POST /login", "", &login(bytes)).await[9..12].to_owned();
    assert_eq!((code(10_000).await, code(LOGIN_MAX_BYTES).await), ("401".to_owned(), "400".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn silent_connections_make_room_in_time() {
    let served = served().await;
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        silent.push(TcpStream::connect(served.shared.address).await.unwrap());
    }
    let (took, answer) = time(served.ask("GET /", "", "")).await;
    assert!(answer.starts_with("HTTP/1.1 200") && took <= HEAD_TIMEOUT, "{took:?} {answer}");
    assert!(took > Duration::ZERO, "there is a limit on connections");
}

/// A user that was taken out of a group kept what the group may do, for as long as its token was good.
#[tokio::test(start_paused = true)]
async fn a_session_ends_when_its_user_leaves_a_group() {
    let served = served().await;
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "a" } });
    let path = "/api/v1/namespaces/default/serviceaccounts";
    let post = async |path: &str, body: &serde_json::Value| -> serde_json::Value {
        let request = Request::post(path).header("content-type", "application/json");
        served.cluster.client().request(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap()
    };
    post(path, &account).await;
    let made = post(&format!("{path}/a/token"), &request).await;
    let token: Arc<str> = made["status"]["token"].as_str().unwrap().into();
    let user = served.shared.source.authenticate(&token).await.unwrap();
    let mut more = user.clone();
    more.groups.push("administrators".into());
    for (user, good) in [(user, true), (more, false)] {
        let session = Session::new(user, [None, None], Some(token.clone()));
        let cookie = served.shared.sessions.begin(session.clone());
        let id = cookie.split(['=', ';']).nth(1).unwrap();
        assert!(served.shared.is_still_good(id, &session).await, "it was checked just now");
        tokio::time::advance(CHECK_PERIOD * 2).await;
        assert_eq!(served.shared.is_still_good(id, &session).await, good);
        let over = tokio::time::timeout(Duration::from_secs(1), session.over()).await;
        assert_eq!(over.is_err(), good);
    }
}

//! Fuzzes whole requests: method and path in the first line, content type in the second, the rest is the body.
//! The server must answer each, and must answer the next request as before.
#![no_main]

use std::sync::LazyLock;

use evenkeel_apiserver::{ApiServer, Options, User};
use evenkeel_env::Env;
use evenkeel_store::Store;
use http::Request;
use http_body_util::Full;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("it needs nothing from the system")
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let head = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let content_type = lines.next().unwrap_or_default();
    let body = lines.next().unwrap_or_default().to_vec();
    let Some((method, path)) = head.split_once(' ') else { return };
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let Ok(mut request) = request.body(Full::<bytes::Bytes>::new(body.into())) else { return };
    request.extensions_mut().insert(User::admin());
    RUNTIME.block_on(async {
        let env = Env::seeded(0);
        let server = ApiServer::new(Store::memory(env.clone(), Default::default()), env, Options::default());
        let _ = server.clone().oneshot(request).await;
        assert_eq!(server.panics(), 0, "a request that panics is answered, and counted");
        let mut health = Request::get("/healthz").body(Full::<bytes::Bytes>::default()).expect("it is well formed");
        health.extensions_mut().insert(User::admin());
        let answer = server.oneshot(health).await.expect("it cannot fail");
        assert_eq!(answer.status(), 200);
    });
});

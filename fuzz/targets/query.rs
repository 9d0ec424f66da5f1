//! Fuzzes query strings with every verb. The server must answer each, and must never fail with an internal
//! error.
//!
//! A 500 without a reason is not such an error: it is Kubernetes' response to a resourceVersion that is not a
//! number.
#![no_main]

use evenkeel_fuzz::run;

/// Escapes the bytes that HTTP does not allow in a query.
fn escaped(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'<' | b'>' | b'"' | b'`' | b'{' | b'}');
    bytes.iter().map(|&byte| if plain(byte) { char::from(byte).into() } else { format!("%{byte:02X}") }).collect()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let query = escaped(bytes);
    run(|api| async move {
        let maps = "/api/v1/namespaces/a/configmaps";
        let object = br#"{"metadata":{"name":"d"}}"#;
        let apply = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}"#;
        for (method, path, content_type, body) in [
            ("GET", maps.to_owned(), "", b"".as_slice()),
            ("GET", format!("{maps}/c"), "", b""),
            ("GET", "/apis/x.io/v1/trees".to_owned(), "", b""),
            ("POST", maps.to_owned(), "application/json", object),
            ("PUT", format!("{maps}/d"), "application/json", object),
            ("PATCH", format!("{maps}/d"), "application/merge-patch+json", b"{}"),
            ("PATCH", format!("{maps}/c"), "application/apply-patch+yaml", apply),
            ("DELETE", format!("{maps}/d"), "", b""),
            ("DELETE", maps.to_owned(), "", b""),
        ] {
            let answer = api.send(method, &format!("{path}?{query}"), content_type, body).await;
            let Some(answer) = answer else { return };
            let status = answer.json().and_then(Result::ok).unwrap_or_default();
            let is_own_fault = answer.status >= 500 && answer.status != 504 && !status["reason"].is_null();
            assert!(!is_own_fault, "{method} {path}: {} {status}", answer.status);
        }
        api.check_alive().await;
    });
});

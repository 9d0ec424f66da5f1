//! Fuzzes sequences of requests, separated by zero bytes: method and path in the first line, content type in
//! the second, the rest is the body. After each successful write, the object and its list are read back and
//! parsed, and the server still answers.
#![no_main]

use evenkeel_fuzz::{Api, Answer, run};

/// How many requests of an input are sent. More would make an input slow without reaching more code.
const REQUESTS_MAX: usize = 16;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    run(|api| async move {
        for request in bytes.split(|byte| *byte == 0).take(REQUESTS_MAX) {
            let mut lines = request.splitn(3, |byte| *byte == b'\n');
            let head = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
            let content_type = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
            let body = lines.next().unwrap_or_default();
            let Some((method, uri)) = head.split_once(' ') else { continue };
            let Some(answer) = api.send(method, uri, &content_type, body).await else { continue };
            if matches!(method, "POST" | "PUT" | "PATCH") && matches!(answer.status, 200 | 201) {
                read_back(&api, method, uri, &answer).await;
            }
        }
        api.check_alive().await;
    });
});

/// Reads the object in the response to a write, and the list that contains it.
async fn read_back(api: &Api, method: &str, uri: &str, answer: &Answer) {
    let Some(written) = answer.json() else { return };
    let written = written.expect("what a write answers is JSON");
    let path = uri.split('?').next().unwrap_or_default();
    let name = written["metadata"]["name"].as_str().unwrap_or_default();
    let (object, list) = match method {
        "POST" => (format!("{path}/{name}"), path.to_owned()),
        _ => (path.to_owned(), path.rsplit_once('/').map_or(path, |(list, _)| list).to_owned()),
    };
    for path in [object, list] {
        let Some(read) = api.send("GET", &path, "", b"").await else { continue };
        if read.status == 200
            && let Some(parsed) = read.json()
        {
            parsed.unwrap_or_else(|error| panic!("{path} is answered with something else than JSON: {error}"));
        }
        assert!(read.status != 500, "{path}: {:?}", read.body);
    }
}

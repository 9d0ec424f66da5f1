//! Tables of requests with the responses that Kubernetes v1.36.4 gave, replayed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{Api, Watch};

/// How many differences a failed test shows.
const SHOWN: usize = 40;

/// The state before the requests of the access table are sent.
#[derive(Deserialize)]
struct World {
    /// The users who send each request.
    users: Vec<String>,
    /// The objects to create, each with the path to which it is posted.
    setup: Vec<(String, Value)>,
    /// The media type and body for each method that has one.
    bodies: BTreeMap<String, (String, Value)>,
}

/// A row of the access table.
struct Row<'a> {
    method: &'a str,
    path: &'a str,
    /// The users who are allowed.
    allowed: &'a str,
    /// The code and reason that an administrator gets; a `*` matches any text.
    served: &'a str,
    /// The message that a user without permissions gets.
    denial: &'a str,
}

impl<'a> Row<'a> {
    fn read(line: &'a str) -> Self {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_default();
        Self { method: next(), path: next(), allowed: next(), served: next(), denial: next() }
    }
}

/// All combinations of verbs, forms of paths, selectors and roles. Authorization and routing must agree with
/// each other, and with Kubernetes, on what a request addresses.
#[tokio::test(start_paused = true)]
async fn access_is_granted_as_kubernetes_grants_it() {
    let world: World = serde_json::from_str(include_str!("../matrix/access.json")).unwrap();
    let api = Api::booted().await;
    for (path, object) in &world.setup {
        let made = api.post(path, object.clone()).await;
        assert_eq!(made.status, 201, "{path}: {made:?}");
    }
    let mut differences = Vec::new();
    let mut rows = 0;
    for line in include_str!("../matrix/access.tsv").lines().filter(|line| !line.starts_with('#')) {
        let row = Row::read(line);
        let got = answer(&api, &world, &row).await;
        let want = [row.allowed, row.served, row.denial];
        if got[0] != row.allowed || !fits(row.served, &got[1]) || got[2] != row.denial {
            differences.push(format!("{} {}\n   want {want:?}\n    got {got:?}", row.method, row.path));
        }
        rows += 1;
    }
    let shown = differences[..differences.len().min(SHOWN)].join("\n");
    assert!(differences.is_empty(), "{} of {rows} differ\n{shown}", differences.len());
    assert_eq!(api.server().panics(), 0);
}

/// The columns of a row as this server fills them.
async fn answer(api: &Api, world: &World, row: &Row<'_>) -> [String; 3] {
    let mark = if row.path.contains('?') { '&' } else { '?' };
    let path = format!("{}{mark}dryRun=All", row.path);
    let (media, body) = match world.bodies.get(row.method) {
        Some((media, body)) => (media.as_str(), body.to_string().into_bytes()),
        None => ("application/json", Vec::new()),
    };
    let (mut allowed, mut denial) = (Vec::new(), String::new());
    for user in &world.users {
        let headers = [("content-type", media), ("impersonate-user", user)];
        let response = api.send(row.method, &path, &headers, body.clone()).await;
        if response.status() != 403 {
            allowed.push(user.as_str());
        } else if user == "nobody" {
            let status = read(response);
            denial = status["message"].as_str().unwrap_or_default().to_owned();
        }
    }
    let allowed = match allowed.len() {
        0 => "-".to_owned(),
        all if all == world.users.len() => "*".to_owned(),
        _ => allowed.join(","),
    };
    let response = api.send(row.method, &path, &[("content-type", media)], body).await;
    let code = response.status().as_u16();
    let status = read(response);
    let reason = status["reason"].as_str().unwrap_or_default();
    [allowed, format!("{code} {reason}").trim().to_owned(), denial]
}

/// The body of a response; null for a watch and for anything that is not JSON.
fn read(response: http::Response<evenkeel_apiserver::Body>) -> Value {
    let bytes = response.into_body().whole().unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

const SECRETS: &str = "/api/v1/namespaces/o/secrets";

/// A row of the table of options. `{s}` stands for the name of a Secret that only this row uses.
struct Asked<'a> {
    method: &'a str,
    path: &'a str,
    /// The media type; empty if there is no body.
    media: &'a str,
    body: &'a str,
    /// Whether the Secret exists before the request.
    made: bool,
    /// The code and reason of the response.
    answer: &'a str,
    /// The message of an error, or the events of a watch. A `*` matches any text.
    message: &'a str,
    /// The state of the Secret afterwards: `absent`, `made`, `same` or `changed`; `-` if it does not matter.
    after: &'a str,
}

impl<'a> Asked<'a> {
    fn read(line: &'a str) -> Self {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_default();
        Self {
            method: next(),
            path: next(),
            media: next(),
            body: next(),
            made: next() == "made",
            answer: next(),
            message: next(),
            after: next(),
        }
    }
}

/// Every query option with every verb: missing, empty, malformed, repeated, extreme. What Kubernetes refuses
/// is refused and writes nothing; what Kubernetes ignores is ignored.
#[tokio::test(start_paused = true)]
async fn options_are_read_as_kubernetes_reads_them() {
    let api = Api::booted().await;
    assert_eq!(api.post("/api/v1/namespaces", json!({"metadata": {"name": "o"}})).await.status, 201);
    let account = json!({"metadata": {"name": "default"}});
    assert_eq!(api.post("/api/v1/namespaces/o/serviceaccounts", account).await.status, 201);
    let mut differences = Vec::new();
    let lines = include_str!("../matrix/options.tsv").lines().filter(|line| !line.starts_with('#'));
    let mut rows = 0;
    for (number, line) in lines.enumerate() {
        let row = Asked::read(line);
        let got = ask(&api, &row, &format!("s{number}")).await;
        let is_same = fits(row.answer, &got[0])
            && fits(row.message, &got[1])
            && (row.after == "-" || got[2] == row.after);
        if !is_same {
            let want = [row.answer, row.message, row.after];
            let body = row.body;
            differences
                .push(format!("{} {} {body}\n   want {want:?}\n    got {got:?}", row.method, row.path));
        }
        rows += 1;
    }
    let shown = differences[..differences.len().min(SHOWN)].join("\n");
    assert!(differences.is_empty(), "{} of {rows} differ\n{shown}", differences.len());
    assert_eq!(api.server().panics(), 0);
}

/// The response, its message and the state of the Secret with this name.
async fn ask(api: &Api, row: &Asked<'_>, name: &str) -> [String; 3] {
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"row": name}}});
    let before = if row.made { api.post(SECRETS, secret).await.body } else { Value::Null };
    let fill = |text: &str| text.replace("{s}", name);
    let headers = [("content-type", row.media), ("user-agent", "it/1")];
    let headers = if row.media.is_empty() { &headers[1..] } else { &headers };
    let method = if row.method == "WATCH" { "GET" } else { row.method };
    let response = api.send(method, &fill(row.path), headers, fill(row.body).into_bytes()).await;
    let code = response.status().as_u16();
    let (reason, message) = match code {
        200 if row.method == "WATCH" => (String::new(), events(Watch::of(response)).await),
        200..400 => Default::default(),
        _ => {
            let bytes = response.into_body().whole().unwrap_or_default();
            match serde_json::from_slice::<Value>(&bytes) {
                Ok(status) => (text(&status["reason"]), text(&status["message"])),
                Err(_) => (String::new(), String::from_utf8_lossy(&bytes).into_owned()),
            }
        }
    };
    let found = api.get(&format!("{SECRETS}/{name}")).await;
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let after = match found.status {
        404 => "absent",
        _ if !row.made => "made",
        _ if version(&found.body) == version(&before) => "same",
        _ => "changed",
    };
    if found.status == 200 {
        api.merge(&format!("{SECRETS}/{name}"), json!({"metadata": {"finalizers": null}})).await;
        api.delete(&format!("{SECRETS}/{name}")).await;
    }
    let message = message.replace('\n', "\\n").replace(name, "{s}");
    [format!("{code} {reason}").trim().to_owned(), message, after.to_owned()]
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The events of a watch within the time for which the recorded watches were read, and whether it ended in
/// that time.
async fn events(mut watch: Watch) -> String {
    const LISTENED: Duration = Duration::from_millis(4500);
    let mut seen = Vec::new();
    let end = tokio::time::Instant::now() + LISTENED;
    loop {
        match tokio::time::timeout_at(end, watch.next()).await {
            Err(_) => seen.push("open".to_owned()),
            Ok(Value::Null) => seen.push("end".to_owned()),
            Ok(event) if event["type"] == "ERROR" => {
                let status = &event["object"];
                let [reason, message] = ["reason", "message"].map(|it| text(&status[it]));
                seen.push(format!("ERROR {} {reason} {message}", status["code"]));
                continue;
            }
            Ok(event) => {
                seen.push(text(&event["type"]));
                continue;
            }
        }
        return seen.join(" | ");
    }
}

/// Whether a text matches a pattern in which `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    for (number, part) in parts.iter().enumerate() {
        let is_last = number + 1 == parts.len();
        let at =
            if is_last { rest.ends_with(part).then(|| rest.len() - part.len()) } else { rest.find(part) };
        let Some(at) = at else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

//! `evenkeel up --audit-log-path`: requests over HTTPS become lines in a file.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use evenkeel::k8s_openapi::ByteString;
use evenkeel::k8s_openapi::api::core::v1::Secret;
use evenkeel::kube::api::{Api, PostParams, WatchParams};
use evenkeel::kube::{Client, Config};
use serde_json::Value;
use tempfile::TempDir;

use super::up::{Up, evenkeel, refused};

/// The secret value in the bodies of these tests, as it is sent.
const HIDDEN: &str = "aGlkZGVu";

/// The files of an audit log, in a folder of their own.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new(policy: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("policy.yaml"), policy).expect("it is writable");
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("it is text").to_owned()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    fn start(&self) -> Up {
        let (policy, log) = (self.path("policy.yaml"), self.path("audit.log"));
        Up::start(&["--nodes", "0", "--audit-policy-file", &policy, "--audit-log-path", &log])
    }
}

fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("it is there");
    text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
}

/// The stages that were logged for requests of this client to this URI.
fn stages<'a>(events: &'a [Value], agent: &str, uri: &str) -> Vec<&'a str> {
    let of = |event: &&Value| {
        event["userAgent"] == agent && event["requestURI"].as_str().is_some_and(|it| it.starts_with(uri))
    };
    events.iter().filter(of).filter_map(|event| event["stage"].as_str()).collect()
}

fn secret(name: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.data = Some([("p".to_owned(), ByteString(b"hidden".to_vec()))].into());
    secret
}

/// The status of a request with or without a bearer token. The audit log identifies the client by its User-Agent.
async fn stranger(up: &Up, token: &str) -> u16 {
    let mut config = Config::new(up.url.parse().expect("it is a URL"));
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(token.to_owned().into());
    let client = Client::try_from(config).expect("it is usable");
    let request = http::Request::get("/api/v1/nodes?access_token=own-token").header("user-agent", "stranger");
    let request = request.body(evenkeel::kube::client::Body::empty()).expect("it is one");
    client.send(request).await.expect("it is answered").status().as_u16()
}

#[tokio::test]
async fn what_was_answered_is_in_the_log_when_the_process_ends() {
    let files = Files::new("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n");
    let up = files.start();
    let secrets: Api<Secret> = Api::namespaced(up.client().await, "default");
    let watch = secrets.watch(&WatchParams::default(), "0").await.expect("it is served");
    for name in ["a", "b", "c"] {
        secrets.create(&PostParams::default(), &secret(name)).await.expect("it is stored");
    }
    assert_eq!(stranger(&up, "wrong-token").await, 401);
    assert_eq!(up.end().0, 0);
    drop(watch);
    let events = events(&files.log());
    let mode = std::fs::metadata(files.log()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(files.log()).expect("it is text");
    for hidden in [HIDDEN, "wrong-token", "own-token", "Bearer"] {
        assert!(!text.contains(hidden), "{hidden} is in the log");
    }
    let created = |name: &str| {
        events.iter().any(|event| {
            event["verb"] == "create"
                && event["stage"] == "ResponseComplete"
                && event["objectRef"]["name"] == name
                && event["responseStatus"]["code"] == 201
                && event["user"]["username"] == "kubernetes-admin"
                && event["sourceIPs"] == serde_json::json!(["127.0.0.1"])
        })
    };
    assert!(["a", "b", "c"].into_iter().all(created), "{text}");
    assert_eq!(stages(&events, "stranger", "/api/v1/nodes"), ["ResponseStarted"]);
    let watched = |stage: &str| {
        let is_it = |event: &&Value| {
            event["verb"] == "watch"
                && event["user"]["username"] == "kubernetes-admin"
                && event["stage"] == stage
        };
        events.iter().filter(is_it).count()
    };
    assert_eq!(["RequestReceived", "ResponseStarted", "ResponseComplete"].map(watched), [1, 1, 1], "{text}");
}

#[test]
fn a_policy_that_cannot_be_used_stops_the_start() {
    let files = Files::new("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: All}]\n");
    let (policy, log) = (files.path("policy.yaml"), files.path("audit.log"));
    let start = |policy: &str, log: &str| {
        let args = ["--bind", "127.0.0.1:0", "--audit-policy-file", policy, "--audit-log-path", log];
        refused(evenkeel(files.folder.path(), &args))
    };
    let error = start(&policy, &log);
    assert!(
        error.contains("loading audit policy file: rules[0].level: Unsupported value: \"All\""),
        "{error}"
    );
    assert!(error.contains("policy.yaml") && error.contains("\nhint: "), "{error}");
    let error = start(&files.path("none.yaml"), &log);
    assert!(error.contains("failed to read file path") && error.contains("No such file"), "{error}");
    std::fs::write(
        files.path("good.yaml"),
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]",
    )
    .expect("it is writable");
    let error = start(&files.path("good.yaml"), files.folder.path().to_str().expect("it is text"));
    assert!(error.contains("cannot open the audit log"), "{error}");
}

#[test]
fn a_log_without_a_policy_says_that_it_stays_empty() {
    let files = Files::new("");
    let mut up = Up::start(&["--nodes", "0", "--audit-log-path", &files.path("audit.log")]);
    let mut stderr = up.child.stderr.take().expect("it is piped");
    assert_eq!(up.end().0, 0);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut said).expect("it is text");
    assert!(said.contains("no audit policy file provided, no events will be recorded"), "{said}");
    assert!(!files.log().exists());
}

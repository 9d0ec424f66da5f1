//! The printed forms of options and errors contain no tokens or keys.

use evenkeel_cluster::Cluster;
use evenkeel_cluster::serve::{ServeOptions, Tokens};
use evenkeel_runtime::{LeaderElection, Manager};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::child;

const PLANTED: &str = "planted-secret-c0ffee";

fn check(what: &str, shown: &str) {
    assert!(!shown.contains(PLANTED), "{what} shows a secret: {shown}");
    assert!(!shown.contains("PRIVATE KEY"), "{what} shows a key: {shown}");
}

/// Each form in which a value can get into a log.
macro_rules! shown {
    ($value:expr) => {
        format!("{:?} {:#?}", $value, $value)
    };
}

#[tokio::test]
async fn options_and_errors_show_no_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("it can be written");
        file
    };
    let tokens = write("tokens", &format!("{PLANTED},alice,1\n"));
    let mut options = ServeOptions::default();
    options.tokens = Tokens::read(&tokens).expect("it is well formed");
    check("options of a server", &shown!(options));
    check("tokens", &shown!(options.tokens));
    for text in
        [format!("{PLANTED},alice"), format!("\"{PLANTED},alice,1"), format!("\"{PLANTED}\"x,alice,1")]
    {
        let error = Tokens::read(&write("wrong", &text)).expect_err("it is malformed");
        check("an error of tokens", &format!("{error} {}", shown!(error)));
    }
    let not_text = folder.path().join("not-text");
    std::fs::write(&not_text, [PLANTED.as_bytes(), &[0xff, 0xfe]].concat()).expect("it can be written");
    let error = Tokens::read(&not_text).expect_err("it is no text");
    check("an error of tokens", &format!("{error} {}", shown!(error)));
}

#[tokio::test]
async fn a_damaged_key_is_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = || Cluster::builder().controllers(false).data_dir(folder.path());
    check("options of a cluster", &shown!(builder()));
    drop(
        builder().start().await.expect("it starts").serve(ServeOptions::default()).await.expect("it serves"),
    );
    let pki = folder.path().join("pki");
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----\n");
    for file in ["sa.key", "ca.key"] {
        let whole = std::fs::read(pki.join(file)).expect("it was written");
        std::fs::write(pki.join(file), &pem).expect("it can be written");
        let error = match builder().start().await {
            Err(error) => format!("{error} {}", shown!(error)),
            Ok(cluster) => match cluster.serve(ServeOptions::default()).await {
                Err(error) => format!("{error} {}", shown!(error)),
                Ok(_) => panic!("{file} is damaged"),
            },
        };
        check(file, &error);
        std::fs::write(pki.join(file), whole).expect("it can be written");
    }
}

/// What an operator is configured with: a kubeconfig with a token, a password and a key.
#[tokio::test]
async fn what_an_operator_is_configured_with_shows_no_secret() {
    let kubeconfig = |user: serde_json::Value| -> Kubeconfig {
        let value = serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": user}]});
        serde_json::from_value(value).expect("it is well formed")
    };
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----\n");
    for user in [
        serde_json::json!({"token": PLANTED}),
        serde_json::json!({"username": "u", "password": PLANTED}),
        serde_json::json!({"client-key-data": base64::Engine::encode(&base64::prelude::BASE64_STANDARD, &pem)}),
    ] {
        let kubeconfig = kubeconfig(user);
        check("a kubeconfig", &shown!(kubeconfig));
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let config = config.expect("it has a context");
        check("a configuration", &shown!(config));
        match kube::Client::try_from(config) {
            Ok(client) => {
                let election = LeaderElection::new("default", "lease").identity("me");
                check("an election", &shown!(election));
                let manager = Manager::new(client).leader_election(election);
                check("a manager", &shown!(manager));
            }
            Err(error) => check("the error of a client", &format!("{error} {}", shown!(error))),
        }
    }
}

#[test]
fn a_malformed_kubeconfig_in_the_environment_is_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubeconfig");
    let text = format!("users:\n- name: u\n  user:\n    token: {PLANTED}\n  x: ]\n");
    std::fs::write(&path, text).expect("it can be written");
    let path = path.to_str().expect("the path is text");
    let played = child::play("secrets::child_infers_a_configuration", &[("KUBECONFIG", path)]);
    assert!(played.passed, "{}", played.told);
    assert!(played.told.contains("refused: ") && played.told.contains("line "), "{}", played.told);
    check("an error", &played.told);
}

/// In a process of its own, whose environment names a malformed kubeconfig.
#[tokio::test]
async fn child_infers_a_configuration() {
    if !child::is_this() {
        return;
    }
    let error = Manager::infer().await.expect_err("the kubeconfig is malformed");
    println!("refused: {error} {} {}", shown!(error), evenkeel_runtime::error::chain(&error));
}

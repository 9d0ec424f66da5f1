//! Nothing that the binary prints or logs holds a token, a key or the data of a Secret, at any level of logs.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};

use evenkeel::k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use evenkeel::k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use evenkeel::kube::api::{Api, ListParams, PostParams};
use evenkeel::kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use evenkeel::kube::{Client, Config};
use tempfile::TempDir;

use crate::up::{Up, evenkeel, refused};

const TOKEN: &str = "planted-token-c0ffee";
const DATA: &str = "planted-data-c0ffee";

/// A server that logs everything to a file, with `TOKEN` as the token of an administrator.
fn start() -> Up {
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, format!("{TOKEN},root,1,system:masters\n")).expect("it is writable");
    let text = |path: &Path| path.to_str().expect("the path is text").to_owned();
    let (tokens, data) = (text(&tokens), text(&folder.path().join("data")));
    let args = ["--bind", "127.0.0.1:0", "--token-auth-file", &tokens, "--data-dir", &data, "--log", "trace"];
    let mut command = evenkeel(folder.path(), &args);
    command.stderr(File::create(folder.path().join("log")).expect("it is writable"));
    Up::run(folder, command)
}

/// The kubeconfig of the server, with this token in the place of a certificate.
fn with_token(up: &Up, token: &str) -> Kubeconfig {
    let mut kubeconfig = Kubeconfig::read_from(up.folder.path().join("kubeconfig")).expect("it was written");
    let user = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    kubeconfig.auth_infos[0].auth_info = Some(user);
    kubeconfig
}

async fn client(kubeconfig: Kubeconfig) -> Client {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("it is whole")).expect("it is usable")
}

/// Lines of the private keys below a folder: what nobody else may see.
fn key_lines(folder: &Path) -> Vec<String> {
    let pki = folder.join("data").join("pki");
    let files = std::fs::read_dir(pki).expect("it was made").map(|file| file.expect("it is listed").path());
    let keys = files.filter(|path| path.extension().is_some_and(|it| it == "key"));
    let lines = keys.map(|path| std::fs::read_to_string(path).expect("it is readable"));
    lines.filter_map(|text| text.lines().max_by_key(|line| line.len()).map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_logs_everything_logs_no_secret() {
    let up = start();
    let client = client(with_token(&up, TOKEN)).await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let mut secret = Secret::default();
    secret.metadata.name = Some("planted".to_owned());
    secret.string_data = Some([("k".to_owned(), DATA.to_owned())].into());
    secrets.create(&PostParams::default(), &secret).await.expect("it is stored");
    secrets.list(&ListParams::default()).await.expect("they are listed");
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("robot".to_owned());
    accounts.create(&PostParams::default(), &account).await.expect("it is stored");
    let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let made = accounts.create_token_request("robot", &PostParams::default(), &request).await;
    let made = made.expect("it is signed").status.and_then(|status| status.token).expect("it has a token");
    let robot = self::client(with_token(&up, &made)).await;
    robot.apiserver_version().await.expect("the token is good");
    let keys = key_lines(up.folder.path());
    assert_eq!(keys.len(), 2, "that of the authority and that of service accounts");

    let (code, _, folder): (i32, _, TempDir) = up.end();
    assert_eq!(code, 0);
    let log = std::fs::read_to_string(folder.path().join("log")).expect("it is text");
    assert!(log.contains("TRACE") && log.contains("DEBUG"), "everything is logged: {} bytes", log.len());
    let in_base64 = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, DATA);
    for planted in [TOKEN, DATA, &in_base64, &made].into_iter().chain(keys.iter().map(String::as_str)) {
        let line = log.lines().find(|line| line.contains(planted));
        assert_eq!(line, None, "the log shows {planted}");
    }
}

/// What `evenkeel snapshot save` prints and logs with this kubeconfig, which an option or the environment names.
fn saved(kubeconfig: &Path, by_environment: bool) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["--log", "trace", "snapshot", "save"]).arg(kubeconfig.with_extension("snap"));
    match by_environment {
        true => command.env("KUBECONFIG", kubeconfig),
        false => command.arg("--kubeconfig").arg(kubeconfig),
    };
    let Output { status, stdout, stderr } = command.output().expect("the binary runs");
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_no_token_that_is_good_wrong_or_in_a_malformed_kubeconfig() {
    let up = start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubeconfig");
    let good = serde_json::to_string(&with_token(&up, TOKEN)).expect("it is JSON");
    let wrong = serde_json::to_string(&with_token(&up, &format!("{TOKEN}-wrong"))).expect("it is JSON");
    let malformed = [
        format!("users:\n- name: u\n  user:\n    token: {TOKEN}\n  x: ]\n"),
        format!("users:\n- name: u\n  user: {TOKEN}\n"),
    ];
    for (text, works) in [(good, true), (wrong, false)].into_iter().chain(malformed.map(|it| (it, false))) {
        std::fs::write(&path, text).expect("it is writable");
        for by_environment in [false, true] {
            let (has_worked, shown) = saved(&path, by_environment);
            assert_eq!(has_worked, works, "{shown}");
            assert!(!shown.is_empty() && !shown.contains(TOKEN), "{shown}");
        }
    }
}

#[test]
fn a_malformed_token_file_is_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = folder.path().join("tokens.csv");
    let path = tokens.to_str().expect("the path is text");
    for text in [format!("{TOKEN},alice\n"), format!("\"{TOKEN},alice,1\n"), format!("\"{TOKEN}\"x,a,1\n")] {
        std::fs::write(&tokens, text).expect("it is writable");
        let args = ["--bind", "127.0.0.1:0", "--log", "trace", "--token-auth-file", path];
        let error = refused(evenkeel(folder.path(), &args));
        assert!(error.contains("line 1") && !error.contains(TOKEN), "{error}");
    }
}

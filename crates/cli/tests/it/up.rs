//! `evenkeel up`: files, signals, ports and credentials.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::api::{Api, PostParams, WatchParams};
use evenkeel::kube::config::{KubeConfigOptions, Kubeconfig};
use evenkeel::kube::{Client, Config};
use futures::TryStreamExt as _;
use tempfile::TempDir;

/// A running `evenkeel up`. Dropping it kills the process.
pub(crate) struct Up {
    pub(crate) child: Child,
    pub(crate) url: String,
    pub(crate) folder: TempDir,
}

pub(crate) fn evenkeel(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.arg("up").args(["--kubeconfig"]).arg(folder.join("kubeconfig")).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command under a limit, with the syntax of the shell's `ulimit`.
fn limited(limit: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit {limit} && exec \"$0\" \"$@\""));
    shell.arg(command.get_program()).args(command.get_args());
    shell.stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

impl Up {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().expect("a folder"), args)
    }

    pub(crate) fn start_in(folder: TempDir, args: &[&str]) -> Self {
        let any_port: &[&str] = if args.contains(&"--bind") { &[] } else { &["--bind", "127.0.0.1:0"] };
        let command = evenkeel(folder.path(), &[any_port, args].concat());
        Self::run(folder, command)
    }

    fn start_limited(limit: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let command = limited(limit, &evenkeel(folder.path(), &["--bind", "127.0.0.1:0"]));
        Self::run(folder, command)
    }

    pub(crate) fn run(folder: TempDir, mut command: Command) -> Self {
        let mut child = command.spawn().expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("it is piped")).read_line(&mut line).expect("it is text");
        let Some(url) = line.trim().strip_prefix("ready: ") else {
            let mut error = String::new();
            let _ = child.stderr.take().expect("it is piped").read_to_string(&mut error);
            panic!("not ready: {line}{error}");
        };
        Self { url: url.to_owned(), child, folder }
    }

    pub(crate) async fn client(&self) -> Client {
        let kubeconfig =
            Kubeconfig::read_from(self.folder.path().join("kubeconfig")).expect("it was written");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.expect("it is whole")).expect("it is usable")
    }

    /// Sends SIGTERM, and waits for the end of the process.
    pub(crate) fn end(mut self) -> (i32, Duration, TempDir) {
        #[expect(clippy::disallowed_methods, reason = "it is real time that is measured")]
        let before = std::time::Instant::now();
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().expect("there is kill");
        let status = self.child.wait().expect("it is our child");
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().expect("a folder"));
        (status.code().unwrap_or(-1), before.elapsed(), folder)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn refused(mut command: Command) -> String {
    let Output { status, stderr, .. } = command.output().expect("the binary runs");
    assert_eq!(status.code(), Some(1));
    String::from_utf8(stderr).expect("errors are text")
}

fn config_map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

#[tokio::test]
async fn it_serves_and_does_not_wait_for_an_open_watch_to_end() {
    let up = Up::start(&[]);
    let maps: Api<ConfigMap> = Api::namespaced(up.client().await, "default");
    let mut watch = Box::pin(maps.watch(&WatchParams::default(), "0").await.expect("it is served"));
    maps.create(&PostParams::default(), &config_map("a")).await.expect("it is stored");
    watch.try_next().await.expect("the watch lives").expect("it has an event");
    let mode =
        std::fs::metadata(up.folder.path().join("kubeconfig")).expect("it exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (code, took, _) = up.end();
    assert_eq!(code, 0);
    // The end takes milliseconds, while a watch stays open for minutes. 30 s leave room for a busy machine.
    assert!(took < Duration::from_secs(30), "{took:?}");
    while watch.try_next().await.is_ok_and(|event| event.is_some()) {}
}

#[tokio::test]
async fn a_data_directory_outlives_the_process_and_so_does_the_kubeconfig() {
    let data = tempfile::tempdir().expect("a folder");
    let dir = data.path().to_str().expect("it is text");
    let up = Up::start(&["--data-dir", dir]);
    let maps: Api<ConfigMap> = Api::namespaced(up.client().await, "default");
    maps.create(&PostParams::default(), &config_map("kept")).await.expect("it is stored");
    let port = up.url.rsplit(':').next().expect("it has a port").to_owned();
    let old = up.client().await;
    let (code, _, folder) = up.end();
    assert_eq!(code, 0);
    let bind = format!("127.0.0.1:{port}");
    let again = Up::start_in(folder, &["--data-dir", dir, "--bind", &bind]);
    assert!(again.url.ends_with(&port));
    let maps: Api<ConfigMap> = Api::namespaced(old, "default");
    maps.get("kept").await.expect("the old kubeconfig is good and the object is there");
    let key = std::fs::metadata(data.path().join("pki").join("ca.key")).expect("it exists");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_second_one_is_told_why_not() {
    let data = tempfile::tempdir().expect("a folder");
    let dir = data.path().to_str().expect("it is text");
    let up = Up::start(&["--data-dir", dir]);
    let folder = tempfile::tempdir().expect("a folder");
    let bind = up.url.strip_prefix("https://").expect("it is https").to_owned();
    let error = refused(evenkeel(folder.path(), &["--bind", &bind]));
    assert!(error.contains("cannot listen on 127.0.0.1") && error.contains("\nhint: "), "{error}");
    let error = refused(evenkeel(folder.path(), &["--bind", "127.0.0.1:0", "--data-dir", dir]));
    assert!(error.contains("in use by another process") && error.contains("\nhint: "), "{error}");
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let data = tempfile::tempdir().expect("a folder");
    std::fs::write(data.path().join("letter.txt"), "dear").expect("it is writable");
    let folder = tempfile::tempdir().expect("a folder");
    let dir = data.path().to_str().expect("it is text");
    let error = refused(evenkeel(folder.path(), &["--bind", "127.0.0.1:0", "--data-dir", dir]));
    assert!(error.contains("hint: choose an empty or new directory"), "{error}");
    let left: Vec<_> = std::fs::read_dir(data.path()).expect("it is there").collect();
    assert_eq!(left.len(), 1);
}

#[test]
fn a_kubeconfig_that_cannot_be_written_gives_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), "").expect("it is writable");
    let error = refused(evenkeel(&folder.path().join("file"), &["--bind", "127.0.0.1:0"]));
    assert!(error.starts_with("error: cannot create "), "{error}");
    assert!(error.contains("\nhint: choose a file that you can write to with --kubeconfig"), "{error}");
}

#[test]
fn a_token_file_that_is_wrong_names_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "a,alice,1\nb,bob\n").expect("it is writable");
    let path = tokens.to_str().expect("it is text");
    let error = refused(evenkeel(folder.path(), &["--bind", "127.0.0.1:0", "--token-auth-file", path]));
    assert!(error.contains("line 2") && error.contains("hint: each line is token,user,uid"), "{error}");
}

#[tokio::test]
async fn credentials_decide() {
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "good,root,1,system:masters\nweak,alice,2\n").expect("it is writable");
    let up = Up::start(&["--token-auth-file", tokens.to_str().expect("it is text")]);
    let status = async |token: Option<&str>, path: &str| {
        let mut config = Config::new(up.url.parse().expect("it is a URL"));
        config.accept_invalid_certs = true;
        config.auth_info.token = token.map(|token| token.to_owned().into());
        let client = Client::try_from(config).expect("it is usable");
        let request =
            http::Request::get(path).body(evenkeel::kube::client::Body::empty()).expect("it is one");
        client.send(request).await.expect("it is answered").status().as_u16()
    };
    assert_eq!(status(None, "/version").await, 200);
    assert_eq!(status(None, "/readyz").await, 200);
    assert_eq!(status(None, "/api/v1/namespaces").await, 403);
    assert_eq!(status(Some("wrong"), "/version").await, 401);
    assert_eq!(status(Some("weak"), "/api/v1/namespaces").await, 403);
    assert_eq!(status(Some("good"), "/api/v1/namespaces").await, 200);
}

/// Each connection is an open file, and shells set a low limit.
#[tokio::test]
async fn it_takes_as_many_files_as_it_may_and_fits_into_few() {
    let up = Up::start_limited("-Sn 64");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", up.child.id())).expect("Linux says it");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("it is limited");
    let values: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(values[0], values[1], "the soft limit is the hard one");
    // Silent clients, many more than the server can have at a time.
    let up = Up::start_limited("-n 64");
    let address = up.url.strip_prefix("https://").expect("it is https").to_owned();
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tokio::net::TcpStream::connect(&address).await.expect("it listens"));
    }
    let maps: Api<ConfigMap> = Api::namespaced(up.client().await, "default");
    maps.create(&PostParams::default(), &config_map("a")).await.expect("others are served");
    assert_eq!(up.end().0, 0);
}

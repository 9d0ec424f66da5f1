//! What answers for the simulated containers of `evenkeel up`: a program of this machine for commands, and its ports.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::str::FromStr;

use anyhow::Context as _;
use clap::Args;
use evenkeel::Cluster;
use evenkeel::cluster::{Connection, Exec, Exit, Pipe, PodRule, PodSelector};
use evenkeel::yaml;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// The exit code of a program that was ended by a signal, as a shell reports it without the signal's number.
const ENDED_BY_SIGNAL: i32 = 128;

#[derive(Debug, Args)]
pub(super) struct Handlers {
    /// Let this program answer for `kubectl exec`, `attach` and `cp`. It is a script for `sh -c`, with the command that
    /// the user runs as its arguments, and EVENKEEL_NAMESPACE, EVENKEEL_POD, EVENKEEL_CONTAINER, EVENKEEL_IMAGE,
    /// EVENKEEL_TTY (`true` or `false`) and EVENKEEL_CALL (`exec` or `attach`) in its environment. With `exec "$@"` the
    /// command runs on this machine: everybody who may exec in the cluster can then run programs as you. Without a
    /// handler, these calls are refused.
    #[arg(long, value_name = "SCRIPT")]
    exec_handler: Option<String>,
    /// Let an address of this machine answer for a port of the pods, or of those with a label, for `kubectl
    /// port-forward` and the proxies of pods and services: `8080=127.0.0.1:3000`, or `app=web@8080=127.0.0.1:3000`. May
    /// be given several times. Without a handler, these calls are refused.
    #[arg(long, value_name = "[LABEL=VALUE@]PORT=ADDR:PORT")]
    port_handler: Vec<PortHandler>,
    /// Read from this YAML file what the containers of some pods do: rules such as `{image: "web:*-rc*", does: {pull:
    /// fail}}`, alone, in a list, or one in each document. A rule has the conditions `image`, `labels`, `namespace` and
    /// `container`. The words of `does` are those of the annotations `node.evenkeel.dev/WORD`, which precede rules.
    #[arg(long, value_name = "FILE")]
    pod_rules: Option<PathBuf>,
}

/// A port of some pods, and the address that answers for it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PortHandler {
    label: Option<(String, String)>,
    port: u16,
    address: SocketAddr,
}

impl FromStr for PortHandler {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed =
            |what: &str| format!("{what} in `{text}`: write PORT=ADDR:PORT or LABEL=VALUE@PORT=ADDR:PORT");
        let (label, rest) = match text.split_once('@') {
            Some((label, rest)) => {
                let (key, value) =
                    label.split_once('=').ok_or_else(|| malformed("the label has no value"))?;
                (Some((key.to_owned(), value.to_owned())), rest)
            }
            None => (None, text),
        };
        let (port, address) = rest.split_once('=').ok_or_else(|| malformed("there is no address"))?;
        let port = port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| malformed("the port is not a number from 1 to 65535"))?;
        let address =
            address.parse().map_err(|_| malformed("the address is not an IP address with a port"))?;
        Ok(Self { label, port, address })
    }
}

impl Handlers {
    /// Lets the cluster use the handlers and the rules.
    pub(super) fn install(&self, cluster: &Cluster) -> anyhow::Result<()> {
        if let Some(path) = &self.pod_rules {
            let read = || rules(&std::fs::read_to_string(path)?);
            let rules = read().with_context(|| format!("cannot read the rules in {}", path.display()))?;
            rules.into_iter().for_each(|rule| cluster.tell_pods(rule));
        }
        if let Some(script) = &self.exec_handler {
            let handler = |call: &'static str| {
                let script = script.clone();
                move |exec| run(script.clone(), call, exec)
            };
            cluster.on_exec(PodSelector::all(), handler("exec"));
            cluster.on_attach(PodSelector::all(), handler("attach"));
        }
        for PortHandler { label, port, address } in self.port_handler.clone() {
            let selector = match label {
                Some((key, value)) => PodSelector::all().label(key, value),
                None => PodSelector::all(),
            };
            cluster.connect_pods(selector, Some(port), move |_| connect(address));
        }
        Ok(())
    }
}

/// Reads rules for what containers do.
fn rules(text: &str) -> anyhow::Result<Vec<PodRule>> {
    let documents = yaml::values(text)?.into_iter();
    let all = documents.flat_map(|document| match document {
        Value::Array(rules) => rules,
        rule => vec![rule],
    });
    all.map(|rule| Ok(PodRule::from_json(&rule)?)).collect()
}

async fn connect(address: SocketAddr) -> Result<Connection, String> {
    match TcpStream::connect(address).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(format!("cannot connect to {address}: {error}")),
    }
}

/// Runs the script for one call. The program ends when the client goes away.
async fn run(script: String, call: &'static str, mut exec: Exec) -> Exit {
    let (stdin, stdout, stderr) = (exec.stdin.take(), exec.stdout.take(), exec.stderr.take());
    let stream = |wanted: bool| if wanted { Stdio::piped() } else { Stdio::null() };
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(script)
        .arg("exec-handler")
        .args(&exec.command)
        .env("EVENKEEL_NAMESPACE", &exec.namespace)
        .env("EVENKEEL_POD", &exec.pod)
        .env("EVENKEEL_CONTAINER", &exec.container)
        .env("EVENKEEL_IMAGE", &exec.image)
        .env("EVENKEEL_TTY", exec.tty.to_string())
        .env("EVENKEEL_CALL", call)
        .stdin(stream(stdin.is_some()))
        .stdout(stream(stdout.is_some()))
        .stderr(stream(stderr.is_some() || exec.tty && stdout.is_some()))
        .kill_on_drop(true);
    match command.spawn() {
        Ok(child) => carry(child, exec.tty, stdin, stdout, stderr).await,
        Err(error) => Exit::not_run(format!("cannot run sh: {error}")),
    }
}

/// Carries the streams of a program until it ends.
async fn carry(
    mut child: Child,
    tty: bool,
    stdin: Option<Pipe>,
    stdout: Option<Pipe>,
    stderr: Option<Pipe>,
) -> Exit {
    let typed = copy(stdin, child.stdin.take());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let printed = async {
        match stdout {
            // With a terminal, errors are a part of the output.
            Some(stdout) if tty => merge(out, err, stdout).await,
            stdout => {
                tokio::join!(copy(out, stdout), copy(err, stderr));
            }
        }
    };
    let ended = async { tokio::join!(child.wait(), printed).0 };
    let never_ends = async {
        typed.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = ended => match ended {
            Ok(status) => status.code().unwrap_or(ENDED_BY_SIGNAL).into(),
            Err(error) => Exit::not_run(error.to_string()),
        },
        () = never_ends => ENDED_BY_SIGNAL.into(),
    }
}

async fn copy(from: Option<impl AsyncRead + Unpin>, to: Option<impl AsyncWrite + Unpin>) {
    if let (Some(mut from), Some(mut to)) = (from, to) {
        // An error means that one side has closed this stream. The program may go on without it.
        let _ = tokio::io::copy(&mut from, &mut to).await;
        let _ = to.shutdown().await;
    }
}

/// Carries two streams into one.
async fn merge(out: Option<impl AsyncRead + Unpin>, err: Option<impl AsyncRead + Unpin>, to: Pipe) {
    let to = tokio::sync::Mutex::new(to);
    tokio::join!(copy_shared(out, &to), copy_shared(err, &to));
}

async fn copy_shared(from: Option<impl AsyncRead + Unpin>, to: &tokio::sync::Mutex<Pipe>) {
    use tokio::io::AsyncReadExt as _;

    let Some(mut from) = from else { return };
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if to.lock().await.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_alone_in_lists_and_in_documents() {
        let text = "[{image: a, does: {pull: fail}}, {labels: {app: x}, does: {exit-code: 1}}]\n---\nimage: b\ndoes: {behaviour: never-ready}\n";
        assert_eq!(rules(text).unwrap().len(), 3);
        for (text, why) in [
            ("{picture: a}", "a rule has no \"picture\", only image, labels, namespace, container and does"),
            ("{does: {pull: perhaps}}", "pull: \"perhaps\" is not ok, fail or fail:N"),
            ("just a text", "a rule is a map"),
        ] {
            assert_eq!(rules(text).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn a_port_handler_is_a_port_and_an_address() {
        let address = "127.0.0.1:3000".parse().unwrap();
        let plain = PortHandler { label: None, port: 8080, address };
        assert_eq!("8080=127.0.0.1:3000".parse(), Ok(plain.clone()));
        let labelled = PortHandler { label: Some(("app".into(), "web".into())), ..plain };
        assert_eq!("app=web@8080=127.0.0.1:3000".parse(), Ok(labelled));
        for (text, why) in [
            ("8080", "there is no address"),
            ("0=127.0.0.1:1", "the port is not a number from 1 to 65535"),
            ("x=127.0.0.1:1", "the port is not a number from 1 to 65535"),
            ("80=localhost:1", "the address is not an IP address with a port"),
            ("app@80=127.0.0.1:1", "the label has no value"),
        ] {
            let error = text.parse::<PortHandler>().unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}

//! The command line that every operator gets from `evenkeel::cli`, tested on a process of this operator.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};

/// A running operator. Dropping it kills the process.
struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_my-resource"));
        command.args(arguments).env_remove("EVENKEEL_LOG").stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let log = BufReader::new(child.stderr.take().expect("it is piped"));
        Self { child, log }
    }

    /// Reads the log until it has a line with each of these texts, in any order, and returns those lines.
    fn says<const N: usize>(&mut self, wanted: [&str; N]) -> [String; N] {
        let (mut all, mut found) = (String::new(), wanted.map(|_| String::new()));
        while found.iter().any(String::is_empty) {
            let mut line = String::new();
            if self.log.read_line(&mut line).expect("logs are text") == 0 {
                panic!("it ended without one of {wanted:?}:\n{all}");
            }
            if let Some(at) = wanted.iter().position(|wanted| line.contains(wanted)) {
                found[at].clone_from(&line);
            }
            all.push_str(&line);
        }
        found
    }

    /// Sends SIGTERM, and returns the exit code.
    fn end(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().expect("there is kill");
        // Read the rest of the log, so that a full pipe does not block the process.
        let mut rest = String::new();
        let _ = self.log.read_to_string(&mut rest);
        self.child.wait().expect("it is our child").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn output(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_my-resource"));
    let output = command.args(arguments).output().expect("the binary runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("it is text"))
}

/// Sends a GET request, and returns the whole response with its status line.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is text");
    answer
}

#[test]
fn an_elected_replica_answers_probes_and_ends_when_asked() {
    let anywhere = "127.0.0.1:0";
    let mut arguments = vec!["--embedded", "--samples", "--leader-elect"];
    arguments.extend(["--health-probe-bind-address", anywhere]);
    arguments.extend(["--metrics-bind-address", anywhere, "--metrics-secure=false"]);
    let mut operator = Running::start(&arguments);
    let [health, metrics, leading] = operator.says(["serving health", "serving metrics", "leading"]);
    let address = |line: &str| line.trim().rsplit("address=").next().expect("it says where").to_owned();
    let (address, scraped) = (address(&health), address(&metrics));
    assert!(leading.contains("lease=\"default/my-resource\""), "{leading}");
    assert!(get(&address, "/healthz").starts_with("HTTP/1.1 200 "));
    // The caches take some time to fill.
    let ready = std::iter::repeat_with(|| get(&address, "/readyz"))
        .find(|answer| answer.starts_with("HTTP/1.1 200 "));
    assert!(ready.is_some_and(|answer| answer.contains("[+]caches ok")));
    // The metric is set after the log line.
    let leads = "leader_election_master_status{name=\"my-resource\"} 1";
    let counted = std::iter::repeat_with(|| get(&scraped, "/metrics")).find(|answer| answer.contains(leads));
    assert!(counted.is_some());
    assert_eq!(operator.end(), Some(0));
}

#[test]
fn what_is_wrong_is_told() {
    let (code, told) = output(&["--metrics-bind-address", "8080"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("it must be IP:PORT, :PORT for every interface, or 0 for nowhere"), "{told}");
    let (code, told) = output(&["--leader-elect-resource-name", "x"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("--leader-elect"), "{told}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let (code, told) = output(&["--embedded", "--health-probe-bind-address", &address]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("error: run http: "), "{told}");
}

#[test]
fn that_there_is_no_cluster_is_told_once() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_my-resource"));
    let output = command.env("KUBECONFIG", "/nowhere").env_remove("KUBERNETES_SERVICE_HOST").output();
    let output = output.expect("the binary runs");
    let told = String::from_utf8(output.stderr).expect("it is text");
    assert_eq!(output.status.code(), Some(1), "{told}");
    let hint = "error: no cluster to run against (hint: set KUBECONFIG, or try --embedded): ";
    assert!(told.starts_with(hint), "{told}");
    assert_eq!(told.matches("/nowhere").count(), 1, "{told}");
}

#[test]
fn manifests_are_for_kubectl_and_name_what_they_pass() {
    let (code, yaml) = output(&["manifests", "--leader-elect", "--namespace", "operators"]);
    assert_eq!(code, Some(0), "{yaml}");
    let kinds: Vec<&str> = yaml.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
    let expected = [
        "CustomResourceDefinition",
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "ClusterRole",
        "Service",
        "Deployment",
        "PodDisruptionBudget",
        "NetworkPolicy",
    ];
    assert_eq!(kinds, expected);
    let (_, help) = output(&["--help"]);
    let flags = ["--health-probe-bind-address", "--metrics-bind-address", "--leader-elect"];
    for flag in flags.into_iter().chain(["livenessProbe", "readinessProbe"]) {
        assert!(yaml.contains(flag), "{flag} in {yaml}");
        assert!(help.contains(flag) || !flag.starts_with("--"), "{flag} in {help}");
    }
}

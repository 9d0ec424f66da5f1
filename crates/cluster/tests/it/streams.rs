//! Logs, exec, attach, port-forward and the proxies, as kube-rs and raw clients use them.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, as it should")]

mod https;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_cluster::testing::{options, run};
use evenkeel_cluster::{Behaviour, Cluster, Exec, Exit, HttpFault, PodRule, PodSelector, PortCall};
use futures::{AsyncBufReadExt as _, SinkExt as _, StreamExt as _};
use http::{Request, Response};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, AttachParams, AttachedProcess, LogParams, TerminalSize};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

/// A running pod `name` with these containers.
async fn pod(cluster: &Cluster, name: &str, containers: &[&str]) -> Api<Pod> {
    let containers: Vec<_> = containers
        .iter()
        .map(|name| json!({"name": name, "image": format!("registry.example/{name}:1")}))
        .collect();
    let pod =
        json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": containers}});
    cluster.apply::<Pod>(serde_json::from_value(pod).unwrap()).await.unwrap();
    cluster.settled().await;
    Api::default_namespaced(cluster.client())
}

fn refused<T>(result: Result<T, kube::Error>) -> (u16, String) {
    match result.err().expect("it is refused") {
        kube::Error::Api(status) => (status.code, status.message),
        other => panic!("{other}"),
    }
}

async fn read(reader: impl tokio::io::AsyncRead + Unpin) -> String {
    let (mut reader, mut text) = (reader, String::new());
    reader.read_to_string(&mut text).await.unwrap();
    text
}

/// What a process prints, what it prints as errors, and how it ends.
async fn outcome(mut process: AttachedProcess) -> (String, String, String) {
    let (stdout, stderr, status) = (process.stdout(), process.stderr(), process.take_status());
    let text = |reader| async { if let Some(reader) = reader { read(reader).await } else { String::new() } };
    let (printed, errors) = tokio::join!(text(stdout), text(stderr));
    let status = status.unwrap().await.unwrap();
    let causes = status.details.and_then(|details| details.causes).unwrap_or_default();
    let code = causes.into_iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    let code = code.and_then(|cause| cause.message);
    (printed, errors, code.unwrap_or_else(|| status.status.unwrap_or_default()))
}

#[test]
fn the_log_of_a_container_is_what_it_printed() {
    run(options(), |cluster| async move {
        cluster.tell_pods(PodRule::new(Behaviour::new().log("one\n@1s two\n@2s three")));
        let pods = pod(&cluster, "web", &["web"]).await;
        cluster.advance(Duration::from_secs(10)).await;
        let logs = |params: LogParams| {
            let pods = pods.clone();
            async move { pods.logs("web", &params).await.unwrap() }
        };
        assert_eq!(logs(LogParams::default()).await, "one\ntwo\nthree\n");
        assert_eq!(logs(LogParams { tail_lines: Some(1), ..Default::default() }).await, "three\n");
        assert_eq!(logs(LogParams { limit_bytes: Some(6), ..Default::default() }).await, "one\ntw");
        assert_eq!(logs(LogParams { since_seconds: Some(10), ..Default::default() }).await, "two\nthree\n");
        let stamped = logs(LogParams { timestamps: true, tail_lines: Some(1), ..Default::default() }).await;
        let (time, text) = stamped.split_once(' ').unwrap();
        assert_eq!((time.len(), text), ("2006-01-02T15:04:05.000000000Z".len(), "three\n"));
        cluster.pod_logs().append(
            pods.get("web").await.unwrap().metadata.uid.as_deref().unwrap(),
            "web",
            cluster.env().now(),
            "by the test",
        );
        assert!(logs(LogParams::default()).await.ends_with("three\nby the test\n"));
    });
}

#[test]
fn a_followed_log_goes_on_until_the_container_ends() {
    run(options(), |cluster| async move {
        let behaviour = Behaviour::new()
            .log("one\n@80s two")
            .exit_codes([Some(1), None])
            .run_for(Duration::from_secs(90));
        cluster.tell_pods(PodRule::new(behaviour));
        let pods = pod(&cluster, "web", &["web"]).await;
        let follow = LogParams { follow: true, ..Default::default() };
        let begin = tokio::time::Instant::now();
        let mut lines = pods.log_stream("web", &follow).await.unwrap().lines();
        assert_eq!(lines.next().await.unwrap().unwrap(), "one");
        cluster.settled().await;
        assert_eq!(lines.next().await.unwrap().unwrap(), "two");
        assert!(begin.elapsed() >= Duration::from_secs(79), "{:?}", begin.elapsed());
        assert!(lines.next().await.is_none(), "the first run has ended");
        cluster.advance(Duration::from_secs(60)).await;
        let previous = LogParams { previous: true, ..Default::default() };
        assert_eq!(pods.logs("web", &previous).await.unwrap(), "one\ntwo\n");
        let mut lines = pods.log_stream("web", &follow).await.unwrap().lines();
        assert_eq!(lines.next().await.unwrap().unwrap(), "one");
        pods.delete("web", &Default::default()).await.unwrap();
        while let Some(line) = lines.next().await {
            assert_eq!(line.unwrap(), "two");
        }
    });
}

#[test]
fn a_log_that_there_is_not_is_refused_in_the_words_of_the_kubelet() {
    run(options(), |cluster| async move {
        cluster.tell_pods(PodRule::new(Behaviour::new().never_starts()).container("late"));
        cluster.tell_pods(PodRule::new(Behaviour::new().pull_fails()).container("bad"));
        let pods = pod(&cluster, "web", &["web", "late", "bad"]).await;
        let log = |container: &str, params: LogParams| {
            let params =
                LogParams { container: (!container.is_empty()).then(|| container.to_owned()), ..params };
            let pods = pods.clone();
            async move { refused(pods.logs("web", &params).await) }
        };
        let plain = LogParams::default;
        let choose = "a container name must be specified for pod web, choose one of: [web late bad]";
        assert_eq!(log("", plain()).await, (400, choose.to_owned()));
        assert_eq!(log("x", plain()).await, (400, "container x is not valid for pod web".to_owned()));
        let waits = "container \"late\" in pod \"web\" is waiting to start: ContainerCreating";
        assert_eq!(log("late", plain()).await, (400, waits.to_owned()));
        let (code, message) = log("bad", plain()).await;
        assert!(
            code == 400 && message.starts_with("container \"bad\" in pod \"web\" is waiting to start: "),
            "{message}"
        );
        let previous = LogParams { previous: true, ..plain() };
        let none = "previous terminated container \"web\" in pod \"web\" not found";
        assert_eq!(log("web", previous).await, (400, none.to_owned()));
        let both = "/api/v1/namespaces/default/pods/web/log?container=web&sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z";
        let both = Request::get(both).body(Vec::new()).unwrap();
        let (code, message) = refused(cluster.client().request_text(both).await);
        assert!(code == 422 && message.contains("at most one of `sinceTime` or `sinceSeconds`"), "{message}");
        for (params, field) in [
            (LogParams { tail_lines: Some(-1), ..plain() }, "tailLines: Invalid value: -1"),
            (LogParams { limit_bytes: Some(0), ..plain() }, "limitBytes: Invalid value: 0"),
            (LogParams { since_seconds: Some(0), ..plain() }, "sinceSeconds: Invalid value: 0"),
        ] {
            let (code, message) = log("web", params).await;
            assert!(code == 422 && message.contains(field), "{message}");
        }
        assert_eq!(refused(pods.logs("none", &plain()).await).0, 404);
    });
}

#[test]
fn a_command_gets_its_input_and_gives_its_output_and_exit_code() {
    run(options(), |cluster| async move {
        let pods = pod(&cluster, "web", &["web", "other"]).await;
        cluster.on_exec(PodSelector::all().container("web"), |mut exec: Exec| async move {
            let typed = exec.read_stdin().await.unwrap();
            exec.print(format!("{:?} {} in {}", exec.command, exec.pod, exec.image)).await;
            exec.print_error(typed).await;
            i32::try_from(exec.command.len()).unwrap() - 1
        });
        cluster.on_exec(PodSelector::all().container("other"), |_: Exec| async {
            Exit::not_run("no such file")
        });
        let plain = || AttachParams::default().container("web");
        let process = pods.exec("web", ["ls"], &plain()).await.unwrap();
        let printed = "[\"ls\"] web in registry.example/web:1".to_owned();
        assert_eq!(outcome(process).await, (printed, String::new(), "Success".to_owned()));

        let mut process = pods.exec("web", ["a", "b", "c", "d"], &plain().stdin(true)).await.unwrap();
        let mut stdin = process.stdin().unwrap();
        stdin.write_all(b"typed").await.unwrap();
        stdin.shutdown().await.unwrap();
        let (_, errors, code) = outcome(process).await;
        assert_eq!((errors.as_str(), code.as_str()), ("typed", "3"));

        let process = pods.exec("web", ["ls"], &plain().container("other")).await.unwrap();
        assert_eq!(outcome(process).await.2, "Failure");
        cluster.settled().await;
    });
}

#[test]
fn output_is_whole_however_long_it_is() {
    run(options(), |cluster| async move {
        let pods = pod(&cluster, "web", &["web"]).await;
        // Reads and writes at the same time, as `cat` does.
        cluster.on_exec(PodSelector::all(), |mut exec: Exec| async move {
            let (mut stdin, mut stdout) = (exec.stdin.take().unwrap(), exec.stdout.take().unwrap());
            tokio::io::copy(&mut stdin, &mut stdout).await.map_or(1, |_| 0)
        });
        let mut process = pods.exec("web", ["cat"], &AttachParams::default().stdin(true)).await.unwrap();
        let mut stdin = process.stdin().unwrap();
        let long: String = (0..200_000).map(|number| format!("{number}\n")).collect();
        let typed = long.clone();
        let typing = tokio::spawn(async move {
            stdin.write_all(typed.as_bytes()).await.unwrap();
            stdin.shutdown().await.unwrap();
        });
        let (printed, _, code) = outcome(process).await;
        typing.await.unwrap();
        assert!(printed == long && code == "Success", "{} of {} bytes", printed.len(), long.len());
    });
}

#[test]
fn a_terminal_has_a_size_and_attach_reaches_what_runs() {
    run(options(), |cluster| async move {
        let pods = pod(&cluster, "web", &["web"]).await;
        cluster.on_attach(PodSelector::all(), |mut exec: Exec| async move {
            let size = exec.sizes.as_mut().unwrap().next().await.unwrap();
            exec.print(format!("{}x{}", size.width, size.height)).await;
            exec.print_error(" to the terminal").await;
        });
        let tty = AttachParams::interactive_tty();
        let mut process = pods.attach("web", &tty).await.unwrap();
        let mut sizes = process.terminal_size().unwrap();
        sizes.send(TerminalSize { width: 80, height: 24 }).await.unwrap();
        assert_eq!(
            outcome(process).await,
            ("80x24 to the terminal".to_owned(), String::new(), "Success".to_owned())
        );
    });
}

#[test]
fn what_nothing_carries_out_is_refused_at_once() {
    run(options(), |cluster| async move {
        let pods = pod(&cluster, "web", &["web"]).await;
        let begin = tokio::time::Instant::now();
        let (code, message) = refused(pods.exec("web", ["ls"], &AttachParams::default()).await);
        assert!(code == 501 && message.contains("no handler answers for it"), "{code} {message}");
        assert_eq!(refused(pods.attach("web", &AttachParams::default()).await).0, 501);
        assert_eq!(refused(pods.portforward("web", &[80]).await).0, 501);
        assert_eq!(refused(pods.exec("none", ["ls"], &AttachParams::default()).await).0, 404);
        cluster.on_exec(PodSelector::all(), |_: Exec| async {});
        let get = |path: &str| {
            Request::get(format!("/api/v1/namespaces/default/pods/web/{path}")).body(Vec::new()).unwrap()
        };
        let (code, message) = refused(cluster.client().request_text(get("exec?command=ls&stdout=1")).await);
        assert_eq!((code, message.as_str()), (400, "Upgrade request required"));
        let why = "you must specify at least 1 of stdin, stdout, stderr";
        assert_eq!(refused(cluster.client().connect(get("exec?command=ls")).await), (400, why.to_owned()));
        let (code, _) = refused(cluster.client().request_text(get("proxy/")).await);
        assert_eq!(code, 501);
        assert!(begin.elapsed() < Duration::from_secs(1), "no client retried");
    });
}

#[test]
fn a_pod_without_a_node_or_a_running_container_takes_no_command() {
    run(options().nodes(0).scheduler(false), |cluster| async move {
        let pods = pod(&cluster, "web", &["web"]).await;
        cluster.on_exec(PodSelector::all(), |_: Exec| async {});
        let why = "pod web does not have a host assigned";
        assert_eq!(refused(pods.exec("web", ["ls"], &AttachParams::default()).await), (400, why.to_owned()));
        assert_eq!(pods.logs("web", &LogParams::default()).await.unwrap(), "");
    });
    run(options(), |cluster| async move {
        cluster.tell_pods(PodRule::new(Behaviour::new().never_starts()));
        let pods = pod(&cluster, "web", &["web"]).await;
        cluster.on_exec(PodSelector::all(), |_: Exec| async {});
        let (code, message) = refused(pods.exec("web", ["ls"], &AttachParams::default()).await);
        assert!(code == 500 && message.contains("container not found (\"web\")"), "{code} {message}");
    });
}

#[test]
fn a_client_that_may_only_read_pods_runs_no_command() {
    run(options(), |cluster| async move {
        pod(&cluster, "web", &["web"]).await;
        cluster.on_exec(PodSelector::all(), |_: Exec| async {});
        let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods", "pods/exec"], "verbs": ["get"]}]});
        let role: k8s_openapi::api::rbac::v1::ClusterRole = serde_json::from_value(role).unwrap();
        let binding = json!({"metadata": {"name": "r"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}]});
        let binding: k8s_openapi::api::rbac::v1::ClusterRoleBinding =
            serde_json::from_value(binding).unwrap();
        cluster.apply(role).await.unwrap();
        cluster.apply(binding).await.unwrap();
        let eve: Api<Pod> = Api::namespaced(cluster.client_as("eve", ["system:authenticated"]), "default");
        let (code, message) = refused(eve.exec("web", ["ls"], &AttachParams::default()).await);
        assert!(code == 403 && message.contains("cannot create resource \"pods/exec\""), "{message}");
    });
}

/// Answers with the path and the pod that was reached.
async fn echo(request: Request<Bytes>) -> Response<Bytes> {
    let pod = request.extensions().get::<PortCall>().map(|call| call.pod.clone()).unwrap_or_default();
    Response::new(format!("{} {} by {pod}", request.method(), request.uri()).into())
}

#[test]
fn a_port_is_forwarded() {
    run(options(), |cluster| async move {
        let pods = pod(&cluster, "web", &["web"]).await;
        cluster.serve_pods(PodSelector::all().label("app", "web"), 8080, echo);
        let mut forwarder = pods.portforward("web", &[8080, 9090]).await.unwrap();
        let error = forwarder.take_error(9090).unwrap().await.unwrap();
        assert!(
            error.contains("error forwarding port 9090 to pod web") && error.contains("connection refused"),
            "{error}"
        );
        let mut stream = forwarder.take_stream(8080).unwrap();
        stream.write_all(b"GET /a HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n").await.unwrap();
        let answer = read(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("GET /a by web"), "{answer}");
        cluster.settled().await;
    });
}

fn service(name: &str) -> Service {
    let service = json!({"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]}});
    serde_json::from_value(service).unwrap()
}

#[test]
fn names_addresses_and_proxies_lead_to_the_application() {
    run(options(), |cluster| async move {
        let pods = pod(&cluster, "web", &["web"]).await;
        cluster.apply(service("web")).await.unwrap();
        cluster.settled().await;
        cluster.serve_pods(PodSelector::all().label("app", "web"), 8080, echo);
        let http = cluster.http("operator");
        let get = |url: String| {
            let http = http.clone();
            async move {
                let answer = http.send(Request::get(url).body(Bytes::new()).unwrap()).await;
                answer
                    .map(|answer| String::from_utf8(answer.into_body().to_vec()).unwrap())
                    .map_err(|error| error.why)
            }
        };
        let status = pods.get("web").await.unwrap().status.unwrap();
        let address = cluster.get::<Service>("web").await.unwrap().spec.unwrap().cluster_ip.unwrap();
        for host in ["web", "web.default", "web.default.svc", "web.default.svc.cluster.local:80", &address] {
            let url = format!("http://{host}/a");
            assert_eq!(get(url.clone()).await, Ok(format!("GET {url} by web")));
        }
        let url = format!("http://{}:8080/a", status.pod_ip.unwrap());
        assert_eq!(get(url.clone()).await, Ok(format!("GET {url} by web")));
        assert_eq!(get("http://none.default.svc/".into()).await, Err("no such host".into()));
        assert_eq!(get("http://web.default.svc:81/".into()).await, Err("connection refused".into()));
        for path in ["pods/web:8080/proxy/a?b=c", "services/web:80/proxy/a?b=c", "services/web/proxy/a?b=c"] {
            let request =
                Request::get(format!("/api/v1/namespaces/default/{path}")).body(Vec::new()).unwrap();
            assert_eq!(cluster.client().request_text(request).await.unwrap(), "GET /a?b=c by web", "{path}");
        }
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(cluster.client());
        let name = nodes.list(&Default::default()).await.unwrap().items[0].metadata.name.clone().unwrap();
        let healthz = Request::get(format!("/api/v1/nodes/{name}/proxy/healthz")).body(Vec::new()).unwrap();
        assert_eq!(cluster.client().request_text(healthz).await.unwrap(), "ok");
        pods.delete("web", &Default::default()).await.unwrap();
        cluster.settled().await;
        assert_eq!(
            get("http://web.default.svc/".into()).await,
            Err("connection refused".into()),
            "nothing is ready"
        );
    });
}

/// An operator serves its record over TLS with a certificate of its own, and the record grows for as long as it is read.
#[test]
fn a_proxy_speaks_tls_and_passes_on_what_grows() {
    run(options(), |cluster| async move {
        pod(&cluster, "web", &["web"]).await;
        let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [
            {"name": "https", "port": 443, "targetPort": 8443},
        ]}});
        cluster.apply::<Service>(serde_json::from_value(service).unwrap()).await.unwrap();
        cluster.settled().await;
        let more = Arc::new(tokio::sync::Notify::new());
        let (config, may_go_on) = (Arc::new(anybodys_certificate()), more.clone());
        cluster.connect_pods(PodSelector::all(), Some(8443), move |_| {
            let (near, far) = tokio::io::duplex(64 << 10);
            let (acceptor, may_go_on) = (TlsAcceptor::from(config.clone()), may_go_on.clone());
            tokio::spawn(async move {
                // A client that does not speak TLS gets no answer.
                let Ok(mut tls) = acceptor.accept(far).await else { return };
                let mut head = [0; 4096];
                let length = tls.read(&mut head).await.unwrap();
                let asked = String::from_utf8_lossy(&head[..length]).lines().next().unwrap().to_owned();
                let begin = format!(
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{asked}\n\r\n",
                    asked.len() + 1
                );
                tls.write_all(begin.as_bytes()).await.unwrap();
                tls.flush().await.unwrap();
                may_go_on.notified().await;
                tls.write_all(b"5\r\nmore\n\r\n0\r\n\r\n").await.unwrap();
                tls.flush().await.unwrap();
            });
            async move { Ok(Box::new(near) as _) }
        });
        for place in ["pods/https:web:8443", "services/https:web:443", "services/https:web:https"] {
            let path = format!("/api/v1/namespaces/default/{place}/proxy/stream");
            let request = Request::get(path).body(Vec::new()).unwrap();
            let mut lines = cluster.client().request_stream(request).await.unwrap().lines();
            assert_eq!(lines.next().await.unwrap().unwrap(), "GET /stream HTTP/1.1", "{place}");
            more.notify_one();
            assert_eq!(lines.next().await.unwrap().unwrap(), "more", "{place}");
            assert!(lines.next().await.is_none(), "{place}");
        }
        let plain =
            Request::get("/api/v1/namespaces/default/services/web:443/proxy/").body(Vec::new()).unwrap();
        let (code, why) = refused(cluster.client().request_text(plain).await);
        assert!(code == 503 && why.contains("error trying to reach service"), "{code} {why}");
    });
}

/// A TLS server with a certificate that no authority has signed.
fn anybodys_certificate() -> rustls::ServerConfig {
    let made = rcgen::generate_simple_self_signed(["operator".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap()
}

#[test]
fn requests_to_applications_fail_as_a_test_says() {
    run(options(), |cluster| async move {
        pod(&cluster, "web", &["web"]).await;
        cluster.apply(service("web")).await.unwrap();
        cluster.settled().await;
        cluster.serve_service("web", 80, echo);
        let http = cluster.http("operator");
        let url = "http://web.default.svc/a";
        let ask = || http.send(Request::get(url).body(Bytes::new()).unwrap());
        cluster.fail_http("web.default.svc", HttpFault::Down, 1);
        assert_eq!(ask().await.unwrap_err().to_string(), format!("GET {url}: connection refused (injected)"));
        cluster.fail_http("/a", HttpFault::LostAnswer, 1);
        assert!(ask().await.unwrap_err().to_string().contains("before the answer arrived"));
        cluster.fail_http("/a", HttpFault::Nonsense, 1);
        assert!(ask().await.unwrap().into_body().starts_with(b"<html>"));
        cluster.fail_http("/a", HttpFault::Status(502), 1);
        assert_eq!(ask().await.unwrap().status(), 502);
        cluster.fail_http("/a", HttpFault::Slow(Duration::from_secs(7)), 1);
        let begin = tokio::time::Instant::now();
        assert_eq!(ask().await.unwrap().into_body(), format!("GET {url} by web"));
        assert!(begin.elapsed() >= Duration::from_secs(7));
    });
}

#[test]
fn admission_policies_see_a_command_as_a_connect() {
    run(options(), |cluster| async move {
        let pods = pod(&cluster, "web", &["web"]).await;
        cluster.on_exec(PodSelector::all(), |_: Exec| async {});
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]});
        let policy = json!({"metadata": {"name": "no-rm"}, "spec": {"matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "!('rm' in object.command)", "message": "rm is not for you"}]}});
        let binding = json!({"metadata": {"name": "no-rm"}, "spec": {"policyName": "no-rm", "validationActions": ["Deny"]}});
        let policy: k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy =
            serde_json::from_value(policy).unwrap();
        let binding: k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding =
            serde_json::from_value(binding).unwrap();
        cluster.apply(policy).await.unwrap();
        cluster.apply(binding).await.unwrap();
        cluster.settled().await;
        let (code, message) = refused(pods.exec("web", ["rm", "-r"], &AttachParams::default()).await);
        assert!(code == 422 && message.contains("rm is not for you"), "{code} {message}");
        let process = pods.exec("web", ["ls"], &AttachParams::default()).await.unwrap();
        assert_eq!(outcome(process).await.2, "Success");
    });
}

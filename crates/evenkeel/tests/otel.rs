//! An operator's command line sends traces and metrics to the collector that the environment names. This test is the operator,
//! too: it starts itself, with the variables of OpenTelemetry.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use evenkeel::Result;
use evenkeel::cli::Operator;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::prelude::*;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

/// The variable that makes this process the operator.
const OPERATOR: &str = "EVENKEEL_TEST_OPERATOR";
/// How long the operator may take to start, to reconcile and to report, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    let mut secret = Secret::default();
    secret.metadata.name = map.metadata.name.clone();
    ctx.apply(secret).await?;
    Ok(Action::await_change())
}

fn main() -> ExitCode {
    if std::env::var_os(OPERATOR).is_some() {
        let controller = || Controller::new("twins", reconcile).owns::<Secret>();
        return Operator::new("twin-operator", move |manager| manager.controller(controller())).main();
    }
    // Cargo and other runners list tests, and pass a filter.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|it| it == "--list") {
        println!("{TEST}: test");
        return ExitCode::SUCCESS;
    }
    let filters: Vec<_> = arguments.iter().filter(|it| !it.starts_with("--")).collect();
    if filters.is_empty() || filters.iter().any(|filter| TEST.contains(filter.as_str())) {
        the_collector_of_the_environment_gets_traces_and_metrics();
        println!("test {TEST} ... ok");
    }
    ExitCode::SUCCESS
}

const TEST: &str = "the_collector_of_the_environment_gets_traces_and_metrics";

fn the_collector_of_the_environment_gets_traces_and_metrics() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it has an address");
    let (sender, posts) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || collect(stream, &sender));
        }
    });
    let _operator = Running::start(&format!("http://{address}"));
    let (mut spans, mut metrics) = (None, None);
    while spans.is_none() || metrics.is_none() {
        match next(&posts) {
            (path, body) if path == "/v1/traces" => spans = spans.or(reconcile_span(&body)),
            (path, body) if path == "/v1/metrics" => metrics = metrics.or(reconciles(&body)),
            (path, _) => panic!("nothing is sent to {path}"),
        }
    }
    assert_eq!(spans.as_deref(), Some("reconcile"));
    assert!(metrics.is_some_and(|count| count >= 1.0), "{metrics:?}");
}

fn next(posts: &Receiver<(String, Vec<u8>)>) -> (String, Vec<u8>) {
    posts.recv_timeout(PATIENCE).expect("the operator reports in time")
}

/// Receives requests on a connection until it is closed, as a collector does.
fn collect(stream: TcpStream, posts: &Sender<(String, Vec<u8>)>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let start = head.len();
            if reader.read_line(&mut head).unwrap_or_default() == 0 {
                return;
            }
            let line = head[start..].to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().expect("it is a number");
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        assert!(head.to_ascii_lowercase().contains("x-tenant: one two\r\n"), "{head}");
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let answered = reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        if answered.is_err() || posts.send((path, body)).is_err() {
            return;
        }
    }
}

fn check_service(resource: Option<&Resource>) {
    let attributes = format!("{resource:?}");
    assert!(
        attributes.contains("twins-in-test") && attributes.contains("team") && attributes.contains("blue"),
        "{attributes}"
    );
}

/// The name of a span of our controller, if there is one. The built-in controllers of the embedded cluster have spans, too.
fn reconcile_span(body: &[u8]) -> Option<String> {
    let request = ExportTraceServiceRequest::decode(body).expect("it is an OTLP request");
    let of_resource = request.resource_spans.iter().inspect(|of| check_service(of.resource.as_ref()));
    let mut spans = of_resource.flat_map(|of| &of.scope_spans).flat_map(|of| &of.spans);
    let is_ours = |attribute: &KeyValue| {
        attribute.key == "controller" && format!("{:?}", attribute.value).contains("\"twins\"")
    };
    spans.find(|span| span.attributes.iter().any(is_ours)).map(|span| span.name.clone())
}

/// How many reconciles the metrics count, if there were any.
fn reconciles(body: &[u8]) -> Option<f64> {
    use opentelemetry_proto::tonic::metrics::v1::{metric::Data, number_data_point::Value};
    let request = ExportMetricsServiceRequest::decode(body).expect("it is an OTLP request");
    let of_resource = request.resource_metrics.iter().inspect(|of| check_service(of.resource.as_ref()));
    let mut metrics = of_resource.flat_map(|of| &of.scope_metrics).flat_map(|of| &of.metrics);
    let metric = metrics.find(|metric| metric.name == "controller_runtime_reconcile_total")?;
    let Some(Data::Sum(sum)) = &metric.data else { panic!("it is a counter: {metric:?}") };
    let values = sum.data_points.iter().map(|point| match point.value {
        Some(Value::AsDouble(value)) => value,
        _ => 0.0,
    });
    Some(values.sum()).filter(|count| *count > 0.0)
}

/// The operator, which ends with the test.
struct Running(Child);

impl Running {
    fn start(endpoint: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.arg("--embedded").env(OPERATOR, "yes").stdout(Stdio::null());
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_METRIC_EXPORT_INTERVAL", "300");
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=one%20two").env("OTEL_BSP_SCHEDULE_DELAY", "300");
        command.env("OTEL_SERVICE_NAME", "twins-in-test").env("OTEL_RESOURCE_ATTRIBUTES", "team=blue");
        Self(command.spawn().expect("this program starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

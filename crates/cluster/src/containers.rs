//! What answers for the containers on the simulated nodes: their logs, the commands that clients run in them, and what
//! listens on their ports.
//!
//! The API server asks here for everything that a kubelet would answer. Tests and the command line register *handlers*;
//! of those that match, the one that was added last answers.

mod exec;
mod faults;
mod ports;

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_apiserver::{CommandCall, ContainerLog, Destination, HttpAnswer, HttpFailure, LogLine, NodeApi};
use evenkeel_controllers::node::logs::Logs;
use evenkeel_controllers::node::rules::Selector;
use evenkeel_env::Env;
use evenkeel_streams::{Command, Connector};
use evenkeel_tree::Tree;
use evenkeel_tree::value::Value;
use futures::future::BoxFuture;
use http::uri::Scheme;
use parking_lot::Mutex;

pub(crate) use exec::{CallKind, ExecHandler};
pub use exec::{Exec, Exit};
pub use faults::HttpFault;
pub(crate) use faults::HttpFaults;
pub(crate) use ports::{Answer, Listener, PortOwner};
pub use ports::{Connection, PortCall};

use exec::ExecRule;
use ports::CalledPort;

/// The handlers of a cluster. Clones share them.
#[derive(Clone)]
pub(crate) struct Containers {
    shared: Arc<Shared>,
}

struct Shared {
    env: Env,
    logs: Logs,
    commands: Mutex<Vec<ExecRule>>,
    listeners: Mutex<Vec<Listener>>,
}

impl Containers {
    pub(crate) fn new(env: Env, logs: Logs) -> Self {
        let shared = Shared { env, logs, commands: Mutex::default(), listeners: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Lets a handler answer for commands, or for clients that attach.
    pub(crate) fn on_command(&self, kind: CallKind, selector: Selector, handler: ExecHandler) {
        self.shared.commands.lock().push(ExecRule { kind, selector, handler });
    }

    /// Lets something answer for a port.
    pub(crate) fn listen(&self, listener: Listener) {
        self.shared.listeners.lock().push(listener);
    }

    /// Sends an HTTP request to what answers for a destination.
    pub(crate) async fn send(
        &self,
        to: Destination,
        scheme: Scheme,
        request: http::Request<Bytes>,
    ) -> HttpAnswer {
        let (answer, call) = self.find(&to).ok_or(HttpFailure::NotServed)?;
        let Some(answer) = answer else {
            return Err(HttpFailure::Failed(REFUSED.to_owned()));
        };
        answer.http(call, &scheme, request).await.map_err(HttpFailure::Failed)
    }

    /// Finds what answers for a destination. Returns `None` if nothing in this cluster listens at all, and no answer if
    /// nothing listens on this port.
    fn find(&self, to: &Destination) -> Option<(Option<Answer>, PortCall)> {
        let listeners = self.shared.listeners.lock();
        if listeners.is_empty() {
            return None;
        }
        let (place, call) = match to {
            Destination::Pod(pod, port) => (CalledPort::Pod(pod, *port), PortCall::to_pod(pod, *port)),
            Destination::Service { namespace, name, port, pod } => (
                CalledPort::Service { namespace, name, port: *port, pod: pod.as_ref() },
                PortCall::to_service(namespace, name, *port, pod.as_ref()),
            ),
            _ => return None,
        };
        let found = listeners.iter().rev().find(|listener| listener.listens(&place));
        Some((found.map(|listener| listener.answer.clone()), call))
    }
}

/// What an operating system says if nothing listens on a port.
const REFUSED: &str = "connection refused";

impl NodeApi for Containers {
    fn log(&self, pod: &Value, container: &str, previous: bool) -> ContainerLog {
        let now = self.shared.env.now();
        let logs = &self.shared.logs;
        let lines = logs.lines(&Tree::from(pod), container, previous, now).unwrap_or_default();
        let lines = lines.into_iter().map(|line| LogLine { at: line.at, text: line.text }).collect();
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let next_at = if previous { None } else { logs.next_line_at(uid, container, now) };
        ContainerLog { lines, next_at }
    }

    fn log_change(&self) -> BoxFuture<'static, ()> {
        let mut changes = self.shared.logs.changes();
        Box::pin(async move {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    fn command(&self, call: CommandCall) -> Option<Command> {
        let rules = self.shared.commands.lock();
        let rule = rules.iter().rev().find(|rule| rule.matches(&call))?;
        Some(exec::command(rule.handler.clone(), call))
    }

    fn ports(&self, pod: Arc<Value>) -> Option<Connector> {
        let any = self.shared.listeners.lock().iter().any(|listener| listener.may_answer_for(&pod));
        if !any {
            return None;
        }
        let containers = self.clone();
        Some(Arc::new(move |port| {
            let found = containers.find(&Destination::Pod(pod.clone(), port));
            Box::pin(async move {
                match found {
                    Some((Some(answer), call)) => answer.connect(call).await,
                    _ => Err(format!("failed to connect to localhost:{port} inside the pod: {REFUSED}")),
                }
            })
        }))
    }

    fn http(
        &self,
        to: Destination,
        scheme: Scheme,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, HttpAnswer> {
        let containers = self.clone();
        Box::pin(async move { containers.send(to, scheme, request).await })
    }
}

/// The text at a path of a pod; empty if it is missing.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The names and images of a pod's containers of all kinds.
fn names_and_images(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let containers = lists.into_iter().flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    containers.map(|container| (text(container, "/name"), text(container, "/image")))
}

/// Whether a selector selects a container of a pod.
fn selects(selector: &Selector, pod: &Value, container: &str, image: &str) -> bool {
    let labels = &pod["metadata"]["labels"];
    selector.matches(text(pod, "/metadata/namespace"), |key| labels[key].as_str(), container, image)
}

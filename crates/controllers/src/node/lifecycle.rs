//! The lifecycle of a pod on a node: a state machine whose state is the status that the node writes.
//!
//! The stage is derived from the status, never remembered, so that a node that restarts continues where it was.

use std::time::Duration;

use evenkeel_tree::Tree;

use super::behaviour::{self, Behaviour, Fate, STOP};
use super::status::{ContainerReadiness, Host, Writer};
use crate::kinds::Pod;
use crate::pod;

/// The stage of a pod on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The pod is bound, and the node has not accepted it yet.
    Bound,
    /// The containers are being created; this many init containers are done.
    Starting(usize),
    /// The containers run.
    Running,
    /// The containers have crashed and wait for their next restart, after this many restarts.
    BackingOff(i32),
    /// The pod has succeeded or failed.
    Finished,
    /// The pod is being deleted.
    Stopping,
}

/// What the node does next.
#[derive(Clone, Debug)]
pub(crate) enum NextStep {
    /// Do nothing until the pod changes.
    Rest,
    /// Write this status after a delay. The restart of a crashed container is *upkeep*: it repeats for ever, and
    /// `settled()` does not wait for it.
    Write { after: Duration, upkeep: bool, status: Tree },
    /// Write this status after a delay, then delete the pod with a grace period of zero.
    Remove { after: Duration, status: Tree },
}

/// Returns the stage of a pod.
pub(crate) fn stage(pod: &Pod) -> Stage {
    if pod.is_deleting() {
        return Stage::Stopping;
    }
    if !pod.has("status/startTime") {
        return Stage::Bound;
    }
    if pod::is_finished(pod) {
        return Stage::Finished;
    }
    let containers = pod.list("status/containerStatuses");
    let crashed = containers.iter().find(|it| it.is("state/waiting/reason", "CrashLoopBackOff"));
    if let Some(crashed) = crashed {
        return Stage::BackingOff(crashed.i32("restartCount").unwrap_or(0));
    }
    if containers.iter().any(|container| container.has("state/running")) {
        return Stage::Running;
    }
    let inits = pod.list("status/initContainerStatuses").iter();
    Stage::Starting(inits.take_while(|container| is_past(container)).count())
}

/// Whether an init container has ended, or a sidecar has started.
fn is_past(container: &Tree) -> bool {
    container.has("state/terminated") || (container.has("state/running") && container.is_true("started"))
}

/// Returns the next step of the node for a pod.
pub(crate) fn next(pod: &Pod, host: &Host) -> NextStep {
    let behaviour = Behaviour::of(pod);
    let writer = Writer::new(pod, host);
    let write = |after, status| NextStep::Write { after, upkeep: false, status };
    match stage(pod) {
        Stage::Bound => write(Duration::ZERO, writer.accepted()),
        Stage::Starting(done) => starting(&writer, behaviour, done),
        Stage::Running => match behaviour.fate {
            Fate::Exit(code) => write(behaviour.run_for, writer.ended(code)),
            Fate::Crash => write(behaviour::START, writer.ended(1)),
            _ => follow_changes(pod, &writer, behaviour),
        },
        Stage::BackingOff(restarts) => NextStep::Write {
            after: behaviour::restart_after(restarts),
            upkeep: true,
            status: writer.running(ContainerReadiness::Ready),
        },
        Stage::Finished => NextStep::Rest,
        Stage::Stopping => {
            let after = if pod.has("status/startTime") && grace(pod) > 0 { STOP } else { Duration::ZERO };
            NextStep::Remove { after, status: writer.stopped() }
        }
    }
}

fn grace(pod: &Pod) -> i64 {
    pod.metadata.deletion_grace_period_seconds.unwrap_or(0)
}

fn starting(writer: &Writer<'_>, behaviour: Behaviour, done: usize) -> NextStep {
    let write = |status| NextStep::Write { after: behaviour.start_after, upkeep: false, status };
    match behaviour.fate {
        Fate::NeverStart => NextStep::Rest,
        Fate::NoImage => match writer.without_image() {
            Some(status) => write(status),
            None => NextStep::Rest,
        },
        _ if done < writer.init_containers() => write(writer.initializing(done + 1)),
        Fate::NeverReady => write(writer.running(ContainerReadiness::Unready)),
        _ => write(writer.running(ContainerReadiness::Ready)),
    }
}

/// Follows readiness gates and in-place changes of images. Nothing else changes a running pod.
fn follow_changes(pod: &Pod, writer: &Writer<'_>, behaviour: Behaviour) -> NextStep {
    let readiness = if behaviour.fate == Fate::NeverReady {
        ContainerReadiness::Unready
    } else {
        ContainerReadiness::Ready
    };
    let status = writer.running(readiness);
    if *pod.at("status") == status {
        NextStep::Rest
    } else {
        NextStep::Write { after: Duration::ZERO, upkeep: false, status }
    }
}

#[cfg(test)]
mod tests;

//! The life of a pod on a node, as a state machine over the status that the node itself writes.
//!
//! The stage is read off the status, never remembered: a node that starts again goes on where it was.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use super::behaviour::{self, Behaviour, Fate, STOP};
use super::status::{Containers, Host, Writer};
use crate::pod;

/// Where a pod stands on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Bound, and not yet seen by the node.
    Bound,
    /// Its containers are being created; this many init containers are done.
    Starting(usize),
    /// Its containers run.
    Running,
    /// Its containers have ended with an error and wait to be started again, after this many restarts.
    BackingOff(i32),
    /// It has come to its end.
    Finished,
    /// It is told to stop.
    Stopping,
}

/// What the node does next.
#[derive(Clone, Debug)]
pub(crate) enum Next {
    /// Nothing, until the pod changes.
    Rest,
    /// Write this status, after a time. A restart of what crashed is *upkeep*: it goes on for ever, and nobody who
    /// waits for the cluster to come to rest waits for it.
    Write { after: Duration, upkeep: bool, status: Box<PodStatus> },
    /// Write this status, after a time, and then delete the pod for good.
    Remove { after: Duration, status: Box<PodStatus> },
}

/// The stage of this pod.
pub(crate) fn stage(pod: &Pod) -> Stage {
    let Some(status) = pod.status.as_ref().filter(|status| status.start_time.is_some()) else {
        return if pod::is_deleting(pod) { Stage::Stopping } else { Stage::Bound };
    };
    if pod::is_deleting(pod) {
        return Stage::Stopping;
    }
    if pod::is_finished(pod) {
        return Stage::Finished;
    }
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    if let Some(crashed) = containers.iter().find(|container| waits_for(container, "CrashLoopBackOff")) {
        return Stage::BackingOff(crashed.restart_count);
    }
    if containers
        .iter()
        .any(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()))
    {
        return Stage::Running;
    }
    let inits = status.init_container_statuses.as_deref().unwrap_or_default();
    Stage::Starting(inits.iter().take_while(|container| is_past(container)).count())
}

fn waits_for(container: &ContainerStatus, reason: &str) -> bool {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    waiting.and_then(|waiting| waiting.reason.as_deref()) == Some(reason)
}

/// An init container that has ended, or a sidecar that has started.
fn is_past(container: &ContainerStatus) -> bool {
    container.state.as_ref().is_some_and(|state| {
        state.terminated.is_some() || (state.running.is_some() && container.started == Some(true))
    })
}

/// What the node does about this pod. `address` is the pod's, should it start.
pub(crate) fn next(pod: &Pod, host: &Host) -> Next {
    let behaviour = Behaviour::of(pod);
    let writer = Writer::new(pod, host);
    let write = |after, status| Next::Write { after, upkeep: false, status: Box::new(status) };
    match stage(pod) {
        Stage::Bound => write(Duration::ZERO, writer.accepted()),
        Stage::Starting(done) => starting(&writer, behaviour, done),
        Stage::Running => match behaviour.fate {
            Fate::Exit(code) => write(behaviour.run_for, writer.ended(code)),
            Fate::Crash => write(behaviour::START, writer.ended(1)),
            _ => follow_gates(pod, &writer, behaviour),
        },
        Stage::BackingOff(restarts) => Next::Write {
            after: behaviour::restart_after(restarts),
            upkeep: true,
            status: Box::new(writer.running(Containers::Ready)),
        },
        Stage::Finished => Next::Rest,
        Stage::Stopping => {
            let started = pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
            let after = if started && grace(pod) > 0 { STOP } else { Duration::ZERO };
            Next::Remove { after, status: Box::new(writer.stopped()) }
        }
    }
}

fn grace(pod: &Pod) -> i64 {
    pod.metadata.deletion_grace_period_seconds.unwrap_or(0)
}

fn starting(writer: &Writer<'_>, behaviour: Behaviour, done: usize) -> Next {
    let write =
        |status| Next::Write { after: behaviour.start_after, upkeep: false, status: Box::new(status) };
    match behaviour.fate {
        Fate::NeverStart => Next::Rest,
        Fate::NoImage => match writer.without_image() {
            Some(status) => write(status),
            None => Next::Rest,
        },
        _ if done < writer.init_containers() => write(writer.initializing(done + 1)),
        Fate::NeverReady => write(writer.running(Containers::Unready)),
        _ => write(writer.running(Containers::Ready)),
    }
}

/// A running pod changes only when a readiness gate of its does, or its images are changed in place.
fn follow_gates(pod: &Pod, writer: &Writer<'_>, behaviour: Behaviour) -> Next {
    let readiness = if behaviour.fate == Fate::NeverReady { Containers::Unready } else { Containers::Ready };
    let status = writer.running(readiness);
    if pod.status.as_ref() == Some(&status) {
        Next::Rest
    } else {
        Next::Write { after: Duration::ZERO, upkeep: false, status: Box::new(status) }
    }
}

#[cfg(test)]
mod tests;

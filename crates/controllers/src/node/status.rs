//! The parts of a status that concern the whole pod: its phase and its conditions, as kubelet writes them.

use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;

use super::container::{Role, State};
use super::restart_all;
use crate::kinds::Pod;
use crate::object::time;
use crate::pod;

/// The conditions that the node writes for every pod. It keeps those of others.
const OWN: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// The paths of the container lists in a spec, and of the matching lists of statuses.
pub(crate) const CONTAINERS: (&str, &str) = ("spec/containers", "containerStatuses");
pub(crate) const INIT_CONTAINERS: (&str, &str) = ("spec/initContainers", "initContainerStatuses");
pub(crate) const EPHEMERAL_CONTAINERS: (&str, &str) =
    ("spec/ephemeralContainers", "ephemeralContainerStatuses");

/// The addresses of a pod and of its node.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// The node's address.
    pub(crate) address: String,
    /// The pod's address, which it gets when it starts.
    pub(crate) pod_address: String,
}

/// Returns the role of a container in the list of init containers.
pub(crate) fn init_role(container: &Tree) -> Role {
    if container.is("restartPolicy", "Always") { Role::Sidecar } else { Role::Init }
}

/// Returns the status of a container by its name, or null if there is none.
pub(crate) fn find<'a>(statuses: &'a [Tree], name: &str) -> &'a Tree {
    static NULL: Tree = Tree::Null;
    statuses.iter().find(|status| status.is("name", name)).unwrap_or(&NULL)
}

/// Sets the addresses of a pod, unless they are already set.
pub(crate) fn set_addresses(pod: &Pod, host: &Host, status: &mut Tree) {
    if status.has("podIP") {
        return;
    }
    let address = if pod.is_true("spec/hostNetwork") { &host.address } else { &host.pod_address };
    status.set("podIP", address);
    status.set("podIPs", vec![tree!({"ip": address})]);
}

/// Returns the pod's phase, derived from the container statuses. `may_restart` says whether a container is restarted
/// after an exit code.
pub(crate) fn phase(pod: &Pod, status: &Tree, may_restart: &dyn Fn(&Tree, i32) -> bool) -> &'static str {
    let may_restart = |container: &Tree, status: &Tree, code: i32| {
        restart_all::has_stopped(status) || may_restart(container, code)
    };
    let inits = pod.list(INIT_CONTAINERS.0).iter();
    let inits = inits.map(|it| (it, find(status.list(INIT_CONTAINERS.1), name(it))));
    let failed_init = inits.clone().any(|(container, status)| {
        let code = exit_code(status);
        code.is_some_and(|code| code != 0 && !may_restart(container, status, code))
    });
    if failed_init {
        return "Failed";
    }
    let mut inits = inits.filter(|(container, _)| init_role(container) == Role::Init);
    if inits.any(|(_, status)| State::of(status) == State::Running) {
        return "Pending";
    }
    let (mut running, mut restarting, mut failed) = (0, 0, 0);
    for container in pod.list(CONTAINERS.0) {
        let one = find(status.list(CONTAINERS.1), name(container));
        match (State::of(one), exit_code(one)) {
            (State::Running, _) => running += 1,
            (_, Some(code)) if may_restart(container, one, code) => restarting += 1,
            (_, Some(0)) => {}
            (_, Some(_)) => failed += 1,
            // A container has not run yet.
            (_, None) => return "Pending",
        }
    }
    match (running + restarting, failed) {
        (0, 0) => "Succeeded",
        (0, _) => "Failed",
        _ => "Running",
    }
}

/// Returns the exit code of a container's last run, or `None` if it is running or has never run.
fn exit_code(status: &Tree) -> Option<i32> {
    if status.has("state/running") {
        return None;
    }
    status.i32("state/terminated/exitCode").or(status.i32("lastState/terminated/exitCode"))
}

pub(crate) fn name(container: &Tree) -> &str {
    container.str("name").unwrap_or_default()
}

/// Which parts of a pod are ready, for its conditions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readiness {
    pub(crate) sandbox: bool,
    pub(crate) initialized: bool,
}

/// Sets the conditions that the node writes. The transition time changes only if the condition's status does.
pub(crate) fn set_conditions(pod: &Pod, status: &mut Tree, readiness: Readiness, now: Timestamp) {
    let finished = matches!(status.str("phase"), Some("Succeeded" | "Failed"));
    let completed = ("PodCompleted", String::new());
    let sidecars = pod.list(INIT_CONTAINERS.0).iter().filter(|it| init_role(it) == Role::Sidecar);
    let sidecars = sidecars.map(|it| (it, find(status.list(INIT_CONTAINERS.1), name(it))));
    let mains = pod.list(CONTAINERS.0).iter().map(|it| (it, find(status.list(CONTAINERS.1), name(it))));
    let unready: Vec<_> = sidecars
        .chain(mains)
        .filter(|(_, status)| !status.is_true("ready"))
        .map(|(it, _)| name(it))
        .collect();
    let containers = readiness.initialized && unready.is_empty() && !finished;
    let not_ready = match finished {
        true => completed.clone(),
        false => ("ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" "))),
    };
    let initialized = match readiness.initialized {
        true => finished.then_some(completed),
        false => {
            let inits = pod.list(INIT_CONTAINERS.0).iter().map(name);
            let open = inits.filter(|name| !find(status.list(INIT_CONTAINERS.1), name).is_true("ready"));
            let names: Vec<_> = open.collect();
            Some((
                "ContainersNotInitialized",
                format!("containers with incomplete status: [{}]", names.join(" ")),
            ))
        }
    };
    let ready = if containers { gate(pod) } else { Some(not_ready.clone()) };
    let own = [
        (OWN[0], readiness.sandbox && !finished, None),
        (OWN[1], readiness.initialized, initialized),
        (OWN[2], containers && ready.is_none(), ready),
        (OWN[3], containers, (!containers).then_some(not_ready)),
        (OWN[4], true, None),
    ];
    let others = status.list("conditions").iter();
    let is_own = |condition: &Tree| {
        condition.is("type", restart_all::CONDITION) || OWN.iter().any(|own| condition.is("type", own))
    };
    let others = others.filter(|condition| !is_own(condition));
    let own = own.into_iter().map(|(kind, holds, why)| condition(pod, kind, holds, why, now));
    let restarting = restart_all::is_possible(pod).then(|| restarting(pod, status, now));
    let conditions: Vec<_> = others.cloned().chain(own).chain(restarting).collect();
    status.set("observedGeneration", pod.metadata.generation);
    status.set("conditions", conditions);
}

/// Returns the condition that tells whether all containers are about to be restarted.
fn restarting(pod: &Pod, status: &Tree, now: Timestamp) -> Tree {
    let (holds, reason, message) = match status.str("phase") {
        Some("Succeeded") => (false, Some("PodCompleted"), None),
        Some("Failed") => (false, Some("PodFailed"), None),
        _ if restart_all::is_asked_for(pod, status) => {
            (true, Some("RestartAllContainersStarted"), Some("container exited with restart policy rule"))
        }
        _ => (false, None, None),
    };
    let why = reason.map(|reason| (reason, message.unwrap_or_default().to_owned()));
    let mut condition = condition(pod, restart_all::CONDITION, holds, why, now);
    // Kubelet gives this condition no generation.
    condition.set("observedGeneration", Tree::Null);
    condition
}

fn condition(pod: &Pod, kind: &str, holds: bool, why: Option<(&str, String)>, now: Timestamp) -> Tree {
    let state = if holds { "True" } else { "False" };
    let old = pod::condition(pod, kind).filter(|old| old.is("status", state));
    let since = old.map(|old| old.at("lastTransitionTime")).filter(|since| !since.is_null());
    let (reason, message) = why.unzip();
    tree!({
        "type": kind, "status": state, "reason": reason,
        "message": message.filter(|message| !message.is_empty()),
        "lastTransitionTime": since.cloned().unwrap_or_else(|| time(now)),
        "observedGeneration": pod.metadata.generation,
    })
}

/// Returns reason and message if a readiness gate is not satisfied.
fn gate(pod: &Pod) -> Option<(&'static str, String)> {
    let gates = pod.list("spec/readinessGates").iter().filter_map(|gate| gate.str("conditionType"));
    let messages = gates.filter_map(|kind| {
        let Some(condition) = pod::condition(pod, kind) else {
            return Some(format!("corresponding condition of pod readiness gate \"{kind}\" does not exist."));
        };
        let status = condition.str("status").unwrap_or_default();
        let message = || format!("the status of pod readiness gate \"{kind}\" is not \"True\", but {status}");
        (status != "True").then(message)
    });
    let messages: Vec<_> = messages.collect();
    (!messages.is_empty()).then(|| ("ReadinessGatesNotReady", messages.join(", ")))
}

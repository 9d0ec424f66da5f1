//! The restart of all containers of a pod, for which a container's rule with the action `RestartAllContainers` asks.
//!
//! The node first writes how the container exited, with the condition `AllContainersRestarting`. Then it kills what runs,
//! and all containers wait with the reason `RestartingAllContainers`. They start again in their order, without a back-off.

use evenkeel_tree::{Tree, tree};

use super::container::{KILLED, State, restart_action};
use super::status::{CONTAINERS, INIT_CONTAINERS, find, name};
use crate::kinds::Pod;
use crate::pod;

/// The condition of a pod whose containers are about to be restarted.
pub(super) const CONDITION: &str = "AllContainersRestarting";

/// The reason of a container that waits for the restart, and of the end of its run.
const REASON: &str = "RestartingAllContainers";
const MESSAGE: &str = "The container is removed because RestartAllContainers in place";

/// The action of a rule.
pub(super) const ACTION: &str = "RestartAllContainers";

/// Whether a container of the pod has a rule that may ask for the restart.
pub(super) fn is_possible(pod: &Pod) -> bool {
    let containers = [INIT_CONTAINERS.0, CONTAINERS.0].into_iter().flat_map(|list| pod.list(list));
    let mut rules = containers.flat_map(|container| container.list("restartPolicyRules"));
    rules.any(|rule| rule.is("action", ACTION))
}

/// Whether a container has exited in a way for which its rules ask for the restart.
pub(super) fn is_asked_for(pod: &Pod, status: &Tree) -> bool {
    [INIT_CONTAINERS, CONTAINERS].into_iter().any(|(spec, statuses)| {
        pod.list(spec).iter().any(|container| {
            let code = find(status.list(statuses), name(container)).i32("state/terminated/exitCode");
            code.is_some_and(|code| restart_action(container, code) == Some(ACTION))
        })
    })
}

/// Whether the status of the pod says that the restart is next.
pub(super) fn is_next(pod: &Pod) -> bool {
    pod::condition(pod, CONDITION).is_some_and(|it| it.is("status", "True"))
}

/// Whether a container waits for its turn in the restart.
pub(super) fn waits(status: &Tree) -> bool {
    status.is("state/waiting/reason", REASON)
}

/// Whether the last run of a container ended for the restart, and the next one has not begun.
pub(super) fn has_stopped(status: &Tree) -> bool {
    status.has("state/waiting") && status.is("lastState/terminated/reason", REASON)
}

/// Returns the status of a container after the node has removed it for the restart. One that has not run keeps its status.
pub(super) fn removed(status: &Tree) -> Tree {
    if State::of(status) != State::Running && State::of(status) != State::Ended {
        return status.clone();
    }
    let ended = tree!({"reason": REASON, "message": MESSAGE, "exitCode": KILLED});
    tree!({
        "name": status.at("name").clone(),
        "image": status.at("image").clone(),
        "imageID": "",
        "ready": false,
        "started": false,
        "restartCount": status.i32("restartCount").unwrap_or(0).saturating_add(1),
        "state": tree!({"waiting": tree!({"reason": REASON, "message": MESSAGE})}),
        "lastState": tree!({"terminated": ended}),
    })
}

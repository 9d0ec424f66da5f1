//! The status of a pod that the node writes, as kubelet does.

use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;

use super::container_ids::{container_id, image_id};
use crate::kinds::Pod;
use crate::object::time;
use crate::pod;

/// The conditions that the node writes. It keeps all others.
const OWN: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// The node of a pod, and the present time.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// The node's address.
    pub(crate) address: String,
    /// The pod's address, which it gets when it starts.
    pub(crate) pod_address: String,
    /// The time, in whole seconds.
    pub(crate) now: Timestamp,
}

/// Whether running containers are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerReadiness {
    /// The containers are ready.
    Ready,
    /// The containers never become ready.
    Unready,
}

/// Builds the statuses of one pod.
pub(crate) struct Writer<'a> {
    pod: &'a Pod,
    host: &'a Host,
    old: &'a Tree,
}

/// The lists of containers in a spec and of their statuses.
const CONTAINERS: (&str, &str) = ("spec/containers", "containerStatuses");
const INIT_CONTAINERS: (&str, &str) = ("spec/initContainers", "initContainerStatuses");

impl<'a> Writer<'a> {
    pub(crate) fn new(pod: &'a Pod, host: &'a Host) -> Self {
        Self { pod, host, old: pod.at("status") }
    }

    pub(crate) fn init_containers(&self) -> usize {
        self.pod.list(INIT_CONTAINERS.0).len()
    }

    /// The status of a pod that the node has accepted and whose containers are being created.
    pub(crate) fn accepted(&self) -> Tree {
        let mut status = self.old.clone();
        status.set("phase", "Pending");
        status.set("startTime", time(self.host.now));
        status.set("hostIP", &self.host.address);
        status.set("hostIPs", vec![tree!({"ip": &self.host.address})]);
        let reason = if self.init_containers() > 0 { "PodInitializing" } else { "ContainerCreating" };
        for list in [CONTAINERS, INIT_CONTAINERS] {
            self.each(&mut status, list, &|container| {
                self.container(container, waiting(reason, None), false)
            });
        }
        let initialized = self.init_containers() == 0;
        self.conditions(&mut status, Readiness { sandbox: false, initialized, containers: false });
        status
    }

    /// The status after the first `done` init containers have ended, or have started if they are sidecars.
    pub(crate) fn initializing(&self, done: usize) -> Tree {
        let mut status = self.with_addresses();
        let inits = self.pod.list(INIT_CONTAINERS.0).iter().enumerate();
        let statuses = inits.map(|(index, container)| self.init_container(container, index < done));
        status.set(INIT_CONTAINERS.1, statuses.collect::<Vec<_>>());
        let initialized = done >= self.init_containers();
        self.conditions(&mut status, Readiness { sandbox: true, initialized, containers: false });
        status
    }

    fn init_container(&self, container: &Tree, done: bool) -> Tree {
        match (done, container.is("restartPolicy", "Always")) {
            (false, _) => self.container(container, waiting("PodInitializing", None), false),
            // A sidecar.
            (true, true) => self.container(container, self.run(container), true),
            (true, false) => self.container(container, self.terminate(container, 0), true),
        }
    }

    /// The status of a pod whose containers run.
    pub(crate) fn running(&self, containers: ContainerReadiness) -> Tree {
        let mut status = self.with_addresses();
        let ready = containers == ContainerReadiness::Ready;
        status.set("phase", "Running");
        self.each(&mut status, CONTAINERS, &|container| {
            self.container(container, self.run(container), ready)
        });
        self.conditions(&mut status, Readiness { sandbox: true, initialized: true, containers: ready });
        status
    }

    /// The status of a pod whose images cannot be pulled; `None` if the pod already has it.
    pub(crate) fn without_image(&self) -> Option<Tree> {
        let mut status = self.with_addresses();
        self.each(&mut status, CONTAINERS, &|container| {
            let message =
                format!("Back-off pulling image \"{}\"", container.str("image").unwrap_or_default());
            self.container(container, waiting("ImagePullBackOff", Some(message)), false)
        });
        self.conditions(&mut status, Readiness { sandbox: true, initialized: true, containers: false });
        (status != *self.old).then_some(status)
    }

    /// The status after the containers have exited with this code: finished, or waiting for a restart.
    pub(crate) fn ended(&self, code: i32) -> Tree {
        let policy = self.pod.str("spec/restartPolicy").unwrap_or("Always");
        if policy == "Never" || code == 0 {
            return self.finished(code);
        }
        let mut status = self.old.clone();
        self.each(&mut status, CONTAINERS, &|container| {
            let back_off = waiting("CrashLoopBackOff", Some(self.back_off(container)));
            let mut status = self.container(container, back_off, false);
            status.set("restartCount", self.restarts(container).saturating_add(1));
            status.set("lastState", self.terminate(container, code));
            status
        });
        self.conditions(&mut status, Readiness { sandbox: true, initialized: true, containers: false });
        status
    }

    fn back_off(&self, container: &Tree) -> String {
        let (namespace, pod, uid) = (self.pod.in_namespace(), self.pod.name(), self.uid());
        let wait = super::behaviour::restart_after(self.restarts(container).saturating_add(1)).as_secs();
        let wait = if wait >= 60 { format!("{}m{}s", wait / 60, wait % 60) } else { format!("{wait}s") };
        let name = name(container);
        format!("back-off {wait} restarting failed container={name} pod={pod}_{namespace}({uid})")
    }

    fn finished(&self, code: i32) -> Tree {
        let mut status = self.old.clone();
        status.set("phase", if code == 0 { "Succeeded" } else { "Failed" });
        self.each(&mut status, CONTAINERS, &|container| {
            self.container(container, self.terminate(container, code), false)
        });
        self.conditions(&mut status, Readiness { sandbox: false, initialized: true, containers: false });
        status
    }

    /// The status of a pod that was deleted and has stopped.
    pub(crate) fn stopped(&self) -> Tree {
        if pod::is_finished(self.pod) || !self.old.has("startTime") {
            self.old.clone()
        } else {
            self.finished(0)
        }
    }

    fn with_addresses(&self) -> Tree {
        let mut status = self.old.clone();
        let host_network = self.pod.is_true("spec/hostNetwork");
        let address = if host_network { &self.host.address } else { &self.host.pod_address };
        if !status.has("podIP") {
            status.set("podIP", address);
            status.set("podIPs", vec![tree!({"ip": address})]);
        }
        status
    }

    /// Sets the statuses of a list of containers.
    fn each(&self, status: &mut Tree, (spec, statuses): (&str, &str), of: &dyn Fn(&Tree) -> Tree) {
        let list: Vec<_> = self.pod.list(spec).iter().map(of).collect();
        status.set(statuses, (!list.is_empty()).then_some(list));
    }

    fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }

    fn old_container(&self, container: &Tree) -> Option<&Tree> {
        let mut all = self.old.list(CONTAINERS.1).iter().chain(self.old.list(INIT_CONTAINERS.1));
        all.find(|status| status.at("name") == container.at("name"))
    }

    fn restarts(&self, container: &Tree) -> i32 {
        self.old_container(container).and_then(|old| old.i32("restartCount")).unwrap_or(0)
    }

    fn container(&self, container: &Tree, state: Tree, ready: bool) -> Tree {
        let old = self.old_container(container);
        let image = container.str("image").unwrap_or_default();
        let created = !state.has("waiting") || old.is_some_and(|old| old.has("containerID"));
        let restarts = self.restarts(container);
        tree!({
            "name": name(container),
            "containerID": created.then(|| container_id(self.uid(), name(container), restarts)),
            "imageID": if created { image_id(image) } else { String::new() },
            "image": image,
            "ready": ready,
            "started": state.has("running"),
            "restartCount": restarts,
            "state": state,
            "lastState": old.map(|old| old.at("lastState")),
        })
    }

    /// The running state. A container that already runs keeps its start time.
    fn run(&self, container: &Tree) -> Tree {
        let running = self.old_container(container).map(|old| old.at("state/running"));
        match running.filter(|running| !running.is_null()) {
            Some(running) => tree!({"running": running}),
            None => tree!({"running": tree!({"startedAt": time(self.host.now)})}),
        }
    }

    /// The terminated state. A container that has already ended keeps it.
    fn terminate(&self, container: &Tree, code: i32) -> Tree {
        let state = self.old_container(container).map(|old| old.at("state"));
        let ended = state.map(|state| state.at("terminated")).filter(|ended| !ended.is_null());
        if let Some(ended) = ended {
            return tree!({"terminated": ended});
        }
        let started = state.map(|state| state.at("running/startedAt")).filter(|started| !started.is_null());
        let terminated = tree!({
            "containerID": container_id(self.uid(), name(container), self.restarts(container)),
            "exitCode": code,
            "reason": if code == 0 { "Completed" } else { "Error" },
            "startedAt": started.cloned().unwrap_or_else(|| time(self.host.now)),
            "finishedAt": time(self.host.now),
        });
        tree!({"terminated": terminated})
    }
}

fn name(container: &Tree) -> &str {
    container.str("name").unwrap_or_default()
}

/// Which parts of a pod are ready, for its conditions.
#[derive(Clone, Copy, Debug)]
struct Readiness {
    sandbox: bool,
    initialized: bool,
    containers: bool,
}

impl Writer<'_> {
    /// Sets the five conditions of the node. A transition time changes only with the status.
    fn conditions(&self, status: &mut Tree, readiness: Readiness) {
        let finished = matches!(status.str("phase"), Some("Succeeded" | "Failed"));
        let completed = ("PodCompleted", String::new());
        let not_ready = match finished {
            true => completed.clone(),
            false => {
                let unready =
                    status.list(CONTAINERS.1).iter().filter(|container| !container.is_true("ready"));
                let names: Vec<_> = unready.map(name).collect();
                ("ContainersNotReady", format!("containers with unready status: [{}]", names.join(" ")))
            }
        };
        let initialized = match readiness.initialized {
            true => finished.then_some(completed),
            false => {
                let names: Vec<_> = self.pod.list(INIT_CONTAINERS.0).iter().map(name).collect();
                let message = format!("containers with incomplete status: [{}]", names.join(" "));
                Some(("ContainersNotInitialized", message))
            }
        };
        let ready = if readiness.containers { self.gate() } else { Some(not_ready.clone()) };
        let own = [
            (OWN[0], readiness.sandbox, None),
            (OWN[1], readiness.initialized, initialized),
            (OWN[2], readiness.containers && ready.is_none(), ready),
            (OWN[3], readiness.containers, (!readiness.containers).then_some(not_ready)),
            (OWN[4], true, None),
        ];
        let others = self.old.list("conditions").iter();
        let others = others.filter(|condition| OWN.iter().all(|own| !condition.is("type", own)));
        let own = own.into_iter().map(|(kind, holds, why)| self.condition(kind, holds, why));
        let conditions: Vec<_> = others.cloned().chain(own).collect();
        status.set("observedGeneration", self.pod.metadata.generation);
        status.set("conditions", conditions);
    }

    fn condition(&self, kind: &str, holds: bool, why: Option<(&str, String)>) -> Tree {
        let state = if holds { "True" } else { "False" };
        let old = pod::condition(self.pod, kind).filter(|old| old.is("status", state));
        let since = old.map(|old| old.at("lastTransitionTime")).filter(|since| !since.is_null());
        let (reason, message) = why.unzip();
        tree!({
            "type": kind, "status": state, "reason": reason,
            "message": message.filter(|message| !message.is_empty()),
            "lastTransitionTime": since.cloned().unwrap_or_else(|| time(self.host.now)),
            "observedGeneration": self.pod.metadata.generation,
        })
    }

    /// Returns reason and message if a readiness gate is not satisfied.
    fn gate(&self) -> Option<(&'static str, String)> {
        let gates = self.pod.list("spec/readinessGates").iter().filter_map(|gate| gate.str("conditionType"));
        let messages = gates.filter_map(|kind| {
            let Some(condition) = pod::condition(self.pod, kind) else {
                return Some(format!(
                    "corresponding condition of pod readiness gate \"{kind}\" does not exist."
                ));
            };
            let status = condition.str("status").unwrap_or_default();
            let message =
                || format!("the status of pod readiness gate \"{kind}\" is not \"True\", but {status}");
            (status != "True").then(message)
        });
        let messages: Vec<_> = messages.collect();
        (!messages.is_empty()).then(|| ("ReadinessGatesNotReady", messages.join(", ")))
    }
}

fn waiting(reason: &str, message: Option<String>) -> Tree {
    tree!({"waiting": tree!({"reason": reason, "message": message})})
}

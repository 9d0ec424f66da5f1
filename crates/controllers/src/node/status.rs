//! The status of a pod that the node writes, as kubelet does.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container_ids::{container_id, image_id};
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
    spec: PodSpec,
    old: PodStatus,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(pod: &'a Pod, host: &'a Host) -> Self {
        Self {
            pod,
            host,
            spec: pod.spec.clone().unwrap_or_default(),
            old: pod.status.clone().unwrap_or_default(),
        }
    }

    pub(crate) fn init_containers(&self) -> usize {
        self.spec.init_containers.as_ref().map_or(0, Vec::len)
    }

    /// The status of a pod that the node has accepted and whose containers are being created.
    pub(crate) fn accepted(&self) -> PodStatus {
        let mut status = self.old.clone();
        status.phase = Some("Pending".to_owned());
        status.start_time = Some(Time(self.host.now));
        status.host_ip = Some(self.host.address.clone());
        status.host_ips = Some(vec![HostIP { ip: self.host.address.clone() }]);
        let reason = if self.init_containers() > 0 { "PodInitializing" } else { "ContainerCreating" };
        let waiting = |container: &Container| self.container(container, waiting(reason, None), false);
        status.container_statuses = self.each(&self.spec.containers, &waiting);
        status.init_container_statuses =
            self.each(self.spec.init_containers.as_deref().unwrap_or_default(), &waiting);
        self.conditions(
            &mut status,
            Readiness { sandbox: false, initialized: self.init_containers() == 0, containers: false },
        );
        status
    }

    /// The status after the first `done` init containers have ended, or have started if they are sidecars.
    pub(crate) fn initializing(&self, done: usize) -> PodStatus {
        let mut status = self.with_addresses();
        let inits = self.spec.init_containers.as_deref().unwrap_or_default();
        let statuses =
            inits.iter().enumerate().map(|(index, container)| self.init_container(container, index < done));
        status.init_container_statuses = Some(statuses.collect());
        let initialized = done >= inits.len();
        self.conditions(&mut status, Readiness { sandbox: true, initialized, containers: false });
        status
    }

    fn init_container(&self, container: &Container, done: bool) -> ContainerStatus {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        match (done, sidecar) {
            (false, _) => self.container(container, waiting("PodInitializing", None), false),
            (true, true) => self.container(container, self.run(container), true),
            (true, false) => {
                let mut status = self.container(container, self.terminate(container, 0), true);
                status.started = Some(false);
                status
            }
        }
    }

    /// The status of a pod whose containers run.
    pub(crate) fn running(&self, containers: ContainerReadiness) -> PodStatus {
        let mut status = self.with_addresses();
        let ready = containers == ContainerReadiness::Ready;
        status.phase = Some("Running".to_owned());
        status.container_statuses = self.each(&self.spec.containers, &|container| {
            let mut status = self.container(container, self.run(container), ready);
            status.started = Some(true);
            status
        });
        self.conditions(&mut status, Readiness { sandbox: true, initialized: true, containers: ready });
        status
    }

    /// The status of a pod whose images cannot be pulled; `None` if the pod already has it.
    pub(crate) fn without_image(&self) -> Option<PodStatus> {
        let mut status = self.with_addresses();
        status.container_statuses = self.each(&self.spec.containers, &|container| {
            let image = container.image.as_deref().unwrap_or_default();
            let message = format!("Back-off pulling image \"{image}\"");
            self.container(container, waiting("ImagePullBackOff", Some(message)), false)
        });
        self.conditions(&mut status, Readiness { sandbox: true, initialized: true, containers: false });
        (status != self.old).then_some(status)
    }

    /// The status after the containers have exited with this code: finished, or waiting for a restart.
    pub(crate) fn ended(&self, code: i32) -> PodStatus {
        let policy = self.spec.restart_policy.as_deref().unwrap_or("Always");
        if policy == "Never" || (policy == "OnFailure" && code == 0) || (code == 0 && policy == "Always") {
            return self.finished(code);
        }
        let mut status = self.old.clone();
        status.container_statuses = self.each(&self.spec.containers, &|container| {
            let mut status =
                self.container(container, waiting("CrashLoopBackOff", Some(self.back_off(container))), false);
            status.restart_count = status.restart_count.saturating_add(1);
            status.last_state = Some(self.terminate(container, code));
            status
        });
        self.conditions(&mut status, Readiness { sandbox: true, initialized: true, containers: false });
        status
    }

    fn back_off(&self, container: &Container) -> String {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let name = self.pod.metadata.name.as_deref().unwrap_or_default();
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        let restarts = self.old_container(container).map_or(0, |old| old.restart_count).saturating_add(1);
        let wait = super::behaviour::restart_after(restarts).as_secs();
        let wait = if wait >= 60 { format!("{}m{}s", wait / 60, wait % 60) } else { format!("{wait}s") };
        format!(
            "back-off {wait} restarting failed container={} pod={name}_{namespace}({uid})",
            container.name
        )
    }

    fn finished(&self, code: i32) -> PodStatus {
        let mut status = self.old.clone();
        status.phase = Some(if code == 0 { "Succeeded" } else { "Failed" }.to_owned());
        status.container_statuses = self.each(&self.spec.containers, &|container| self.end(container, code));
        self.conditions(&mut status, Readiness { sandbox: false, initialized: true, containers: false });
        status
    }

    /// The status of a pod that was deleted and has stopped.
    pub(crate) fn stopped(&self) -> PodStatus {
        if pod::is_finished(self.pod) || self.old.start_time.is_none() {
            self.old.clone()
        } else {
            self.finished(0)
        }
    }

    fn end(&self, container: &Container, code: i32) -> ContainerStatus {
        let mut status = self.container(container, self.terminate(container, code), false);
        status.started = Some(false);
        status
    }

    fn with_addresses(&self) -> PodStatus {
        let mut status = self.old.clone();
        let host_network = self.spec.host_network == Some(true);
        let address = if host_network { &self.host.address } else { &self.host.pod_address };
        if status.pod_ip.is_none() {
            status.pod_ip = Some(address.clone());
            status.pod_ips = Some(vec![PodIP { ip: address.clone() }]);
        }
        status
    }

    fn each(
        &self,
        containers: &[Container],
        status: &dyn Fn(&Container) -> ContainerStatus,
    ) -> Option<Vec<ContainerStatus>> {
        (!containers.is_empty()).then(|| containers.iter().map(status).collect())
    }

    fn old_container(&self, container: &Container) -> Option<&ContainerStatus> {
        let all = self.old.container_statuses.iter().chain(&self.old.init_container_statuses).flatten();
        all.into_iter().find(|status| status.name == container.name)
    }

    fn container(&self, container: &Container, state: ContainerState, ready: bool) -> ContainerStatus {
        let old = self.old_container(container);
        let image = container.image.clone().unwrap_or_default();
        let created = state.waiting.is_none() || old.is_some_and(|old| old.container_id.is_some());
        let restarts = old.map_or(0, |old| old.restart_count);
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        let started = state.running.is_some();
        ContainerStatus {
            name: container.name.clone(),
            container_id: created.then(|| container_id(uid, &container.name, restarts)),
            image_id: if created { image_id(&image) } else { String::new() },
            image,
            ready,
            started: Some(started),
            restart_count: restarts,
            state: Some(state),
            last_state: old.and_then(|old| old.last_state.clone()),
            ..ContainerStatus::default()
        }
    }

    /// The running state. A container that already runs keeps its start time.
    fn run(&self, container: &Container) -> ContainerState {
        let state = self.old_container(container).and_then(|old| old.state.as_ref());
        let running = state.and_then(|state| state.running.clone());
        let running = running.unwrap_or(ContainerStateRunning { started_at: Some(Time(self.host.now)) });
        ContainerState { running: Some(running), ..ContainerState::default() }
    }

    fn terminate(&self, container: &Container, code: i32) -> ContainerState {
        let old = self.old_container(container);
        let state = old.and_then(|old| old.state.as_ref());
        if let Some(ended) = state.and_then(|state| state.terminated.clone()) {
            return ContainerState { terminated: Some(ended), ..ContainerState::default() };
        }
        let started =
            state.and_then(|state| state.running.as_ref()).and_then(|running| running.started_at.clone());
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        ContainerState {
            terminated: Some(ContainerStateTerminated {
                container_id: Some(container_id(
                    uid,
                    &container.name,
                    old.map_or(0, |old| old.restart_count),
                )),
                exit_code: code,
                reason: Some(if code == 0 { "Completed" } else { "Error" }.to_owned()),
                started_at: Some(started.unwrap_or(Time(self.host.now))),
                finished_at: Some(Time(self.host.now)),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        }
    }
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
    fn conditions(&self, status: &mut PodStatus, readiness: Readiness) {
        let finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        let unready = |reason: &str| Some((reason.to_owned(), self.unready(status, finished)));
        let not_ready = if finished { unready("PodCompleted") } else { unready("ContainersNotReady") };
        let initialized = (!readiness.initialized).then(|| {
            let names: Vec<_> =
                self.spec.init_containers.iter().flatten().map(|container| container.name.as_str()).collect();
            (
                "ContainersNotInitialized".to_owned(),
                format!("containers with incomplete status: [{}]", names.join(" ")),
            )
        });
        let succeeded = finished && readiness.initialized;
        let initialized =
            if succeeded { Some(("PodCompleted".to_owned(), String::new())) } else { initialized };
        let ready = if readiness.containers { self.gate() } else { not_ready.clone() };
        let own = [
            (OWN[0], readiness.sandbox, None),
            (OWN[1], readiness.initialized, initialized),
            (OWN[2], readiness.containers && ready.is_none(), ready),
            (OWN[3], readiness.containers, not_ready.filter(|_| !readiness.containers)),
            (OWN[4], true, None),
        ];
        let mut conditions = self.old.conditions.clone().unwrap_or_default();
        conditions.retain(|condition| !OWN.contains(&condition.type_.as_str()));
        for (kind, holds, why) in own {
            conditions.push(self.condition(kind, holds, why));
        }
        status.observed_generation = self.pod.metadata.generation;
        status.conditions = Some(conditions);
    }

    fn condition(&self, kind: &str, holds: bool, why: Option<(String, String)>) -> PodCondition {
        let state = if holds { "True" } else { "False" };
        let old = pod::condition(self.pod, kind).filter(|old| old.status == state);
        let since = old.and_then(|old| old.last_transition_time.clone()).unwrap_or(Time(self.host.now));
        let (reason, message) = why.map_or((None, None), |(reason, message)| (Some(reason), Some(message)));
        PodCondition {
            type_: kind.to_owned(),
            status: state.to_owned(),
            reason,
            message: message.filter(|message| !message.is_empty()),
            last_transition_time: Some(since),
            observed_generation: self.pod.metadata.generation,
            ..PodCondition::default()
        }
    }

    fn unready(&self, status: &PodStatus, finished: bool) -> String {
        if finished {
            return String::new();
        }
        let unready = status.container_statuses.iter().flatten().filter(|container| !container.ready);
        let names: Vec<_> = unready.map(|container| container.name.as_str()).collect();
        format!("containers with unready status: [{}]", names.join(" "))
    }

    /// Returns reason and message if a readiness gate is not satisfied.
    fn gate(&self) -> Option<(String, String)> {
        let messages = self.spec.readiness_gates.iter().flatten().filter_map(|gate| {
            let kind = &gate.condition_type;
            match pod::condition(self.pod, kind) {
                None => {
                    Some(format!("corresponding condition of pod readiness gate \"{kind}\" does not exist."))
                }
                Some(condition) if condition.status != "True" => Some(format!(
                    "the status of pod readiness gate \"{kind}\" is not \"True\", but {}",
                    condition.status
                )),
                Some(_) => None,
            }
        });
        let messages: Vec<_> = messages.collect();
        (!messages.is_empty()).then(|| ("ReadinessGatesNotReady".to_owned(), messages.join(", ")))
    }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }),
        ..ContainerState::default()
    }
}

//! The life of a pod on a node, as a pure function of the pod and its surroundings.
//!
//! Each step moves every container that can move ([`container`](super::container)), and derives the status of the pod
//! from theirs.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_tree::{Tree, tree};
use tokio::time::Instant;

use super::admission::Refusal;
use super::behaviour::{Behaviour, Delay, START, STOP};
use super::bounds::Printed;
use super::container::{ContainerMemory, KILLED, Note, Now, Role, State, TERMINATED, Turn};
use super::references::Missing;
use super::restart_all;
use super::script::Run;
use super::status::{
    CONTAINERS, EPHEMERAL_CONTAINERS, Host, INIT_CONTAINERS, Readiness, find, init_role, name, phase,
    set_addresses, set_conditions,
};
use super::wake::Wakes;
use crate::kinds::Pod;
use crate::object::{Fields, time};
use crate::{clock, pod};

/// The surroundings of a pod in one step.
pub(crate) struct Surroundings<'a> {
    pub(crate) host: &'a Host,
    pub(crate) now: Now,
    /// Returns the behaviour of a container, given its name and image.
    pub(crate) behaviour: &'a dyn Fn(&str, &str) -> Behaviour,
    /// Interprets the command of a container, for a run after so many restarts.
    pub(crate) interpret: &'a dyn Fn(&Tree, i32) -> Option<Run>,
    pub(crate) missing: &'a Missing,
    /// Why the node refuses the pod, if it does.
    pub(crate) refusal: Option<Refusal>,
}

/// What a node remembers of a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodMemory {
    /// How many runs earlier pods of the Job had.
    pub(crate) earlier_runs: i32,
    containers: BTreeMap<String, Option<ContainerMemory>>,
    /// When the pod began to wait for its volumes.
    mounting: Option<Instant>,
    /// When the pod began to stop.
    stopping: Option<Instant>,
    /// The missing objects that the last recorded events named.
    told: Vec<String>,
}

impl PodMemory {
    /// Whether a container runs a command that the node understands, and must not begin anew.
    pub(crate) fn has_runs(&self) -> bool {
        self.containers.values().flatten().any(ContainerMemory::has_run)
    }
}

/// What a node does for a pod now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    /// The next status, if it differs from the current one.
    pub(crate) status: Option<Tree>,
    /// Whether to delete the pod with a grace period of zero, after writing the status.
    pub(crate) remove: bool,
    pub(crate) notes: Vec<Note>,
    /// When to look at the pod again, unless something changes earlier.
    pub(crate) wakes: Wakes,
    /// The containers whose next run has begun, and what their commands print.
    pub(crate) started: Vec<(String, Printed)>,
}

/// Whether a container of the pod waits for its start or may be restarted, which may need objects that the pod refers to.
pub(crate) fn needs_references(pod: &Pod) -> bool {
    let starts = |(spec, statuses): (&str, &str)| {
        let statuses = pod.at("status").list(statuses);
        pod.list(spec).iter().any(|container| {
            matches!(
                State::of(find(statuses, name(container))),
                State::Waiting
                    | State::ConfigError
                    | State::BackOff
                    | State::PullBackOff
                    | State::PullFailed
                    | State::Ended
            )
        })
    };
    !pod.is_deleting()
        && pod.has("status/startTime")
        && !pod::is_finished(pod)
        && [CONTAINERS, INIT_CONTAINERS, EPHEMERAL_CONTAINERS].into_iter().any(starts)
}

/// Returns the next step of the node for a pod.
pub(crate) fn step(pod: &Pod, around: &Surroundings<'_>, memory: &mut PodMemory) -> Step {
    let mut look = Look { pod, around, old: pod.at("status"), memory, step: Step::default() };
    if pod.is_deleting() {
        look.stop();
    } else if !pod.has("status/startTime") {
        look.accept();
    } else if !pod::is_finished(pod) {
        look.live();
    }
    look.step
}

struct Look<'a, 'm> {
    pod: &'a Pod,
    around: &'a Surroundings<'a>,
    old: &'a Tree,
    memory: &'m mut PodMemory,
    step: Step,
}

impl<'a> Look<'a, '_> {
    fn write(&mut self, status: Tree) {
        self.step.status = (status != *self.old).then_some(status);
    }

    /// Accepts or refuses a pod that was bound to the node.
    fn accept(&mut self) {
        let mut status = self.old.clone();
        status.set("startTime", time(self.around.now.time));
        if let Some(Refusal { reason, message }) = &self.around.refusal {
            status.set("phase", "Failed");
            status.set("reason", reason.as_str());
            status.set("message", format!("Pod was rejected: {message}"));
            status.set("observedGeneration", self.pod.metadata.generation);
            self.step.notes.push(Note::warning(reason.clone(), message.as_str()));
            return self.write(status);
        }
        status.set("phase", "Pending");
        status.set("hostIP", &self.around.host.address);
        status.set("hostIPs", vec![tree!({"ip": &self.around.host.address})]);
        let inits = !self.pod.list(INIT_CONTAINERS.0).is_empty();
        let reason = if inits { "PodInitializing" } else { "ContainerCreating" };
        for list in [CONTAINERS, INIT_CONTAINERS] {
            let behaviour = Behaviour::default();
            let containers = self.pod.list(list.0).iter();
            let all: Vec<_> =
                containers.map(|it| self.turn(it, list, false, &behaviour).waiting(reason, None)).collect();
            status.set(list.1, (!all.is_empty()).then_some(all));
        }
        set_conditions(
            self.pod,
            &mut status,
            Readiness { sandbox: false, initialized: !inits },
            self.around.now.time,
        );
        self.write(status);
    }

    fn turn<'b>(
        &self,
        container: &'b Tree,
        (spec, statuses): (&str, &str),
        may_start: bool,
        behaviour: &'b Behaviour,
    ) -> Turn<'b>
    where
        'a: 'b,
    {
        let role = match spec {
            _ if spec == INIT_CONTAINERS.0 => init_role(container),
            _ if spec == CONTAINERS.0 => Role::Main,
            _ => Role::Ephemeral,
        };
        let name = name(container);
        let trouble = self.around.missing.environments.iter().find(|(known, _)| known == name);
        Turn {
            pod: self.pod,
            container,
            old: find(self.old.list(statuses), name),
            role,
            behaviour,
            may_start,
            trouble: trouble.map(|(_, why)| why.as_str()),
            earlier_runs: self.memory.earlier_runs,
            interpret: self.around.interpret,
            now: self.around.now,
        }
    }

    /// Moves one container forward, and returns its next status.
    fn take(&mut self, container: &'a Tree, list: (&str, &str), may_start: bool) -> Tree {
        let name = name(container);
        let behaviour = (self.around.behaviour)(name, container.str("image").unwrap_or_default());
        let turn = self.turn(container, list, may_start, &behaviour);
        let memory = self.memory.containers.entry(name.to_owned()).or_default();
        let outcome = turn.take(memory, &mut self.step.wakes);
        self.step.notes.extend(outcome.notes);
        if let Some(lines) = outcome.started {
            self.step.started.push((name.to_owned(), lines));
        }
        outcome.status
    }

    /// Moves a live pod forward: volumes are mounted; containers start, run and end.
    fn live(&mut self) {
        if self.is_past_deadline() {
            return self.expire();
        }
        let sandbox =
            pod::condition(self.pod, "PodReadyToStartContainers").is_some_and(|it| it.is("status", "True"));
        if !sandbox && !self.mount() {
            return;
        }
        if restart_all::is_next(self.pod) {
            return self.remove_all();
        }
        self.tell_pull_secrets();
        let mut status = self.old.clone();
        set_addresses(self.pod, self.around.host, &mut status);
        let (initialized, past) = self.initialize(&mut status);
        self.run_all(&mut status, CONTAINERS, (initialized, past));
        if self.pod.has(EPHEMERAL_CONTAINERS.0) {
            self.run_all(&mut status, EPHEMERAL_CONTAINERS, (initialized, past));
        }
        self.tell_resize(&status);
        let phase = self.phase(&status);
        status.set("phase", phase);
        if matches!(phase, "Succeeded" | "Failed") {
            self.stop_containers(&mut status, &|_| 0);
            self.step.wakes = Wakes::default();
        } else {
            // As long as nothing has started, the pod keeps the status of an accepted pod.
            let same = |list: &str| status.list(list) == self.old.list(list);
            if !sandbox && same(CONTAINERS.1) && same(INIT_CONTAINERS.1) {
                return;
            }
        }
        let readiness = Readiness { sandbox: true, initialized };
        set_conditions(self.pod, &mut status, readiness, self.around.now.time);
        self.write(status);
    }

    fn phase(&self, status: &Tree) -> &'static str {
        let may_restart = |container: &Tree, code: i32| {
            let list = if self.is_init(container) { INIT_CONTAINERS } else { CONTAINERS };
            self.turn(container, list, true, &Behaviour::default()).restarts_after(code)
        };
        phase(self.pod, status, &may_restart)
    }

    /// Kills and removes all containers, so that they start again in their order.
    fn remove_all(&mut self) {
        let mut status = self.old.clone();
        for list in [INIT_CONTAINERS.1, CONTAINERS.1] {
            let all: Vec<_> = self.old.list(list).iter().map(restart_all::removed).collect();
            status.set(list, (!all.is_empty()).then_some(all));
        }
        let running = self.running().filter(|(role, _)| *role != Role::Ephemeral);
        let killed = running.map(|(role, name)| Note {
            warning: false,
            reason: "Killing".into(),
            text: "killing".to_owned(),
            path: Some(role.field_path(&name)),
        });
        self.step.notes.extend(killed.collect::<Vec<_>>());
        let phase = self.phase(&status);
        status.set("phase", phase);
        let initialized = pod::condition(self.pod, "Initialized").is_some_and(|it| it.is("status", "True"));
        let readiness = Readiness { sandbox: true, initialized };
        set_conditions(self.pod, &mut status, readiness, self.around.now.time);
        self.write(status);
    }

    /// Records that the resources of running containers have changed.
    fn tell_resize(&mut self, status: &Tree) {
        let resized = [INIT_CONTAINERS.1, CONTAINERS.1].into_iter().any(|list| {
            self.old.list(list).iter().any(|old| {
                let new = find(status.list(list), name(old));
                old.has("state/running") && old.has("resources") && old.at("resources") != new.at("resources")
            })
        });
        if !resized {
            return;
        }
        let summary = resize_summary(self.pod);
        for (reason, what) in [("ResizeStarted", "started"), ("ResizeCompleted", "completed")] {
            let text = format!("Pod resize {what}: {summary}");
            self.step.notes.push(Note { warning: false, ..Note::warning(reason, text) });
        }
    }

    fn is_init(&self, container: &Tree) -> bool {
        self.pod.list(INIT_CONTAINERS.0).iter().any(|it| name(it) == name(container))
    }

    /// Mounts the volumes. Returns false if something is missing, in which case the pod waits.
    fn mount(&mut self) -> bool {
        if self.around.missing.volumes.is_empty() {
            return true;
        }
        let since = *self.memory.mounting.get_or_insert(self.around.now.instant);
        let waited = self.around.now.instant.saturating_duration_since(since);
        // A missing object that appears a moment later, such as the root certificate of a new namespace, deserves no
        // event.
        if waited < START {
            self.step.wakes.add(START - waited);
        } else if self.memory.told != self.around.missing.volumes {
            self.memory.told.clone_from(&self.around.missing.volumes);
            let notes =
                self.around.missing.volumes.iter().map(|why| Note::warning("FailedMount", why.as_str()));
            self.step.notes.extend(notes);
        }
        self.deadline_wake();
        false
    }

    fn tell_pull_secrets(&mut self) {
        let missing = &self.around.missing.pull_secrets;
        if missing.is_empty() || self.memory.told == *missing {
            return;
        }
        self.memory.told.clone_from(missing);
        let text = format!(
            "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
            missing.join(", ")
        );
        self.step.notes.push(Note::warning("FailedToRetrieveImagePullSecret", text));
    }

    /// Moves the init containers forward. Returns whether the pod is initialized, which it stays, and whether all init
    /// containers are past their start or end at present.
    fn initialize(&mut self, status: &mut Tree) -> (bool, bool) {
        let inits = self.pod.list(INIT_CONTAINERS.0);
        if inits.is_empty() {
            return (true, true);
        }
        let was = pod::condition(self.pod, "Initialized").is_some_and(|it| it.is("status", "True"));
        let mut past = true;
        let mut all = Vec::with_capacity(inits.len());
        for container in inits {
            let old = find(self.old.list(INIT_CONTAINERS.1), name(container));
            let next = match init_role(container) {
                Role::Init if was && has_succeeded(old) => old.clone(),
                _ => self.take(container, INIT_CONTAINERS, may_start(old, (was, past))),
            };
            past &= match init_role(container) {
                Role::Init => has_succeeded(&next),
                _ => next.has("state/running") && next.is_true("started"),
            };
            all.push(next);
        }
        status.set(INIT_CONTAINERS.1, all);
        (was || past, past)
    }

    fn run_all(&mut self, status: &mut Tree, list: (&str, &str), turn: (bool, bool)) {
        let containers = self.pod.list(list.0).iter();
        let all: Vec<_> = containers
            .map(|it| self.take(it, list, may_start(find(self.old.list(list.1), name(it)), turn)))
            .collect();
        status.set(list.1, (!all.is_empty()).then_some(all));
    }

    /// Returns when the pod's active deadline expires.
    fn deadline(&self) -> Option<Duration> {
        let seconds = self.pod.i64("spec/activeDeadlineSeconds")?;
        let end = clock::after(self.old.time("startTime")?, seconds);
        Some(Duration::try_from(end.duration_since(self.around.now.time)).unwrap_or(Duration::ZERO))
    }

    fn deadline_wake(&mut self) {
        if let Some(left) = self.deadline() {
            self.step.wakes.add_upkeep(left);
        }
    }

    fn is_past_deadline(&mut self) -> bool {
        self.deadline_wake();
        self.deadline().is_some_and(|left| left.is_zero())
    }

    /// Fails a pod whose active deadline has expired.
    fn expire(&mut self) {
        const MESSAGE: &str = "Pod was active on the node longer than the specified deadline";
        self.step.wakes = Wakes::default();
        let mut status = self.old.clone();
        self.stop_containers(&mut status, &|_| TERMINATED);
        status.set("phase", "Failed");
        status.set("reason", "DeadlineExceeded");
        status.set("message", MESSAGE);
        self.step.notes.push(Note { warning: false, ..Note::warning("DeadlineExceeded", MESSAGE) });
        let initialized = pod::condition(self.pod, "Initialized").is_some_and(|it| it.is("status", "True"));
        set_conditions(
            self.pod,
            &mut status,
            Readiness { sandbox: false, initialized },
            self.around.now.time,
        );
        self.write(status);
    }

    /// Stops all running containers of a status, with the exit codes that `code` returns.
    fn stop_containers(&self, status: &mut Tree, code: &dyn Fn(&Tree) -> i32) {
        let behaviour = Behaviour::default();
        for list in [INIT_CONTAINERS, CONTAINERS, EPHEMERAL_CONTAINERS] {
            let all = self.pod.list(list.0).iter().map(|container| {
                let present = find(status.list(list.1), name(container));
                let turn = Turn { old: present, ..self.turn(container, list, false, &behaviour) };
                turn.stopped(code(container))
            });
            let all: Vec<_> = all.collect();
            status.set(list.1, (!all.is_empty()).then_some(all));
        }
    }

    /// Moves a pod that is being deleted forward: its containers end within the grace period, then it is removed.
    fn stop(&mut self) {
        self.step.remove = true;
        if pod::is_finished(self.pod) || !self.old.has("startTime") {
            return;
        }
        let since = self.memory.stopping.is_none().then(|| self.tell_stop());
        let since = since.or(self.memory.stopping).unwrap_or(self.around.now.instant);
        let stopped = self.around.now.instant.saturating_duration_since(since);
        let grace = u64::try_from(self.pod.metadata.deletion_grace_period_seconds.unwrap_or(0)).unwrap_or(0);
        let grace = Duration::from_secs(grace);
        let needed = self.stop_time().min(grace);
        if stopped < needed {
            self.step.remove = false;
            self.step.wakes.add(needed - stopped);
            return;
        }
        let mut status = self.old.clone();
        let always = self.pod.str("spec/restartPolicy").unwrap_or("Always") == "Always";
        let ends = |container: &Tree| match self.container_stop_time(container) {
            Some(time) if time <= grace || grace.is_zero() => match self.told_stop(container) {
                Some(Some((_, code))) => code,
                _ if always => 0,
                _ => TERMINATED,
            },
            _ => KILLED,
        };
        self.stop_containers(&mut status, &ends);
        // A container that never ran has not succeeded.
        let failed =
            status.list(CONTAINERS.1).iter().any(|it| it.i32("state/terminated/exitCode") != Some(0));
        status.set("phase", if failed { "Failed" } else { "Succeeded" });
        let initialized = pod::condition(self.pod, "Initialized").is_some_and(|it| it.is("status", "True"));
        set_conditions(
            self.pod,
            &mut status,
            Readiness { sandbox: false, initialized },
            self.around.now.time,
        );
        self.write(status);
    }

    /// Records that the containers were told to stop. Returns the current time.
    fn tell_stop(&mut self) -> Instant {
        let running = self.running();
        let notes = running.map(|(role, name)| Note {
            warning: false,
            reason: "Killing".into(),
            text: format!("Stopping container {name}"),
            path: Some(role.field_path(&name)),
        });
        let notes: Vec<_> = notes.collect();
        self.step.notes.extend(notes);
        self.memory.stopping = Some(self.around.now.instant);
        self.around.now.instant
    }

    fn running(&self) -> impl Iterator<Item = (Role, String)> {
        let lists = [
            (Role::Init, INIT_CONTAINERS.1),
            (Role::Main, CONTAINERS.1),
            (Role::Ephemeral, EPHEMERAL_CONTAINERS.1),
        ];
        let running =
            lists.into_iter().flat_map(|(role, list)| self.old.list(list).iter().map(move |it| (role, it)));
        let running = running.filter(|(_, status)| status.has("state/running"));
        running.map(|(role, status)| (role, name(status).to_owned())).collect::<Vec<_>>().into_iter()
    }

    /// Returns how long the slowest container takes to stop.
    fn stop_time(&self) -> Duration {
        let running: Vec<_> = self.running().collect();
        let lists = [INIT_CONTAINERS.0, CONTAINERS.0, EPHEMERAL_CONTAINERS.0];
        let containers = lists.into_iter().flat_map(|list| self.pod.list(list));
        let stopping = containers.filter(|it| running.iter().any(|(_, running)| running == name(it)));
        stopping
            .map(|it| self.container_stop_time(it).unwrap_or(Duration::MAX))
            .max()
            .unwrap_or(Duration::ZERO)
    }

    /// Returns how long a container takes to stop, or `None` if it never stops by itself.
    fn container_stop_time(&self, container: &Tree) -> Option<Duration> {
        let behaviour = (self.around.behaviour)(name(container), container.str("image").unwrap_or_default());
        let hook = container.i64("lifecycle/preStop/sleep/seconds").and_then(|it| u64::try_from(it).ok());
        let own = match self.told_stop(container) {
            Some(None) => Delay::Never,
            Some(Some((time, _))) => Delay::After(time.max(STOP)),
            None => Delay::After(STOP),
        };
        match behaviour.stop_after.unwrap_or(own) {
            Delay::Never => None,
            Delay::After(time) => Some(time.saturating_add(Duration::from_secs(hook.unwrap_or(0)))),
        }
    }

    /// Returns how a container's command reacts to SIGTERM, if it sets a `trap`; see [`Run::stops`].
    fn told_stop(&self, container: &Tree) -> Option<Option<(Duration, i32)>> {
        self.memory.containers.get(name(container))?.as_ref()?.stops()
    }
}

fn has_succeeded(status: &Tree) -> bool {
    status.i32("state/terminated/exitCode") == Some(0)
}

/// Whether a container may start in a pod that is initialized, or whose earlier init containers are past. Once the pod is
/// initialized, only a restart of all containers makes one wait for others.
fn may_start(status: &Tree, (initialized, past): (bool, bool)) -> bool {
    past || (initialized && !restart_all::waits(status))
}

/// Returns the resources of all containers as the events about a resize tell them: as JSON, in kubelet's order.
fn resize_summary(pod: &Pod) -> String {
    let lists = [("initContainers", INIT_CONTAINERS.0), ("containers", CONTAINERS.0)];
    let mut parts = Vec::with_capacity(3);
    for (key, list) in lists {
        let all = pod.list(list).iter().map(|container| {
            let resources = container.at("resources");
            let resources = if resources.is_null() { tree!({}) } else { resources.clone() };
            tree!({"name": name(container), "resources": resources})
        });
        let all: Vec<_> = all.collect();
        if !all.is_empty() {
            parts.push(format!("\"{key}\":{}", Tree::from(all)));
        }
    }
    parts.push(format!("\"generation\":{}", pod.metadata.generation.unwrap_or(0)));
    format!("{{{}}}", parts.join(","))
}

#[cfg(test)]
mod tests;

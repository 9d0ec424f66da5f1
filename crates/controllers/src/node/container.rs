//! One container on a node: a state machine whose state is the status that the node writes.
//!
//! The state is read from the status. The node remembers what a status cannot hold (fractions of seconds, failed pulls,
//! the level of the back-off); a restarted node begins with what the status says.

use std::borrow::Cow;
use std::time::Duration;

use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;
use tokio::time::Instant;

use super::behaviour::{Behaviour, Delay, Pull, RUN, START};
use super::bounds::Printed;
use super::container_ids::{container_id, image_id};
use super::probe::{Health, Probes};
use super::restart_all;
use super::script::Run;
use super::wake::Wakes;
use crate::kinds::Pod;
use crate::object::{Fields, time};
use crate::pod;

/// The delay before the second restart of a container. It doubles up to [`BACK_OFF_MAX`], as kubelet's does. The first
/// restart comes at once.
const BACK_OFF: Duration = Duration::from_secs(10);

/// The longest delay before the restart of a container, and before the next pull of an image.
const BACK_OFF_MAX: Duration = Duration::from_secs(300);

/// A container that has run for this long starts again with the first delay: twice the longest delay, like kubelet's.
const BACK_OFF_RESET: Duration = Duration::from_secs(600);

/// From this many restarts on, restarts that all end alike are counted several at once. By then, they happen every five
/// minutes, and a container that crashes for a year would otherwise cost a hundred thousand writes.
const COUNTED_ONE_BY_ONE: i32 = 16;

/// The exit code of a process that ends because of SIGKILL, and that of one that ends because of SIGTERM.
pub(crate) const KILLED: i32 = 137;
pub(crate) const TERMINATED: i32 = 143;

/// The role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// An init container, which must end before the next one starts.
    Init,
    /// An init container that keeps running beside the others.
    Sidecar,
    /// A regular container of the pod.
    Main,
    /// An ephemeral container, for debugging.
    Ephemeral,
}

impl Role {
    /// Returns the path of a container in events.
    pub(crate) fn field_path(self, name: &str) -> String {
        let list = match self {
            Self::Init | Self::Sidecar => "initContainers",
            Self::Main => "containers",
            Self::Ephemeral => "ephemeralContainers",
        };
        format!("spec.{list}{{{name}}}")
    }
}

/// The state of a container, as read from its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The container waits for its start.
    Waiting,
    /// The container's environment refers to something that is missing.
    ConfigError,
    /// The last pull of the image failed.
    PullFailed,
    /// The container waits for the next pull of its image.
    PullBackOff,
    /// The container waits for its next restart.
    BackOff,
    Running,
    /// The container has exited. A container that is restarted at once is in this state for a moment.
    Ended,
}

impl State {
    /// Reads the state from a container status, which is null if there is none yet.
    pub(crate) fn of(status: &Tree) -> Self {
        if status.has("state/running") {
            return Self::Running;
        }
        if status.has("state/terminated") {
            return Self::Ended;
        }
        match status.str("state/waiting/reason") {
            Some("CreateContainerConfigError") => Self::ConfigError,
            Some("ErrImagePull") => Self::PullFailed,
            Some("ImagePullBackOff") => Self::PullBackOff,
            Some("CrashLoopBackOff") => Self::BackOff,
            _ => Self::Waiting,
        }
    }
}

/// What a node remembers of a container.
#[derive(Clone, Debug)]
pub(crate) struct ContainerMemory {
    state: State,
    restarts: i32,
    /// When the container entered its state.
    since: Instant,
    /// When the container was first allowed to start.
    startable: Option<Instant>,
    failed_pulls: u32,
    /// How many restarts happened since the back-off began.
    level: u32,
    /// What the container's command does in the current run.
    run: Option<Run>,
}

impl ContainerMemory {
    /// Returns what the present run prints: what the container's behaviour says, or else what its command prints.
    fn prints(&self, behaviour: &Behaviour) -> Option<Printed> {
        let by_command = || self.run.as_ref().map(|run| run.log.clone());
        Some(behaviour.log.clone().or_else(by_command).unwrap_or_default())
    }

    /// Returns how the present run reacts to SIGTERM, if its command sets a `trap`; see [`Run::stops`].
    pub(crate) fn stops(&self) -> Option<Option<(Duration, i32)>> {
        self.run.as_ref()?.stops
    }

    /// Whether the container runs a command that the node understands.
    pub(crate) fn has_run(&self) -> bool {
        self.run.is_some()
    }
}

/// What happened to a container, for the pod's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) warning: bool,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) text: String,
    /// The path of the container in the pod, or `None` if the event is about the whole pod.
    pub(crate) path: Option<String>,
}

impl Note {
    /// A note about the whole pod.
    pub(crate) fn warning(reason: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self { warning: true, reason: reason.into(), text: text.into(), path: None }
    }
}

/// The time at which a pod is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// The time in whole seconds, as a status stores it.
    pub(crate) time: Timestamp,
    pub(crate) instant: Instant,
}

/// The input for moving one container forward.
pub(crate) struct Turn<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Tree,
    /// The current status, which is null if there is none yet.
    pub(crate) old: &'a Tree,
    pub(crate) role: Role,
    pub(crate) behaviour: &'a Behaviour,
    /// Whether everything that must come before this container is done.
    pub(crate) may_start: bool,
    /// Why the environment of the container cannot be built, if so.
    pub(crate) trouble: Option<&'a str>,
    /// How many runs earlier pods had, for the list of exit codes.
    pub(crate) earlier_runs: i32,
    /// Interprets the command of the container, for a run after so many restarts.
    pub(crate) interpret: &'a dyn Fn(&Tree, i32) -> Option<Run>,
    pub(crate) now: Now,
}

/// The result of moving a container forward.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) status: Tree,
    pub(crate) notes: Vec<Note>,
    /// What the run that has just begun prints.
    pub(crate) started: Option<Printed>,
}

/// How a run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Exit {
    after: Duration,
    code: i32,
    /// The probe whose failure makes the node kill the container.
    probe: Option<&'static str>,
}

impl Turn<'_> {
    pub(crate) fn name(&self) -> &str {
        self.container.str("name").unwrap_or_default()
    }

    fn image(&self) -> &str {
        self.container.str("image").unwrap_or_default()
    }

    fn restarts(&self) -> i32 {
        self.old.i32("restartCount").unwrap_or(0)
    }

    fn note(&self, warning: bool, reason: &'static str, text: String) -> Note {
        Note { warning, reason: reason.into(), text, path: Some(self.role.field_path(self.name())) }
    }

    /// Returns what the node remembers, after updating it to the current status.
    fn recall<'m>(&self, memory: &'m mut Option<ContainerMemory>) -> &'m mut ContainerMemory {
        let (state, restarts) = (State::of(self.old), self.restarts());
        let unknown = memory.is_none();
        let memory = memory.get_or_insert_with(|| ContainerMemory {
            state,
            restarts,
            since: self.since_status(state),
            startable: None,
            failed_pulls: 0,
            level: u32::try_from(restarts).unwrap_or(0),
            run: None,
        });
        if (memory.state, memory.restarts) != (state, restarts) {
            if state == State::Waiting {
                memory.startable = None;
            }
            (memory.state, memory.restarts, memory.since) = (state, restarts, self.now.instant);
        }
        if state == State::Running && memory.run.is_none() && unknown {
            memory.run = (self.interpret)(self.container, restarts);
        }
        if self.may_start && memory.startable.is_none() {
            memory.startable = Some(self.now.instant);
        }
        memory
    }

    /// Returns when the container entered its state, as far as the status shows it.
    fn since_status(&self, state: State) -> Instant {
        let since = match state {
            State::Running => self.old.time("state/running/startedAt"),
            State::BackOff => self.old.time("lastState/terminated/finishedAt"),
            _ => None,
        };
        let passed = since.and_then(|since| Duration::try_from(self.now.time.duration_since(since)).ok());
        passed.and_then(|passed| self.now.instant.checked_sub(passed)).unwrap_or(self.now.instant)
    }

    /// Moves the container forward: returns its next status, and enters in `wakes` when to look again.
    pub(crate) fn take(&self, memory: &mut Option<ContainerMemory>, wakes: &mut Wakes) -> Outcome {
        let memory = self.recall(memory);
        let elapsed = self.now.instant.saturating_duration_since(memory.since);
        match memory.state {
            _ if !self.may_start && memory.state != State::Running && memory.state != State::Ended => {
                self.stay()
            }
            State::Waiting => {
                let startable = memory.startable.unwrap_or(memory.since).max(memory.since);
                let waited = self.now.instant.saturating_duration_since(startable);
                match self.behaviour.start_after.unwrap_or(Delay::After(START)) {
                    Delay::Never => self.stay(),
                    Delay::After(delay) if waited < delay => self.wait(wakes, delay - waited),
                    Delay::After(_) => self.begin(memory),
                }
            }
            State::ConfigError => match self.trouble {
                Some(trouble) if self.old.is("state/waiting/message", trouble) => self.stay(),
                _ => self.begin(memory),
            },
            State::PullFailed if elapsed < START => self.wait(wakes, START - elapsed),
            State::PullFailed => self.pull_later(memory),
            State::PullBackOff => self.pull_again(memory, elapsed, wakes),
            State::BackOff => self.restart_later(memory, elapsed, wakes),
            State::Running => self.run(memory, elapsed, wakes),
            State::Ended => self.ended(memory, elapsed, wakes),
        }
    }

    fn stay(&self) -> Outcome {
        let status = match self.old.is_null() {
            true => self.waiting("PodInitializing", None),
            false => self.old.clone(),
        };
        Outcome { status, ..Outcome::default() }
    }

    fn wait(&self, wakes: &mut Wakes, left: Duration) -> Outcome {
        wakes.add(left);
        self.stay()
    }

    /// Whether the next pull of the image fails.
    fn pull_fails(&self, memory: &ContainerMemory) -> bool {
        match self.behaviour.pull {
            Some(Pull::Fails) => true,
            Some(Pull::FailsTimes(times)) => memory.failed_pulls < times,
            None => false,
        }
    }

    /// Returns the number of restarts that the next run has.
    fn next_restarts(&self) -> i32 {
        let number = self.restarts();
        // A container that waits after a run says so in its last state.
        let ended = container_id(self.uid(), self.name(), number);
        let has_run = self.last_state().is("terminated/containerID", &ended);
        if has_run { number.saturating_add(1) } else { number }
    }

    /// Returns how the last run ended, or null.
    fn last_state(&self) -> &Tree {
        if self.old.has("state/terminated") { self.old.at("state") } else { self.old.at("lastState") }
    }

    /// Whether the image is pulled before this run.
    fn pulls(&self, restarts: i32) -> bool {
        restarts == 0 || self.container.is("imagePullPolicy", "Always")
    }

    /// Pulls the image and starts the container, unless something fails.
    fn begin(&self, memory: &mut ContainerMemory) -> Outcome {
        let restarts = self.next_restarts();
        if self.pulls(restarts) && self.pull_fails(memory) {
            memory.failed_pulls = memory.failed_pulls.saturating_add(1);
            let why = self.pull_error();
            let notes = vec![
                self.note(false, "Pulling", format!("Pulling image {:?}", self.image())),
                self.note(true, "Failed", format!("Failed to pull image {:?}: {why}", self.image())),
                self.note(true, "Failed", "Error: ErrImagePull".to_owned()),
            ];
            return Outcome { status: self.waiting("ErrImagePull", Some(why)), notes, ..Outcome::default() };
        }
        if let Some(trouble) = self.trouble {
            let notes = vec![self.note(true, "Failed", format!("Error: {trouble}"))];
            let status = self.waiting("CreateContainerConfigError", Some(trouble.to_owned()));
            return Outcome { status, notes, ..Outcome::default() };
        }
        self.start(memory, restarts)
    }

    fn pull_error(&self) -> String {
        let image = self.image();
        format!(
            "rpc error: code = NotFound desc = failed to pull and unpack image {image:?}: failed to resolve reference \
             {image:?}: {image}: not found"
        )
    }

    fn pull_later(&self, memory: &mut ContainerMemory) -> Outcome {
        if self.behaviour.pull.is_none() {
            return self.begin(memory);
        }
        let back_off = format!("Back-off pulling image {:?}", self.image());
        let notes = vec![
            self.note(false, "BackOff", back_off.clone()),
            self.note(true, "Failed", "Error: ImagePullBackOff".to_owned()),
        ];
        let message = format!("{back_off}: ErrImagePull: {}", self.pull_error());
        Outcome { status: self.waiting("ImagePullBackOff", Some(message)), notes, ..Outcome::default() }
    }

    /// Pulls the image again after its back-off. An image that can never be pulled is not tried again, because nothing
    /// would change.
    fn pull_again(&self, memory: &mut ContainerMemory, elapsed: Duration, wakes: &mut Wakes) -> Outcome {
        if self.behaviour.pull == Some(Pull::Fails) {
            return self.stay();
        }
        let delay = back_off(memory.failed_pulls.max(1));
        if elapsed < delay {
            wakes.add_upkeep(delay - elapsed);
            return self.stay();
        }
        self.begin(memory)
    }

    /// Starts a run. A run that ends immediately is finished in the same step.
    fn start(&self, memory: &mut ContainerMemory, restarts: i32) -> Outcome {
        memory.run = (self.interpret)(self.container, restarts);
        let mut notes = self.start_notes(restarts);
        let exit = self.exit(memory, restarts);
        let health = self.probes().health(self.behaviour, Duration::ZERO);
        let state = tree!({"running": tree!({"startedAt": time(self.now.time)})});
        let running = self.status(state, health, restarts, self.last_state().clone());
        let status = match exit {
            Some(exit) if exit.after.is_zero() => self.end(memory, &running, &exit, &mut notes),
            _ => running,
        };
        Outcome { status, notes, started: memory.prints(self.behaviour) }
    }

    fn start_notes(&self, restarts: i32) -> Vec<Note> {
        let image = self.image();
        let mut notes = Vec::with_capacity(4);
        if self.container.is("imagePullPolicy", "Always") || self.behaviour.pull.is_some() && restarts == 0 {
            notes.push(self.note(false, "Pulling", format!("Pulling image {image:?}")));
            let pulled = format!(
                "Successfully pulled image {image:?} in 10ms (10ms including waiting). Image size: 0 bytes."
            );
            notes.push(self.note(false, "Pulled", pulled));
        } else {
            let present = format!(
                "Container image {image:?} already present on machine and can be accessed by the pod"
            );
            notes.push(self.note(false, "Pulled", present));
        }
        notes.push(self.note(false, "Created", "Container created".to_owned()));
        notes.push(self.note(false, "Started", "Container started".to_owned()));
        notes
    }

    fn probes(&self) -> Probes<'_> {
        Probes { container: self.container }
    }

    /// Returns how the current run ends, or `None` if it goes on until it is stopped.
    fn exit(&self, memory: &ContainerMemory, restarts: i32) -> Option<Exit> {
        let own = self.own_exit(memory.run.as_ref(), restarts);
        let killed = self.probes().killed(self.behaviour).map(|(after, probe)| Exit {
            after,
            code: KILLED,
            probe: Some(probe),
        });
        match (own, killed) {
            (Some(own), Some(killed)) => Some(if killed.after < own.after { killed } else { own }),
            (own, killed) => own.or(killed),
        }
    }

    /// Returns how the current run ends by itself.
    fn own_exit(&self, run: Option<&Run>, restarts: i32) -> Option<Exit> {
        let exit = |after, code| Some(Exit { after, code, probe: None });
        if let Some(codes) = &self.behaviour.exit_codes {
            let number = usize::try_from(self.earlier_runs.saturating_add(restarts)).unwrap_or(0);
            let code = codes.get(number).or(codes.last()).copied().flatten()?;
            return exit(self.behaviour.run_for.unwrap_or(RUN), code);
        }
        if let Some(length) = self.behaviour.run_for {
            return exit(length, 0);
        }
        if let Some(run) = run {
            return run.exit.and_then(|(after, code)| exit(after, code));
        }
        match self.role {
            Role::Init => exit(Duration::ZERO, 0),
            Role::Main if !self.always_restarts() && !is_pause(self.container) => exit(RUN, 0),
            Role::Main | Role::Sidecar | Role::Ephemeral => None,
        }
    }

    fn always_restarts(&self) -> bool {
        let own = self.container.str("restartPolicy");
        own.or(self.pod.str("spec/restartPolicy")).unwrap_or("Always") == "Always"
    }

    /// Whether the container is restarted after it exits with this code.
    pub(crate) fn restarts_after(&self, code: i32) -> bool {
        if self.role == Role::Ephemeral || self.pod.is_deleting() {
            return false;
        }
        if restart_action(self.container, code).is_some() {
            return true;
        }
        let policy = self.container.str("restartPolicy").or(self.pod.str("spec/restartPolicy"));
        match (self.role, policy.unwrap_or("Always")) {
            (Role::Sidecar, _) => true,
            (_, "Never") => false,
            (Role::Init, _) | (_, "OnFailure") => code != 0,
            _ => true,
        }
    }

    /// Whether the container is restarted after the node has killed it because of a failed probe.
    fn restarts_on_failure(&self) -> bool {
        let own = self.container.str("restartPolicy").or(self.pod.str("spec/restartPolicy"));
        self.role == Role::Sidecar || own != Some("Never")
    }

    /// Moves a running container forward: it exits, becomes ready or unready, or is resized.
    fn run(&self, memory: &mut ContainerMemory, elapsed: Duration, wakes: &mut Wakes) -> Outcome {
        let mut notes = Vec::new();
        let exit = self.exit(memory, self.restarts());
        if let Some(exit) = exit.as_ref().filter(|exit| exit.after <= elapsed) {
            let status = self.end(memory, self.old, exit, &mut notes);
            return Outcome { status, notes, started: None };
        }
        if let Some(why) = self.must_restart() {
            notes.push(self.note(false, "Killing", why));
            let ended = self.terminated(self.old, KILLED, Some("Error"), None);
            let health = self.probes().health(self.behaviour, Duration::ZERO);
            let state = tree!({"running": tree!({"startedAt": time(self.now.time)})});
            let restarts = self.restarts().saturating_add(1);
            if self.has_new_image() {
                memory.level = 1;
            }
            memory.run = (self.interpret)(self.container, restarts);
            notes.extend(self.start_notes(restarts));
            let status = self.status(state, health, restarts, ended);
            return Outcome { status, notes, started: memory.prints(self.behaviour) };
        }
        let health = self.probes().health(self.behaviour, elapsed);
        let next = health.next.into_iter().chain(exit.map(|exit| exit.after - elapsed)).min();
        next.into_iter().for_each(|next| wakes.add(next));
        if self.old.is_true("ready") && !health.ready && self.behaviour.fail_readiness.is_some() {
            notes.push(self.note(true, "Unhealthy", "Readiness probe failed: told to fail".to_owned()));
        }
        let status = self.status(
            self.old.at("state").clone(),
            health,
            self.restarts(),
            self.old.at("lastState").clone(),
        );
        Outcome { status, notes, started: None }
    }

    /// Returns the status after a run: terminated, or waiting for the next restart.
    fn end(&self, memory: &mut ContainerMemory, running: &Tree, exit: &Exit, notes: &mut Vec<Note>) -> Tree {
        if let Some(probe) = exit.probe {
            let failed = match probe {
                "startup" => "Startup probe failed: told to fail",
                _ => "Liveness probe failed: told to fail",
            };
            notes.push(self.note(true, "Unhealthy", failed.to_owned()));
            let again = if self.restarts_on_failure() { ", will be restarted" } else { "" };
            let killed = format!("Container {} failed {probe} probe{again}", self.name());
            notes.push(self.note(false, "Killing", killed));
        }
        let (reason, message) = match exit.probe {
            Some(_) => (None, None),
            None => {
                let scripted = self.behaviour.exit_codes.is_none() && self.behaviour.run_for.is_none();
                let run = memory.run.as_ref().filter(|_| scripted);
                let message = self.behaviour.exit_message.as_deref();
                let message = message.or(run.and_then(|run| run.message.as_deref()));
                (self.behaviour.exit_reason.as_deref(), message)
            }
        };
        let ended = self.terminated(running, exit.code, reason, message);
        let restarts = running.i32("restartCount").unwrap_or(0);
        let all_restart = restart_action(self.container, exit.code) == Some(restart_all::ACTION);
        if !self.restarts_after(exit.code) || all_restart {
            return self.status(ended, Health::NONE, restarts, running.at("lastState").clone());
        }
        if exit.after >= BACK_OFF_RESET {
            memory.level = 0;
        }
        if memory.level == 0 {
            return self.status(ended, Health::NONE, restarts, running.at("lastState").clone());
        }
        notes.push(self.back_off_note());
        let waiting = waiting_state("CrashLoopBackOff", Some(self.back_off_message(back_off(memory.level))));
        self.status(waiting, Health::NONE, restarts, ended)
    }

    fn back_off_note(&self) -> Note {
        let (pod, namespace, uid) = (self.pod.name(), self.pod.in_namespace(), self.uid());
        let text =
            format!("Back-off restarting failed container {} in pod {pod}_{namespace}({uid})", self.name());
        self.note(true, "BackOff", text)
    }

    fn back_off_message(&self, delay: Duration) -> String {
        let (namespace, pod, uid, name) = (self.pod.in_namespace(), self.pod.name(), self.uid(), self.name());
        let wait = delay.as_secs();
        let wait = if wait >= 60 { format!("{}m{}s", wait / 60, wait % 60) } else { format!("{wait}s") };
        format!("back-off {wait} restarting failed container={name} pod={pod}_{namespace}({uid})")
    }

    /// Moves a terminated container forward: it stays terminated, or is restarted at once.
    fn ended(&self, memory: &mut ContainerMemory, elapsed: Duration, wakes: &mut Wakes) -> Outcome {
        let code = self.old.i32("state/terminated/exitCode").unwrap_or(0);
        let all_restart = restart_action(self.container, code) == Some(restart_all::ACTION);
        if !self.restarts_after(code) || all_restart {
            return self.stay();
        }
        if elapsed < START {
            return self.wait(wakes, START - elapsed);
        }
        self.restart(memory, 1)
    }

    fn restart(&self, memory: &mut ContainerMemory, times: i32) -> Outcome {
        if self.trouble.is_some() || self.pulls(self.next_restarts()) && self.pull_fails(memory) {
            return self.begin(memory);
        }
        memory.level = memory.level.saturating_add(1);
        self.start(memory, self.restarts().saturating_add(times))
    }

    /// Restarts the container after its back-off. Restarts that would all end alike are counted several at once.
    fn restart_later(&self, memory: &mut ContainerMemory, elapsed: Duration, wakes: &mut Wakes) -> Outcome {
        if self.has_new_image() {
            memory.level = 0;
            return self.restart(memory, 1);
        }
        let delay = back_off(memory.level);
        let crash = self.endless_crash(memory).filter(|_| delay == BACK_OFF_MAX);
        let (Some(crash), true) = (crash, self.restarts() >= COUNTED_ONE_BY_ONE) else {
            // Several periods may have passed since the last look. Each counts as one restart.
            let cycles = if delay == BACK_OFF_MAX { elapsed.as_secs() / delay.as_secs() } else { 0 };
            let missed = i32::try_from(cycles.saturating_sub(1)).unwrap_or(0);
            return match elapsed < delay {
                true => {
                    wakes.add_upkeep(delay - elapsed);
                    self.stay()
                }
                false => self.restart(memory, missed.saturating_add(1)),
            };
        };
        let times = self.restarts() / 2;
        let due = (delay + crash.after).saturating_mul(u32::try_from(times).unwrap_or(1));
        if elapsed < due {
            wakes.add_upkeep(due - elapsed);
            return self.stay();
        }
        let restarts = self.restarts().saturating_add(times);
        let state = tree!({"running": tree!({"startedAt": time(self.now.time)})});
        let running = self.status(state, Health::NONE, restarts, self.old.at("lastState").clone());
        let mut notes = Vec::new();
        let status = self.end(memory, &running, &crash, &mut notes);
        Outcome { status, notes, started: None }
    }

    /// Returns how all further runs end, if they all end alike and are followed by a restart.
    fn endless_crash(&self, memory: &ContainerMemory) -> Option<Exit> {
        let codes = self.behaviour.exit_codes.as_ref().map_or(0, |codes| codes.len());
        let last = usize::try_from(self.restarts()).unwrap_or(0) + 1 >= codes;
        let repeats = memory.run.as_ref().is_none_or(|run| run.repeats);
        let constant = last && repeats && self.trouble.is_none();
        let exit = self.exit(memory, self.restarts()).filter(|_| constant)?;
        (exit.after < BACK_OFF_RESET && self.restarts_after(exit.code)).then_some(exit)
    }

    /// Returns why a running container is killed and started anew, if it has to be: its image has changed, or its
    /// resources.
    fn must_restart(&self) -> Option<String> {
        let name = self.name();
        if self.has_new_image() {
            return Some(format!("Container {name} definition changed, will be restarted"));
        }
        self.must_restart_for_resize().then(|| format!("Container {name} resize requires restart"))
    }

    /// Whether the image has changed since the last run. A new image begins the back-off anew.
    fn has_new_image(&self) -> bool {
        self.old.str("image").is_some_and(|image| image != self.image())
    }

    /// Whether the resources have changed and one of the changes needs a restart.
    fn must_restart_for_resize(&self) -> bool {
        let (wanted, given) = (self.container.at("resources"), self.old.at("resources"));
        if given.is_null() || wanted == given {
            return false;
        }
        let differs = |resource: &str| {
            ["requests", "limits"]
                .iter()
                .any(|part| wanted.at(part).get(resource) != given.at(part).get(resource))
        };
        let policies = self.container.list("resizePolicy").iter();
        let restarting = policies.filter(|policy| policy.is("restartPolicy", "RestartContainer"));
        restarting.filter_map(|policy| policy.str("resourceName")).any(differs)
    }

    fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns the status of a waiting container.
    pub(crate) fn waiting(&self, reason: &str, message: Option<String>) -> Tree {
        self.status(waiting_state(reason, message), Health::NONE, self.restarts(), self.last_state().clone())
    }

    /// Returns the status of the container after it was stopped with this exit code.
    pub(crate) fn stopped(&self, code: i32) -> Tree {
        if State::of(self.old) != State::Running {
            return self.stay().status;
        }
        let ended = self.terminated(self.old, code, None, None);
        self.status(ended, Health::NONE, self.restarts(), self.old.at("lastState").clone())
    }

    /// Returns the terminated state that follows a running one.
    fn terminated(&self, running: &Tree, code: i32, reason: Option<&str>, message: Option<&str>) -> Tree {
        let started = running.at("state/running/startedAt");
        let restarts = running.i32("restartCount").unwrap_or(0);
        let terminated = tree!({
            "containerID": container_id(self.uid(), self.name(), restarts),
            "exitCode": code,
            "reason": reason.unwrap_or(if code == 0 { "Completed" } else { "Error" }),
            "message": message,
            "startedAt": if started.is_null() { time(self.now.time) } else { started.clone() },
            "finishedAt": time(self.now.time),
        });
        tree!({"terminated": terminated})
    }

    fn status(&self, state: Tree, health: Health, restarts: i32, last: Tree) -> Tree {
        let created = !state.has("waiting") || self.old.has("containerID");
        let running = state.has("running");
        let resources = self.container.at("resources");
        let reported = running && !resources.is_empty();
        tree!({
            "name": self.name(),
            "containerID": created.then(|| container_id(self.uid(), self.name(), restarts)),
            "imageID": if created { image_id(self.image()) } else { String::new() },
            "image": self.image(),
            "ready": health.ready || (self.role == Role::Init && state.is("terminated/reason", "Completed")),
            "started": running && health.started,
            "restartCount": restarts,
            "state": state,
            "lastState": last,
            "resources": reported.then(|| resources.clone()),
            "allocatedResources": reported.then(|| resources.at("requests").clone()),
        })
    }
}

/// Returns the delay before a restart or a pull, given how many happened since the back-off began.
fn back_off(level: u32) -> Duration {
    BACK_OFF.saturating_mul(1 << level.clamp(1, 10).saturating_sub(1)).min(BACK_OFF_MAX)
}

fn waiting_state(reason: &str, message: Option<String>) -> Tree {
    tree!({"waiting": tree!({"reason": reason, "message": message})})
}

/// Whether the container runs the image `pause` or the command `pause`, which the image `agnhost` runs unless told otherwise.
fn is_pause(container: &Tree) -> bool {
    let image = container.str("image").unwrap_or_default();
    let base = image.rsplit('/').next().unwrap_or_default();
    let base = base.split(['@', ':']).next().unwrap_or_default();
    let command = container.texts("command").chain(container.texts("args")).next();
    match command {
        None => matches!(base, "pause" | "agnhost"),
        Some(command) => base == "pause" || command.rsplit('/').next() == Some("pause"),
    }
}

/// Returns the action of the first of a container's rules that matches an exit code.
pub(super) fn restart_action(container: &Tree, code: i32) -> Option<&str> {
    let mut rules = container.list("restartPolicyRules").iter();
    rules.find(|rule| pod::exit_code_matches(rule.at("exitCodes"), code))?.str("action")
}

//! How a pod behaves on a simulated node: as its spec says, unless its annotations say otherwise.
//!
//! | annotation | value | what the pod does |
//! |---|---|---|
//! | `node.evenkeel.dev/behaviour` | `never-ready` | its containers run, but never become ready |
//! | | `crash-loop` | its containers exit with an error as soon as they run, again and again |
//! | | `image-pull-error` | its images cannot be pulled |
//! | | `never-start` | its containers stay in `ContainerCreating` |
//! | | `fail` | its containers run and then exit with code 1 |
//! | | `succeed` | its containers run and then exit with code 0, whatever the restart policy |
//! | `node.evenkeel.dev/run-for` | `250ms`, `5s`, `2m` | how long containers run before they exit |
//! | `node.evenkeel.dev/start-after` | a duration, as above | how long containers take to start |
//!
//! Without annotations, containers start after 50 ms. If the restart policy of the pod is not `Always`, they exit with
//! code 0 after 500 ms, so that the pods of a Job succeed.

use std::time::Duration;

use crate::kinds::Pod;

/// How long containers take to start, and each init container takes to run: long enough that a watch shows each state,
/// short enough for a demonstration in real time.
pub(crate) const START: Duration = Duration::from_millis(50);

/// How long containers run before they exit.
pub(crate) const RUN: Duration = Duration::from_millis(500);

/// How long a pod takes to stop.
pub(crate) const STOP: Duration = Duration::from_millis(50);

/// The delay before the first restart of a crashed container. It doubles up to [`RESTART_MAX`], as kubelet's does.
pub(crate) const RESTART: Duration = Duration::from_secs(10);

/// The longest delay before the restart of a crashed container.
pub(crate) const RESTART_MAX: Duration = Duration::from_secs(300);

const BEHAVIOUR: &str = "node.evenkeel.dev/behaviour";
const RUN_FOR: &str = "node.evenkeel.dev/run-for";
const START_AFTER: &str = "node.evenkeel.dev/start-after";

/// What happens to the containers of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The containers run until they are stopped.
    Run,
    /// The containers run, but never become ready.
    NeverReady,
    /// The containers exit with this code.
    Exit(i32),
    /// The containers exit with an error at once.
    Crash,
    /// The images of the containers cannot be pulled.
    NoImage,
    /// The containers never start.
    NeverStart,
}

/// The behaviour of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behaviour {
    pub(crate) fate: Fate,
    pub(crate) start_after: Duration,
    pub(crate) run_for: Duration,
}

impl Behaviour {
    /// Reads the behaviour from the pod's annotations and restart policy.
    pub(crate) fn of(pod: &Pod) -> Self {
        let restarts = pod.str("spec/restartPolicy").unwrap_or("Always");
        let fate = match pod.annotation(BEHAVIOUR) {
            Some("never-ready") => Fate::NeverReady,
            Some("crash-loop") => Fate::Crash,
            Some("image-pull-error") => Fate::NoImage,
            Some("never-start") => Fate::NeverStart,
            Some("fail") => Fate::Exit(1),
            Some("succeed") => Fate::Exit(0),
            _ if restarts == "Always" => Fate::Run,
            _ => Fate::Exit(0),
        };
        let time = |key: &str| pod.annotation(key).and_then(duration);
        Self { fate, start_after: time(START_AFTER).unwrap_or(START), run_for: time(RUN_FOR).unwrap_or(RUN) }
    }
}

/// Parses a number with the unit `ms`, `s`, `m` or `h`.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..unit].parse().ok()?;
    match &text[unit..] {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        "h" => Some(Duration::from_secs(number.checked_mul(3600)?)),
        _ => None,
    }
}

/// Returns the delay before a restart, given how many restarts there were.
pub(crate) fn restart_after(restarts: i32) -> Duration {
    let doublings = u32::try_from(restarts.clamp(1, 10) - 1).unwrap_or(0);
    RESTART.saturating_mul(1 << doublings).min(RESTART_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::tests::pod;
    use serde_json::json;

    #[test]
    fn annotations_override_the_spec() {
        let plain = pod(json!({"spec": {"containers": [], "restartPolicy": "Never"}}));
        assert_eq!(Behaviour::of(&plain).fate, Fate::Exit(0));
        let told = pod(json!({"metadata": {"annotations": {BEHAVIOUR: "fail", RUN_FOR: "2m"}}}));
        assert_eq!(
            Behaviour::of(&told),
            Behaviour { fate: Fate::Exit(1), start_after: START, run_for: Duration::from_secs(120) }
        );
        assert_eq!(duration("5 s"), None);
    }

    #[test]
    fn restarts_wait_longer_and_longer() {
        assert_eq!(restart_after(1), RESTART);
        assert_eq!(restart_after(3), Duration::from_secs(40));
        assert_eq!(restart_after(9), RESTART_MAX);
    }
}

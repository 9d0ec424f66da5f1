//! The probes of a container. They succeed at once, unless the container's behaviour makes them fail.

use std::time::Duration;

use evenkeel_tree::Tree;

use super::behaviour::{Behaviour, Delay};

/// The probes of one container.
pub(crate) struct Probes<'a> {
    pub(crate) container: &'a Tree,
}

/// The results of a running container's probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) started: bool,
    pub(crate) ready: bool,
    /// When the result changes next.
    pub(crate) next: Option<Duration>,
}

impl Health {
    /// The health of a container that is not running.
    pub(crate) const NONE: Self = Self { started: false, ready: false, next: None };
}

/// The times of one probe.
struct Schedule {
    delay: Duration,
    period: Duration,
    failures: u32,
    successes: u32,
}

impl Schedule {
    /// Reads the times of a probe, with Kubernetes' defaults.
    fn of(probe: &Tree) -> Self {
        let number =
            |field: &str, default| probe.i32(field).and_then(|it| u32::try_from(it).ok()).unwrap_or(default);
        Self {
            delay: Duration::from_secs(number("initialDelaySeconds", 0).into()),
            period: Duration::from_secs(number("periodSeconds", 10).max(1).into()),
            failures: number("failureThreshold", 3).max(1),
            successes: number("successThreshold", 1).max(1),
        }
    }

    /// Returns the time of the first probe at or after this time.
    fn probe_at(&self, time: Duration) -> Duration {
        let late = time.saturating_sub(self.delay);
        let periods = late.as_millis().div_ceil(self.period.as_millis().max(1));
        self.delay.saturating_add(self.period.saturating_mul(u32::try_from(periods).unwrap_or(u32::MAX)))
    }

    /// Returns when the node acts if the probe fails from this time on.
    fn failed_at(&self, from: Duration) -> Duration {
        self.probe_at(from).saturating_add(self.period.saturating_mul(self.failures - 1))
    }
}

impl Probes<'_> {
    fn schedule(&self, probe: &str) -> Schedule {
        Schedule::of(self.container.at(probe))
    }

    /// Returns when a probe that never fails has succeeded often enough; at once if there is no such probe.
    fn first_success(&self, probe: &str) -> Duration {
        if !self.container.has(probe) {
            return Duration::ZERO;
        }
        let schedule = self.schedule(probe);
        schedule.delay.saturating_add(schedule.period.saturating_mul(schedule.successes - 1))
    }

    /// Returns when the node kills the container, and which probe is the cause.
    pub(crate) fn killed(&self, behaviour: &Behaviour) -> Option<(Duration, &'static str)> {
        let startup = behaviour.fail_startup.and_then(|length| {
            let schedule = self.schedule("startupProbe");
            let killed = schedule.failed_at(Duration::ZERO);
            (killed < schedule.probe_at(length)).then_some((killed, "startup"))
        });
        let liveness =
            behaviour.fail_liveness.map(|from| (self.schedule("livenessProbe").failed_at(from), "liveness"));
        startup.into_iter().chain(liveness).min()
    }

    /// Returns the probe results at this time after the container's start.
    pub(crate) fn health(&self, behaviour: &Behaviour, elapsed: Duration) -> Health {
        let started_at = match behaviour.fail_startup {
            Some(length) => self.schedule("startupProbe").probe_at(length),
            None => self.first_success("startupProbe"),
        };
        let ready_at = match behaviour.ready_after {
            Some(Delay::Never) => None,
            Some(Delay::After(delay)) => Some(delay.max(started_at)),
            None => Some(self.first_success("readinessProbe").max(started_at)),
        };
        let unready_at = behaviour.fail_readiness.map(|from| match self.schedule("readinessProbe") {
            // The first probe already fails, so the container was never ready.
            schedule if from <= schedule.delay => Duration::ZERO,
            schedule => schedule.failed_at(from),
        });
        let ready = ready_at.is_some_and(|at| at <= elapsed) && unready_at.is_none_or(|at| elapsed < at);
        let changes = [Some(started_at), ready_at, unready_at].into_iter().flatten();
        let next = changes.filter(|at| *at > elapsed).min().map(|at| at - elapsed);
        Health { started: started_at <= elapsed, ready, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn a_probe_must_fail_several_times() {
        let container = Tree::from(json!({
            "livenessProbe": {"initialDelaySeconds": 5, "periodSeconds": 3, "failureThreshold": 2},
            "readinessProbe": {"periodSeconds": 1, "failureThreshold": 1},
            "startupProbe": {"periodSeconds": 2, "failureThreshold": 3},
        }));
        let probes = Probes { container: &container };
        let killed = |behaviour: Behaviour| probes.killed(&behaviour);
        assert_eq!(killed(Behaviour::new()), None);
        assert_eq!(killed(Behaviour::new().fail_liveness(seconds(0))), Some((seconds(8), "liveness")));
        assert_eq!(killed(Behaviour::new().fail_liveness(seconds(6))), Some((seconds(11), "liveness")));
        assert_eq!(killed(Behaviour::new().fail_startup(seconds(3))), None);
        assert_eq!(killed(Behaviour::new().fail_startup(seconds(60))), Some((seconds(4), "startup")));
        let health = |behaviour: &Behaviour, at: u64| {
            let health = probes.health(behaviour, seconds(at));
            (health.started, health.ready, health.next.map(|next| next.as_secs()))
        };
        let slow = Behaviour::new().fail_startup(seconds(3));
        assert_eq!((health(&slow, 0), health(&slow, 4)), ((false, false, Some(4)), (true, true, None)));
        let flaky = Behaviour::new().ready_after(seconds(2)).fail_readiness(seconds(10));
        assert_eq!(health(&flaky, 0), (true, false, Some(2)));
        assert_eq!(health(&flaky, 2), (true, true, Some(8)));
        assert_eq!(health(&flaky, 10), (true, false, None));
        assert_eq!(health(&Behaviour::new().fail_readiness(seconds(0)), 0), (true, false, None));
        assert_eq!(health(&Behaviour::new().never_ready(), 99), (true, false, None));
    }

    /// Containers were ready at once, however late their first probe was.
    #[test]
    fn a_container_is_ready_after_its_first_probes() {
        let container = Tree::from(json!({
            "readinessProbe": {"initialDelaySeconds": 20, "periodSeconds": 5, "successThreshold": 3},
            "startupProbe": {"initialDelaySeconds": 8},
        }));
        let health = |behaviour: Behaviour, at: u64| {
            let health = Probes { container: &container }.health(&behaviour, seconds(at));
            (health.started, health.ready, health.next.map(|next| next.as_secs()))
        };
        assert_eq!(health(Behaviour::new(), 0), (false, false, Some(8)));
        assert_eq!(health(Behaviour::new(), 8), (true, false, Some(22)));
        assert_eq!(health(Behaviour::new(), 30), (true, true, None));
        assert_eq!(health(Behaviour::new().ready_after(seconds(9)), 9), (true, true, None), "words precede");
        assert_eq!(health(Behaviour::new().ready_after(seconds(1)), 7), (false, false, Some(1)));
        assert_eq!(health(Behaviour::new().fail_readiness(seconds(0)), 60), (true, false, None));
    }
}

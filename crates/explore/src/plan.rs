//! Plans: what happens to an operator in one run. All of it may happen on a real Kubernetes cluster.

use std::fmt;

use evenkeel_cluster::{CrashMoment, Fault};

/// What happens to an operator in one run: strikes, in the order in which they are expected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The strikes.
    pub strikes: Vec<Strike>,
    /// The rest after which the scenario is broken off, or `None` to play all of it.
    pub until: Option<usize>,
}

/// When an operator that has crashed starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Back {
    /// The operator starts again at once.
    AtOnce,
    /// The operator starts again at once, and crashes again before its first write.
    Twice,
    /// The operator starts again after the cluster has come to rest this many times without it.
    AfterRests(usize),
}

/// Which half of a request is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Late {
    /// The request arrives after everything else that is in progress.
    Request,
    /// The request is served at once, and its answer arrives after everything else that is in progress.
    Answer,
}

/// How a leading replica stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stop {
    /// The replica's process ends at the request, and starts again once the other replica leads.
    Crash(CrashMoment),
    /// The replica is cut off from the API server before the request arrives, until its lease has expired and the other
    /// replica leads.
    CutOff,
    /// The replica is cut off from the API server after the request was served, before its answer arrives.
    CutOffUnanswered,
    /// The answer to the request is slow, and meanwhile its lease expires, because the renewals fail. The reconcile that
    /// waits for the answer goes on when another replica leads. Everything else is served.
    LoseLease,
}

/// When a mishap happens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Point {
    /// At a rest.
    Rest(usize),
    /// Just before a request of an operator.
    Request {
        /// The operator.
        operator: String,
        /// The number of the request.
        number: usize,
    },
}

/// What a foreign client does to an object, or what happens to the object by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mishap {
    /// A foreign client deletes the object.
    Delete,
    /// A foreign client changes a field that the operator applies.
    Change,
    /// The pod is evicted.
    Evict,
    /// The pod's containers crash, and start again after their back-off.
    CrashPod,
    /// The pod is not ready for a while.
    UnreadyPod,
    /// The node and all its pods are lost.
    LoseNode,
}

/// One disturbance. Requests of an operator are counted from one, without watches, leases and Events. Rests are the
/// scenario's calls of `settled()`, counted from one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strike {
    /// The operator crashes at one of its requests.
    Crash {
        /// The operator.
        operator: String,
        /// The number of the request.
        request: usize,
        /// Before, during or after the request.
        moment: CrashMoment,
        /// When the operator starts again.
        back: Back,
    },
    /// One request of the operator fails.
    Fail {
        /// The operator.
        operator: String,
        /// The number of the request.
        request: usize,
        /// How the request fails.
        fault: Fault,
    },
    /// The operator runs as two replicas. The leading replica stops at one of its requests, the other takes over, and
    /// the first one returns.
    Failover {
        /// The operator.
        operator: String,
        /// The number of the request.
        request: usize,
        /// How the leader stops.
        stop: Stop,
    },
    /// One request of the operator, or its answer, is late, so that later requests and events arrive before it.
    Delay {
        /// The operator.
        operator: String,
        /// The number of the request.
        request: usize,
        /// What is late.
        late: Late,
    },
    /// The operator restarts while the cluster is at rest.
    Restart {
        /// The operator.
        operator: String,
        /// The rest.
        rest: usize,
    },
    /// The operator restarts while the cluster is at rest, and an API server that lags behind answers its lists.
    Stale {
        /// The operator.
        operator: String,
        /// The rest.
        rest: usize,
        /// The newest revision that the lagging API server has seen.
        revision: u64,
        /// The kind whose list is stale, as `GROUP/PLURAL`; all kinds if `None`.
        kind: Option<String>,
    },
    /// The operator is stopped from one rest to a later one, and misses what happens in between.
    Away {
        /// The operator.
        operator: String,
        /// The rest after which the operator stops.
        from: usize,
        /// The rest at which the operator starts again.
        to: usize,
    },
    /// The events of one kind reach the operator late: they are held from one rest to a later one.
    Hold {
        /// The operator.
        operator: String,
        /// The kind, as `GROUP/PLURAL`.
        kind: String,
        /// The rest after which the events are held.
        from: usize,
        /// The rest at which the events arrive.
        to: usize,
    },
    /// The events of one kind reach the operator late: they are held from one of its requests on.
    Lag {
        /// The operator.
        operator: String,
        /// The kind, as `GROUP/PLURAL`.
        kind: String,
        /// The number of the request.
        request: usize,
        /// The number of further requests of the operator after which the events arrive. They arrive at the next rest
        /// at the latest, which is what `None` means.
        requests: Option<usize>,
    },
    /// The operator's watches break at one rest and cannot resume until a later one. The operator then lists again, and
    /// never sees the states in between. Unlike after a restart, it keeps its memory.
    Relist {
        /// The operator.
        operator: String,
        /// The rest after which the operator receives no events.
        from: usize,
        /// The rest at which the operator lists again; equal to `from` if it misses nothing.
        to: usize,
    },
    /// The wall clock of the operator's machine jumps, and keeps the difference.
    Clock {
        /// The operator.
        operator: String,
        /// The rest at which it jumps.
        rest: usize,
        /// By how many seconds it jumps; back if negative.
        seconds: i64,
    },
    /// Something happens to an object, caused by nobody under test.
    World {
        /// What happens to the object.
        mishap: Mishap,
        /// The path of the object in the API.
        path: String,
        /// When it happens.
        at: Point,
    },
}

impl Strike {
    /// The class of the strike, as the report counts it.
    pub fn class(&self) -> Class {
        match self {
            Self::Crash { back: Back::AfterRests(_), .. } => Class::LateRestart,
            Self::Crash { .. } | Self::Restart { .. } => Class::Crash,
            Self::Fail { .. } => Class::FailedRequest,
            Self::Failover { .. } => Class::Failover,
            Self::Stale { .. } => Class::StaleView,
            Self::Away { .. } => Class::Away,
            Self::Hold { .. } => Class::HeldWatch,
            Self::Lag { requests: None, .. } => Class::HeldWatch,
            Self::Lag { .. } | Self::Delay { .. } => Class::Order,
            Self::Relist { .. } => Class::Relist,
            Self::Clock { .. } => Class::Clock,
            Self::World { .. } => Class::World,
        }
    }

    /// Returns whether the operator misses a step of the scenario, or acts on the state before a step.
    fn leaves_the_path(&self) -> bool {
        match self {
            Self::Away { .. } | Self::Stale { .. } | Self::Hold { .. } | Self::Lag { .. } => true,
            Self::Crash { back: Back::AfterRests(rests), .. } => *rests > 1,
            Self::Relist { from, to, .. } => to > from,
            _ => false,
        }
    }
}

/// A class of strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// A crash and a restart at once.
    Crash,
    /// A crash, and a restart that comes later.
    LateRestart,
    /// A stale view after a restart.
    StaleView,
    /// An operator that is stopped over some steps.
    Away,
    /// A failed request.
    FailedRequest,
    /// Held events of one kind.
    HeldWatch,
    /// Broken watches, after which the operator lists again.
    Relist,
    /// Requests, answers and events that arrive in another order.
    Order,
    /// Two replicas whose leader stops.
    Failover,
    /// A clock that jumps.
    Clock,
    /// Something happens to an object, caused by nobody under test.
    World,
    /// Two strikes of any class.
    Pair,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crash => "crash",
            Self::LateRestart => "late restart",
            Self::StaleView => "stale view",
            Self::Away => "away",
            Self::FailedRequest => "failed request",
            Self::HeldWatch => "held watch",
            Self::Relist => "relist",
            Self::Order => "order",
            Self::Failover => "failover",
            Self::Clock => "clock",
            Self::World => "world",
            Self::Pair => "pair",
        })
    }
}

impl Plan {
    /// Makes a plan of one strike.
    pub fn of(strike: Strike) -> Self {
        Self::all([strike])
    }

    /// Makes a plan of these strikes.
    pub fn all(strikes: impl IntoIterator<Item = Strike>) -> Self {
        Self { strikes: strikes.into_iter().collect(), until: None }
    }

    /// The class of the plan.
    pub fn class(&self) -> Class {
        match &*self.strikes {
            [only] => only.class(),
            _ => Class::Pair,
        }
    }

    /// Returns whether the operator misses a step of the scenario or acts on the state before one, so that objects of
    /// that step may be missing or left over.
    pub(crate) fn leaves_the_path(&self) -> bool {
        self.strikes.iter().any(Strike::leaves_the_path)
    }

    /// Returns whether an operator is stopped or behind for as long as a step of the scenario lasts.
    pub(crate) fn lasts(&self) -> bool {
        let is_late = |strike: &Strike| matches!(strike, Strike::Crash { back: Back::AfterRests(_), .. });
        self.leaves_the_path() || self.strikes.iter().any(is_late)
    }

    /// Whether a clock jumps. What an operator does then may depend on the time, rightly.
    pub(crate) fn moves_a_clock(&self) -> bool {
        self.strikes.iter().any(|strike| matches!(strike, Strike::Clock { .. }))
    }

    /// Whether somebody else deletes or changes an object.
    pub(crate) fn has_mishap(&self) -> bool {
        self.strikes.iter().any(|strike| matches!(strike, Strike::World { .. }))
    }

    /// The operators that run as two replicas.
    pub(crate) fn replicated(&self) -> impl Iterator<Item = &str> {
        self.strikes.iter().filter_map(|strike| match strike {
            Strike::Failover { operator, .. } => Some(&**operator),
            _ => None,
        })
    }
}

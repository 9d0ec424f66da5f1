//! Plans: what happens to an operator in one run, all of it something that a real Kubernetes may do.

use std::fmt;

use evenkeel_cluster::{CrashMoment, Fault};

/// What happens in one run: the strikes, in the order in which they are expected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The strikes.
    pub strikes: Vec<Strike>,
    /// The rest after which the scenario is broken off; `None` to play all of it.
    pub until: Option<usize>,
}

/// When an operator that has crashed starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Back {
    /// At once.
    AtOnce,
    /// At once, and it crashes again before its first write.
    Twice,
    /// After the cluster came to rest without it this many times.
    AfterRests(usize),
}

/// What is late about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Late {
    /// The request arrives after everything else that goes on at that moment.
    Request,
    /// The request is served at once, and its answer arrives after everything else that goes on.
    Answer,
}

/// How a leader stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Its process ends at the request, and starts again when the other replica leads.
    Crash(CrashMoment),
    /// It is cut off from the API server, before the request arrives, until its lease has expired and the other replica
    /// leads.
    CutOff,
    /// It is cut off from the API server after the request was served, before the answer arrives.
    CutOffUnanswered,
}

/// When something happens in the world.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// What somebody else does to an object, or what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mishap {
    /// Somebody deletes the object.
    Delete,
    /// Somebody changes a field that the operator applies.
    Change,
    /// The pod is evicted.
    Evict,
    /// The pod's containers crash, and start again after their backoff.
    CrashPod,
    /// The pod is not ready for a while.
    UnreadyPod,
    /// The node is lost with all its pods.
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
        /// When it starts again.
        back: Back,
    },
    /// One request of the operator fails.
    Fail {
        /// The operator.
        operator: String,
        /// The number of the request.
        request: usize,
        /// How it fails.
        fault: Fault,
    },
    /// The operator runs as two replicas. The leader stops at one of its requests, the other takes over, and the first
    /// comes back.
    Failover {
        /// The operator.
        operator: String,
        /// The number of the request.
        request: usize,
        /// How the leader stops.
        stop: Stop,
    },
    /// One request of the operator, or its answer, is late, so that neighbouring requests and events overtake it.
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
    /// The operator restarts while the cluster is at rest, and its lists are answered by an API server that lags behind.
    Stale {
        /// The operator.
        operator: String,
        /// The rest.
        rest: usize,
        /// What the lagging API server has seen.
        revision: u64,
        /// The kind whose list is stale, as `GROUP/PLURAL`; all kinds if `None`.
        kind: Option<String>,
    },
    /// The operator is away from one rest to a later one, and misses what happens between.
    Away {
        /// The operator.
        operator: String,
        /// The rest after which it leaves.
        from: usize,
        /// The rest at which it returns.
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
        /// The rest at which they arrive.
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
        /// After how many further requests of the operator they arrive; at the next rest if `None`, and then at the
        /// latest.
        requests: Option<usize>,
    },
    /// The operator's watches break at one rest, and cannot resume until a later one: it lists again then, and never sees
    /// the states between. It keeps its memory.
    Relist {
        /// The operator.
        operator: String,
        /// The rest after which it sees nothing.
        from: usize,
        /// The rest at which it lists again; the same rest if nothing is missed.
        to: usize,
    },
    /// The world misbehaves.
    World {
        /// What happens.
        mishap: Mishap,
        /// The path of the object in the API.
        path: String,
        /// When.
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
            Self::World { .. } => Class::World,
        }
    }

    /// Whether the operator skips a step of the scenario, or acts on the state before a step.
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
    /// A crash and a late restart.
    LateRestart,
    /// A stale view after a restart.
    StaleView,
    /// An operator that is away over some steps.
    Away,
    /// A failed request.
    FailedRequest,
    /// Held events of one kind.
    HeldWatch,
    /// A broken watch that lists again.
    Relist,
    /// Requests, answers and events in another order.
    Order,
    /// Two replicas, of which the leader stops.
    Failover,
    /// The world misbehaves.
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
            Self::World => "world",
            Self::Pair => "pair",
        })
    }
}

impl Plan {
    /// The plan of one strike.
    pub fn of(strike: Strike) -> Self {
        Self::all([strike])
    }

    /// The plan of these strikes.
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

    /// Whether the operator skips a step of the scenario or acts on the state before one, so that what a step leaves
    /// behind may be missing or be there.
    pub(crate) fn leaves_the_path(&self) -> bool {
        self.strikes.iter().any(Strike::leaves_the_path)
    }

    /// The operators that run as two replicas.
    pub(crate) fn replicated(&self) -> impl Iterator<Item = &str> {
        self.strikes.iter().filter_map(|strike| match strike {
            Strike::Failover { operator, .. } => Some(&**operator),
            _ => None,
        })
    }
}

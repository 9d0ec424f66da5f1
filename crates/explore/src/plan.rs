//! Plans: what happens to an operator in one run, all of it something that a real Kubernetes may do.

use std::fmt;

use evenkeel_cluster::{CrashMoment, Fault};

/// What happens in one run: the strikes, in the order in which they are expected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The strikes.
    pub strikes: Vec<Strike>,
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
    /// The events of one kind reach the operator late: they are held from one of its requests until the next rest.
    Lag {
        /// The operator.
        operator: String,
        /// The kind, as `GROUP/PLURAL`.
        kind: String,
        /// The number of the request.
        request: usize,
    },
    /// The operator's watches break while the cluster is at rest, and cannot resume: it lists again.
    Relist {
        /// The operator.
        operator: String,
        /// The rest.
        rest: usize,
    },
    /// Somebody deletes a child of the operator while the cluster is at rest.
    Delete {
        /// The path of the object in the API.
        path: String,
        /// The rest.
        rest: usize,
    },
}

impl Strike {
    /// The class of the strike, as the report counts it.
    pub fn class(&self) -> Class {
        match self {
            Self::Crash { back: Back::AfterRests(_), .. } => Class::LateRestart,
            Self::Crash { .. } | Self::Restart { .. } => Class::Crash,
            Self::Fail { .. } => Class::FailedRequest,
            Self::Stale { .. } => Class::StaleView,
            Self::Away { .. } => Class::Away,
            Self::Hold { .. } | Self::Lag { .. } => Class::HeldWatch,
            Self::Relist { .. } => Class::Relist,
            Self::Delete { .. } => Class::World,
        }
    }

    /// Whether the operator's view is older than the world while the strike lasts.
    pub(crate) fn makes_stale(&self) -> bool {
        matches!(self, Self::Stale { .. } | Self::Hold { .. } | Self::Lag { .. })
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
            Self::World => "world",
            Self::Pair => "pair",
        })
    }
}

impl Plan {
    /// The plan of one strike.
    pub fn of(strike: Strike) -> Self {
        Self { strikes: vec![strike] }
    }

    /// The class of the plan.
    pub fn class(&self) -> Class {
        match &*self.strikes {
            [only] => only.class(),
            _ => Class::Pair,
        }
    }

    pub(crate) fn makes_stale(&self) -> bool {
        self.strikes.iter().any(Strike::makes_stale)
    }

    /// Whether the operator skips a step of the scenario or sees one again, so that what a step leaves behind may be
    /// missing or be there.
    pub(crate) fn leaves_the_path(&self) -> bool {
        self.strikes.iter().any(|strike| match strike {
            Strike::Away { .. } => true,
            Strike::Crash { back: Back::AfterRests(rests), .. } => *rests > 1,
            strike => strike.makes_stale(),
        })
    }
}

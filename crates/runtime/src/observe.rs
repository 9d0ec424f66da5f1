//! Observing the reconciles of a manager: which controller, which object, why, and with which result.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Request;
use crate::cause::Causes;

/// A reconcile that begins or has ended: the argument of a [`Manager::observer`](crate::Manager::observer).
///
/// ```
/// use evenkeel_runtime::{Manager, Observed, Stage};
///
/// fn slow(seen: &Observed<'_>) {
///     if let Stage::Ended { took, .. } = &seen.stage
///         && took.as_secs() > 10
///     {
///         eprintln!("{} took {took:?} for {}: {}", seen.controller, seen.object, seen.causes);
///     }
/// }
///
/// fn watched(manager: Manager) -> Manager {
///     manager.observer(slow)
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Observed<'a> {
    /// The name of the controller.
    pub controller: &'a str,
    /// The key that is reconciled.
    pub object: &'a Request,
    /// Why the key is reconciled.
    pub causes: &'a Causes,
    /// Whether the reconcile begins or has ended.
    pub stage: Stage,
}

/// Whether a reconcile begins or has ended.
///
/// ```
/// use evenkeel_runtime::Stage;
///
/// fn has_failed(stage: &Stage) -> bool {
///     matches!(stage, Stage::Ended { error: Some(_), .. })
/// }
/// assert!(!has_failed(&Stage::Began));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// The reconcile begins now.
    Began,
    /// The reconcile held its thread for long without awaiting, so that nothing else could run there. Told before the end.
    Blocked {
        /// The longest time without an await, in real time.
        held: Duration,
    },
    /// The reconcile has ended.
    Ended {
        /// How long the reconcile took.
        took: Duration,
        /// The error with its sources, if the reconcile failed.
        error: Option<String>,
    },
}

type Observer = Arc<dyn Fn(&Observed<'_>) + Send + Sync>;

/// The observers of a manager. Without any, they cost nothing.
#[derive(Clone, Default)]
pub(crate) struct Observers {
    all: Vec<Observer>,
}

impl Observers {
    pub(crate) fn add(&mut self, observer: impl Fn(&Observed<'_>) + Send + Sync + 'static) {
        self.all.push(Arc::new(observer));
    }

    pub(crate) fn tell(
        &self,
        controller: &str,
        object: &Request,
        causes: &Causes,
        stage: impl FnOnce() -> Stage,
    ) {
        if self.all.is_empty() {
            return;
        }
        let observed = Observed { controller, object, causes, stage: stage() };
        self.all.iter().for_each(|observer| observer(&observed));
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} observers", self.all.len())
    }
}

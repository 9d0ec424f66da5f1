//! Watching a manager at work: who was woken, for what, why, and how it ended.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Request;
use crate::cause::Causes;

/// A reconcile that is beginning or has ended, as [`Manager::observer`](crate::Manager::observer) sees it.
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
    /// The controller, by its name.
    pub controller: &'a str,
    /// The key that is reconciled.
    pub object: &'a Request,
    /// Why.
    pub causes: &'a Causes,
    /// How far it is.
    pub stage: Stage,
}

/// How far a reconcile is.
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
    /// It begins now.
    Began,
    /// It has ended.
    Ended {
        /// How long it took.
        took: Duration,
        /// The error with its causes, where it failed.
        error: Option<String>,
    },
}

type Observer = Arc<dyn Fn(&Observed<'_>) + Send + Sync>;

/// Those who watch. Empty costs nothing.
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

//! Why a key was queued.
//!
//! The cause stays with the key through deduplication, into the [`Ctx`](crate::Ctx) and the log: it answers the question
//! "why did this reconcile run?".

use std::fmt;
use std::sync::Arc;

use crate::Request;

/// How many causes of one key are kept; later ones are only counted, which bounds the memory for each key. Eight are
/// enough for a rollout (its Deployment, ReplicaSets and first Pods) and fit into a log line.
pub const CAUSES_KEPT: usize = 8;

/// One reason to reconcile a key.
///
/// ```
/// use evenkeel_runtime::{Cause, Change, Request};
///
/// let cause = Cause::External("webhook".into());
/// assert_eq!(cause.to_string(), "webhook");
/// # let (kind, object) = ("Pod".into(), Request::namespaced("prod", "web"));
/// let cause = Cause::Object { kind, object, change: Change::Created };
/// assert_eq!(cause.to_string(), "Pod prod/web created");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// An object changed.
    Object {
        /// The kind of the object.
        kind: Arc<str>,
        /// The object.
        object: Request,
        /// What happened to the object.
        change: Change,
    },
    /// The last reconcile of the key failed.
    Retry,
    /// The last reconcile of the key returned
    /// [`Action::requeue_with_backoff`](crate::Action::requeue_with_backoff).
    Requeue,
    /// The last reconcile of the key returned [`Action::requeue`](crate::Action::requeue), and its delay has passed; or
    /// the period of [`Controller::every`](crate::Controller::every) has.
    Timer,
    /// A stream, or a caller that adds keys to the queue directly; the value is its name.
    External(Arc<str>),
}

/// What happened to an object, as the cache saw it.
///
/// ```
/// use evenkeel_runtime::Change;
///
/// assert_eq!(Change::Resynced.to_string(), "resynced");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Change {
    /// The object was in the first list of the cache.
    Listed,
    /// The object was created.
    Created,
    /// The object was updated.
    Updated,
    /// The object was deleted.
    Deleted,
    /// Nothing happened to the object; the cache was resynced.
    Resynced,
    /// A stream gave the object.
    Generic,
}

/// The causes of one reconcile: the first few, and the number of the others.
///
/// ```
/// use evenkeel_runtime::{Cause, Causes};
///
/// let mut causes = Causes::from(Cause::Timer);
/// (0..20).for_each(|at| causes.push(Cause::External(format!("message {at}").into())));
/// assert_eq!((causes.kept().len(), causes.more()), (8, 13));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    kept: Kept,
}

/// Most keys have one cause, and very many keys may wait: a single cause is stored without an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Kept {
    #[default]
    None,
    One(Cause),
    /// Two or more.
    Several(Box<Several>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Several {
    list: Vec<Cause>,
    more: u64,
}

impl Causes {
    /// Adds a cause, unless an equal one is kept already.
    pub fn push(&mut self, cause: Cause) {
        if self.kept().contains(&cause) {
            return;
        }
        match &mut self.kept {
            Kept::Several(several) if several.list.len() < CAUSES_KEPT => several.list.push(cause),
            Kept::Several(several) => several.more += 1,
            Kept::None => self.kept = Kept::One(cause),
            Kept::One(_) => {
                if let Kept::One(first) = std::mem::take(&mut self.kept) {
                    self.kept = Kept::Several(Box::new(Several { list: vec![first, cause], more: 0 }));
                }
            }
        }
    }

    /// Adds the causes of another reconcile.
    pub fn merge(&mut self, other: Causes) {
        match other.kept {
            Kept::None => {}
            Kept::One(cause) => self.push(cause),
            Kept::Several(other) => {
                other.list.into_iter().for_each(|cause| self.push(cause));
                if let Kept::Several(several) = &mut self.kept {
                    several.more += other.more;
                }
            }
        }
    }

    /// The first causes, at most [`CAUSES_KEPT`].
    pub fn kept(&self) -> &[Cause] {
        match &self.kept {
            Kept::None => &[],
            Kept::One(cause) => std::slice::from_ref(cause),
            Kept::Several(several) => &several.list,
        }
    }

    /// The number of causes that were not kept.
    pub fn more(&self) -> u64 {
        match &self.kept {
            Kept::Several(several) => several.more,
            Kept::None | Kept::One(_) => 0,
        }
    }

    /// Whether there is no cause.
    pub fn is_empty(&self) -> bool {
        matches!(self.kept, Kept::None)
    }
}

impl From<Cause> for Causes {
    fn from(cause: Cause) -> Self {
        Self { kept: Kept::One(cause) }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listed => "listed",
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Resynced => "resynced",
            Self::Generic => "generic",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object { kind, object, change } => write!(f, "{kind} {object} {change}"),
            Self::Retry => f.write_str("retry"),
            Self::Requeue => f.write_str("requeue"),
            Self::Timer => f.write_str("timer"),
            Self::External(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, cause) in self.kept().iter().enumerate() {
            write!(f, "{}{cause}", if at == 0 { "" } else { ", " })?;
        }
        match self.more() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_kept_once_then_counted() {
        let mut causes = Causes::default();
        for at in 0..CAUSES_KEPT + 3 {
            causes.push(Cause::External(format!("c{at}").into()));
            causes.push(Cause::External("c0".into()));
        }
        assert_eq!(causes.kept().len(), CAUSES_KEPT);
        assert_eq!(causes.more(), 3);
        assert!(causes.to_string().ends_with("c7 and 3 more"), "{causes}");
    }

    #[test]
    fn two_lists_become_one() {
        let external = |name: &str| Cause::External(name.into());
        let mut many = Causes::default();
        (0..CAUSES_KEPT + 2).for_each(|at| many.push(external(&at.to_string())));
        let mut causes = Causes::default();
        assert!(causes.is_empty());
        causes.merge(Causes::default());
        causes.merge(Causes::from(external("first")));
        causes.merge(Causes::from(external("first")));
        assert_eq!((causes.kept().len(), causes.more()), (1, 0));
        causes.merge(many);
        assert_eq!((causes.kept().len(), causes.more()), (CAUSES_KEPT, 3));
        assert_eq!(causes.kept()[0], external("first"));
    }
}

//! What can be wrong with a history.

use std::fmt;

use crate::history::{Key, Operation, Revision};

/// A reason why no correct server could have produced a history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// No order of the requests about one object explains their answers.
    NotLinearizable {
        /// The object.
        key: Key,
        /// The requests that remain in the attempt that took the most, oldest first.
        stuck: Vec<Operation>,
        /// The state that this attempt had reached.
        state: String,
    },
    /// One revision stands for two different changes.
    Reused {
        /// The revision.
        revision: Revision,
        /// The two changes.
        seen: [String; 2],
    },
    /// A write got a revision that is not above one that was seen before the write was sent, or a list has a revision
    /// below one that was seen before.
    Backwards {
        /// The revision of the write or of the list.
        revision: Revision,
        /// The revision that was seen before.
        before: Revision,
    },
    /// A list does not show an object as it was at the revision of the list.
    MixedList {
        /// The revision of the list.
        revision: Revision,
        /// The object.
        key: Key,
        /// The revision of the item in the list; `None` if the object is not in the list.
        shows: Option<Revision>,
        /// The last change of the object up to the revision of the list.
        change: Revision,
    },
    /// An event was repeated or out of order.
    Repeated {
        /// The number of the watcher.
        watcher: usize,
        /// The revision of the event.
        revision: Revision,
        /// The revision that had been shown before.
        after: Revision,
    },
    /// A watch skipped a change.
    Missed {
        /// The number of the watcher.
        watcher: usize,
        /// The revision of the change.
        revision: Revision,
    },
    /// An event has the wrong type, or an object changed its uid without being deleted.
    Misnamed {
        /// The revision of the change.
        revision: Revision,
        /// What is wrong.
        why: &'static str,
    },
    /// A watcher did not see the last write.
    Unfinished {
        /// The number of the watcher.
        watcher: usize,
        /// The last revision that the watcher saw.
        seen: Revision,
        /// The revision of the last write.
        end: Revision,
    },
    /// An answer that a correct server never gives.
    Surprise(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLinearizable { key, stuck, state } => {
                write!(f, "object {key} is not linearizable: no order from {state} explains")?;
                stuck.iter().take(20).try_for_each(|operation| write!(f, "\n  {operation:?}"))
            }
            Self::Reused { revision, seen: [one, two] } => {
                write!(f, "revision {revision} is used twice: {one}, and {two}")
            }
            Self::Backwards { revision, before } => {
                write!(f, "revision {revision} was given after {before} had been seen")
            }
            Self::MixedList { revision, key, shows, change } => write!(
                f,
                "the list at revision {revision} shows object {key} of revision {shows:?}, which changed at {change}"
            ),
            Self::Repeated { watcher, revision, after } => {
                write!(f, "watcher {watcher} was shown revision {revision} after {after}")
            }
            Self::Missed { watcher, revision } => {
                write!(f, "watcher {watcher} was not shown revision {revision}")
            }
            Self::Misnamed { revision, why } => write!(f, "at revision {revision}: {why}"),
            Self::Unfinished { watcher, seen, end } => {
                write!(f, "watcher {watcher} saw nothing after revision {seen}, though {end} was written")
            }
            Self::Surprise(what) => f.write_str(what),
        }
    }
}

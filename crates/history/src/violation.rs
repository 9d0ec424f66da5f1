//! What is wrong with a history.

use std::fmt;

use crate::history::{Key, Operation, Revision};

/// A reason why no correct server could have produced a history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// No order of the requests about one object explains what they were answered.
    NotLinearizable {
        /// The object.
        key: Key,
        /// The requests that remain in the attempt that came furthest, oldest first.
        stuck: Vec<Operation>,
        /// The state that it had come to.
        state: String,
    },
    /// Two changes were seen under one revision.
    Reused {
        /// The revision.
        revision: Revision,
        /// What was seen.
        seen: [String; 2],
    },
    /// A write got a revision that is not above one that was seen before the write was sent, or a list shows a
    /// revision below one.
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
        /// What the list shows: the revision of the item, if it is there.
        shows: Option<Revision>,
        /// The last change of the object up to the revision of the list.
        change: Revision,
    },
    /// An event came again, or out of order.
    Repeated {
        /// Who watched.
        watcher: usize,
        /// The revision of the event.
        revision: Revision,
        /// The revision that had been shown before.
        after: Revision,
    },
    /// A watch passed over a change.
    Missed {
        /// Who watched.
        watcher: usize,
        /// The revision of the change.
        revision: Revision,
    },
    /// An event calls a change by the wrong name, or an object changed its uid without being deleted.
    Misnamed {
        /// The revision of the change.
        revision: Revision,
        /// What is wrong.
        why: &'static str,
    },
    /// A watcher did not come to the end.
    Unfinished {
        /// Who watched.
        watcher: usize,
        /// The last revision that it saw.
        seen: Revision,
        /// The revision that it should have seen.
        end: Revision,
    },
    /// An answer that a correct server does not give at all.
    Surprise(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLinearizable { key, stuck, state } => {
                write!(f, "object {key} is not linearizable: from {state} nothing explains")?;
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

//! The conditions of a Job.

use evenkeel_tree::Tree;

use crate::object::Fields;

/// Returns the condition of a type in a status, if its status is `True`.
pub(crate) fn holding<'a>(status: &'a Tree, kind: &str) -> Option<&'a Tree> {
    status.condition(kind).filter(|condition| condition.is("status", "True"))
}

/// Returns the condition that ended the Job, `Complete` or `Failed`; `None` if the Job has not finished.
pub(crate) fn finished(status: &Tree) -> Option<&Tree> {
    holding(status, "Complete").or_else(|| holding(status, "Failed"))
}

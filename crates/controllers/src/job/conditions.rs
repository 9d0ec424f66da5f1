//! The conditions of a Job.

use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

/// Returns the condition of a type, if its status is `True`.
pub(crate) fn holding<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    let conditions = status.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True")
}

/// Returns the condition that ended the Job, `Complete` or `Failed`; `None` if the Job has not finished.
pub(crate) fn finished(status: &JobStatus) -> Option<&JobCondition> {
    holding(status, "Complete").or_else(|| holding(status, "Failed"))
}

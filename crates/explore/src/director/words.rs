//! Descriptions of strikes for reports.

use evenkeel_cluster::{CrashMoment, Fault};

use crate::plan::Mishap;

pub(crate) fn moment_words(moment: CrashMoment) -> &'static str {
    match moment {
        CrashMoment::Before => "before",
        CrashMoment::Unanswered => "before the answer to",
        CrashMoment::After => "after",
    }
}

/// Describes a fault as a sentence.
pub(crate) fn fault_words(fault: Fault) -> &'static str {
    match fault {
        Fault::Conflict => "the server answered 409 Conflict",
        Fault::TooManyRequests => "the server answered 429 Too Many Requests",
        Fault::InternalError => "the server answered 500 Internal Server Error",
        Fault::Timeout => "the request timed out and was never served",
        Fault::LostAnswer => "the request was served and its answer was lost",
        Fault::QuotaExceeded => "a quota refused it",
        Fault::Denied => "an admission webhook denied it",
        _ => "the request failed",
    }
}

/// Describes what a mishap did to an object.
pub(crate) fn mishap_words(mishap: Mishap, path: &str) -> String {
    match mishap {
        Mishap::Delete => format!("somebody deleted {path}"),
        Mishap::Change => format!("somebody changed {path}"),
        Mishap::Evict => format!("the pod {path} was evicted"),
        Mishap::CrashPod => format!("the containers of {path} crashed"),
        Mishap::UnreadyPod => format!("the pod {path} was not ready for a while"),
        Mishap::LoseNode => format!("the node {path} was lost with all its pods"),
    }
}

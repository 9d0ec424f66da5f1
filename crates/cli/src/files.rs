//! The limit of open files: each connection is one, and so is each segment of a journal.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Asked for where the hard limit is none at all: macOS takes no more than this, and calls its hard limit unlimited.
const WITHOUT_HARD_LIMIT: u64 = 10_240;
/// Fewer open files than this are little for a server with clients and a journal.
const FEW: u64 = 1024;

/// Raises the limit of open files to as much as this user may have. Shells set it low for the sake of old programs.
pub(crate) fn raise_limit() {
    let before = getrlimit(Resource::Nofile);
    let wanted = before.maximum.unwrap_or(WITHOUT_HARD_LIMIT);
    let raised = match before.current {
        Some(current) if current < wanted => {
            setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: before.maximum })
        }
        _ => Ok(()),
    };
    if let Err(error) = raised {
        tracing::warn!(%error, wanted, "cannot raise the limit of open files");
    }
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < FEW => tracing::warn!(files, "few files can be open: few clients can connect"),
        files => tracing::info!(?files, "limit of open files"),
    }
}

//! Hints: what the user can do about an error.

use std::fmt;
use std::io;

use evenkeel::cluster::audit::AuditLogError;
use evenkeel::cluster::serve::{ServeError, TokenFileError};
use evenkeel::cluster::snapshot::SnapshotError;
use evenkeel::cluster::{OpenError, StartError};

/// The context of an error, with what the user can do about it.
#[derive(Debug)]
pub(crate) struct Hinted {
    message: String,
    hint: &'static str,
}

impl Hinted {
    /// A context with this message. `hint` is printed on a line of its own.
    pub(crate) fn new(message: impl Into<String>, hint: &'static str) -> Self {
        Self { message: message.into(), hint }
    }
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What the user can do about this error, if we know.
pub(crate) fn hint(error: &anyhow::Error) -> Option<String> {
    if let Some(hinted) = error.downcast_ref::<Hinted>() {
        return Some(hinted.hint.to_owned());
    }
    error.chain().find_map(|cause| {
        let serve = cause.downcast_ref::<ServeError>().and_then(of_serving);
        let start = || cause.downcast_ref::<StartError>().and_then(of_starting);
        let tokens = || cause.downcast_ref::<TokenFileError>().map(of_tokens);
        let audit = || cause.downcast_ref::<AuditLogError>().and_then(of_audit);
        let snapshot = || cause.downcast_ref::<SnapshotError>().and_then(of_snapshot);
        serve.or_else(start).or_else(tokens).or_else(audit).or_else(snapshot)
    })
}

fn of_serving(error: &ServeError) -> Option<String> {
    let ServeError::Bind { address, source } = error else { return None };
    match source.kind() {
        io::ErrorKind::AddrInUse => Some(format!(
            "another program listens on port {}; choose another port, or any free one with --bind {}:0",
            address.port(),
            address.ip()
        )),
        io::ErrorKind::PermissionDenied => {
            Some("ports below 1024 need privileges; choose a higher port with --bind".to_owned())
        }
        io::ErrorKind::AddrNotAvailable => Some(format!(
            "this machine does not have the address {}; choose another one with --bind",
            address.ip()
        )),
        _ => None,
    }
}

fn of_starting(error: &StartError) -> Option<String> {
    let error = match error {
        StartError::DataDir(error) => error,
        StartError::Restore(error) => return of_snapshot(error),
        _ => return None,
    };
    match error {
        OpenError::Locked(_) => {
            Some("another `evenkeel up` uses the directory; stop it, or choose another --data-dir".to_owned())
        }
        OpenError::Occupied(_) => Some(
            "start without --restore to keep the state in the directory, or choose a new --data-dir"
                .to_owned(),
        ),
        OpenError::Foreign { .. } => Some("choose an empty or new directory with --data-dir".to_owned()),
        OpenError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Some("choose a directory that you can write to with --data-dir".to_owned())
        }
        OpenError::Damaged { .. } => Some(
            "nothing in the directory was changed; restore it from a copy, or choose a new --data-dir"
                .to_owned(),
        ),
        _ => None,
    }
}

fn of_snapshot(error: &SnapshotError) -> Option<String> {
    match error {
        SnapshotError::Request(_) => {
            Some("is `evenkeel up` running? pass its kubeconfig with --kubeconfig or KUBECONFIG".to_owned())
        }
        SnapshotError::Refused { status: 401 | 403, .. } => Some(
            "the user needs permission to get the nonResourceURL /evenkeel/snapshot; members of system:masters have it"
                .to_owned(),
        ),
        SnapshotError::Refused { status: 404, .. } => {
            Some("only `evenkeel up` supports snapshots; is this its kubeconfig?".to_owned())
        }
        SnapshotError::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Some("choose a file in a folder that you can write to".to_owned())
        }
        SnapshotError::Damaged { .. } => Some("nothing was written; use another copy of the snapshot".to_owned()),
        _ => None,
    }
}

fn of_tokens(_: &TokenFileError) -> String {
    "each line is token,user,uid or token,user,uid,\"group1,group2\"".to_owned()
}

fn of_audit(error: &AuditLogError) -> Option<String> {
    match error {
        AuditLogError::Open { .. } => {
            Some("choose a file that you can write to with --audit-log-path".to_owned())
        }
        AuditLogError::ReadPolicy { .. } => {
            Some("--audit-policy-file must name a file that you can read".to_owned())
        }
        AuditLogError::Policy { .. } => Some(
            "the smallest policy is {apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}"
                .to_owned(),
        ),
        _ => None,
    }
}

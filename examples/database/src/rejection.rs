//! Errors that a retry cannot fix, as opposed to temporary ones.

use evenkeel::ContextError;

/// The reason why a spec cannot be fulfilled. The operator shows it in the status and waits for a change of the spec.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// This operator does not support the version.
    #[error("version {version} is not one of {known}")]
    Version {
        /// The requested value.
        version: String,
        /// The supported versions.
        known: String,
    },
    /// The field cannot be changed after the database was created.
    #[error("{field} was {was} when the database was made, and cannot become {wanted}")]
    Immutable {
        /// The field of the spec.
        field: &'static str,
        /// The current value.
        was: String,
        /// The requested value.
        wanted: String,
    },
    /// Volumes do not shrink.
    #[error("storage is {was}, and cannot shrink to {wanted}")]
    Shrink {
        /// The current size of the volumes.
        was: String,
        /// The requested value.
        wanted: String,
    },
    /// The API server refuses an object that this spec leads to.
    #[error("{0}")]
    Refused(ContextError),
}

impl Rejection {
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Version { .. } => "UnsupportedVersion",
            Self::Immutable { .. } => "ImmutableField",
            Self::Shrink { .. } => "StorageShrinks",
            Self::Refused(_) => "Refused",
        }
    }
}

/// The reason why a step failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A permanent error: a retry does not help.
    Rejected(Rejection),
    /// A temporary error: the server was busy or unreachable, or another client wrote first.
    Transient(ContextError),
}

impl From<ContextError> for Failure {
    fn from(error: ContextError) -> Self {
        match error.is_invalid() {
            true => Self::Rejected(Rejection::Refused(error)),
            false => Self::Transient(error),
        }
    }
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

//! What no retry can heal, told apart from what one can.

use evenkeel::ContextError;

/// Why a spec cannot be carried out. The user is told, and the next change of the spec is waited for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// This operator does not know how to run that version.
    #[error("version {version} is not one of {known}")]
    Version {
        /// What was asked for.
        version: String,
        /// What can be had.
        known: String,
    },
    /// The field took effect when the database was made.
    #[error("{field} was {was} when the database was made, and cannot become {wanted}")]
    Immutable {
        /// Which field of the spec.
        field: &'static str,
        /// What it was.
        was: String,
        /// What was asked for.
        wanted: String,
    },
    /// Volumes do not shrink.
    #[error("storage is {was}, and cannot shrink to {wanted}")]
    Shrink {
        /// How large the volumes are.
        was: String,
        /// What was asked for.
        wanted: String,
    },
    /// The API server takes what this spec leads to for wrong.
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

/// Why a step was not taken.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No retry can help.
    Rejected(Rejection),
    /// A retry may help: the server was busy, out of reach, or somebody else was faster.
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

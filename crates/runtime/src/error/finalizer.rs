//! The error of work under a finalizer.

use super::{BoxError, ContextError};

/// Work under a finalizer failed; the error of [`Ctx::finalizer`](crate::Ctx::finalizer).
///
/// The object keeps its finalizer, and the key is reconciled again.
///
/// ```
/// use evenkeel_runtime::finalizer::FinalizerError;
///
/// /// Whether an error is no more than a race that the next attempt wins.
/// fn is_race(error: &FinalizerError) -> bool {
///     matches!(error, FinalizerError::Changed(_))
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinalizerError {
    /// The function failed in `Phase::Apply`.
    #[error("apply under finalizer {finalizer}")]
    Apply {
        /// The name of the finalizer.
        finalizer: String,
        /// The error that the function returned.
        source: BoxError,
    },
    /// The function failed in `Phase::Cleanup`.
    #[error("clean up under finalizer {finalizer}")]
    Cleanup {
        /// The name of the finalizer.
        finalizer: String,
        /// The error that the function returned.
        source: BoxError,
    },
    /// The API server refused to add or to remove the finalizer.
    #[error(transparent)]
    Patch(ContextError),
    /// Another writer changed the finalizers since the object was read.
    #[error("{0}")]
    Changed(#[source] FinalizersChanged),
}

/// Another writer changed the finalizers of an object since it was read; the next attempt reads the newer object.
#[derive(Debug, thiserror::Error)]
#[error("change the finalizers of {object}: another writer was faster")]
#[non_exhaustive]
pub struct FinalizersChanged {
    /// The namespace and name of the object.
    pub object: String,
    /// The answer of the API server.
    pub source: ContextError,
}

impl FinalizersChanged {
    pub(crate) fn new(object: String, source: ContextError) -> Self {
        Self { object, source }
    }
}

//! JSON patch, JSON merge patch and strategic merge patch.
//!
//! They follow Kubernetes, with its leniency and its messages, rather than the RFCs alone. Server-side apply is
//! [`crate::managed_fields::apply`].

pub mod json;
pub mod merge;
pub mod strategic;

/// Why a patch was refused. Each variant has the response that Kubernetes sends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The document is not a patch: 400 with this message.
    #[error("{0}")]
    BadRequest(String),
    /// The patch has too many operations: 413 with this message.
    #[error("{0}")]
    TooLarge(String),
    /// The patch cannot be applied to the object: 422 with a general message, without this one.
    #[error("{0}")]
    Unprocessable(String),
    /// The patched object would be nested deeper than [`crate::depth::DEPTH_MAX`]: 422 with this message.
    #[error("{0}")]
    TooDeep(#[from] crate::depth::TooDeep),
    /// The patch is invalid in a way that Kubernetes does not expect: 500 with this message.
    #[error("{0}")]
    Internal(String),
}

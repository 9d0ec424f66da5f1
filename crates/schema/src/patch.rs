//! The three patches that change an object by a document: JSON patch, JSON merge patch, strategic merge patch.
//!
//! They follow what Kubernetes does, leniencies and wordings included, not only what the RFCs say. The fourth,
//! server-side apply, is [`crate::managed::apply`].

pub mod json;
pub mod merge;
pub mod strategic;

/// Why a patch was refused, by the answer that Kubernetes gives.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The document is no patch: 400 with this message.
    #[error("{0}")]
    BadRequest(String),
    /// The patch has too many operations: 413 with this message.
    #[error("{0}")]
    TooLarge(String),
    /// The patch does not fit the object: 422 with a general message, which does not show this one.
    #[error("{0}")]
    Unprocessable(String),
    /// The patched object would be nested deeper than [`crate::depth::DEPTH_MAX`]: 422 with this message.
    #[error("{0}")]
    TooDeep(#[from] crate::depth::TooDeep),
    /// The patch is a kind of wrong that Kubernetes does not expect: 500 with this message.
    #[error("{0}")]
    Internal(String),
}

//! Something outside of the cluster that must be cleaned up before an app goes: what its visitors uploaded.

/// Where uploads are kept. A test has one in memory; production has a bucket.
pub trait Uploads: Send + Sync + 'static {
    /// Removes all that visitors of this app uploaded. It may be called again for the same app after a crash, and must
    /// then succeed though nothing is left.
    fn purge(&self, app: &str) -> impl Future<Output = Result<(), UploadsError>> + Send;
}

/// Uploads could not be removed; a later attempt may succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot remove the uploads: {0}")]
pub struct UploadsError(pub String);

/// Keeps no uploads.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUploads;

impl Uploads for NoUploads {
    async fn purge(&self, app: &str) -> Result<(), UploadsError> {
        tracing::info!(app, "no place for uploads is configured: nothing to remove");
        Ok(())
    }
}

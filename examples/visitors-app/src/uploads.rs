//! Uploads of visitors: something outside of the cluster that must be removed before an app is deleted.

/// The storage of uploads: a bucket in production, memory in tests.
pub trait Uploads: Send + Sync + 'static {
    /// Removes all uploads of this app's visitors. After a crash it may be called again for the same app, and must then
    /// succeed although nothing is left.
    fn purge(&self, app: &str) -> impl Future<Output = Result<(), UploadsError>> + Send;
}

/// Uploads could not be removed. A later attempt may succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot remove the uploads: {0}")]
pub struct UploadsError(pub String);

/// A storage without uploads.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUploads;

impl Uploads for NoUploads {
    async fn purge(&self, app: &str) -> Result<(), UploadsError> {
        tracing::info!(app, "no place for uploads is configured: nothing to remove");
        Ok(())
    }
}

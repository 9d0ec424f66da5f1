//! Something outside of the cluster that must be told before a database goes.

/// Where last backups go.
pub trait Backup: Send + Sync + 'static {
    /// Takes a last backup of the database. It may be called again for the same one after a crash.
    fn take(&self, database: &str) -> impl Future<Output = Result<(), BackupError>> + Send;
}

/// A backup could not be taken; a later attempt may succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot take the last backup: {0}")]
pub struct BackupError(pub String);

/// Takes no backups, and says so in the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBackup;

impl Backup for NoBackup {
    async fn take(&self, database: &str) -> Result<(), BackupError> {
        tracing::warn!(database, "no place for backups is configured: none is taken");
        Ok(())
    }
}

//! Backups: something outside of the cluster that must be done before a database is deleted.

/// Takes the last backup of a database before it is deleted.
pub trait Backup: Send + Sync + 'static {
    /// Takes a last backup of the database. After a crash it may be called again for the same database.
    fn take(&self, database: &str) -> impl Future<Output = Result<(), BackupError>> + Send;
}

/// A backup could not be taken. A later attempt may succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot take the last backup: {0}")]
pub struct BackupError(pub String);

/// Takes no backups, and logs that.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBackup;

impl Backup for NoBackup {
    async fn take(&self, database: &str) -> Result<(), BackupError> {
        tracing::warn!(database, "no place for backups is configured: none is taken");
        Ok(())
    }
}

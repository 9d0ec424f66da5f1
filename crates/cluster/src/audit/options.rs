//! The options of an audit log.

use std::path::PathBuf;

/// Where the audit log is written, and how much of it is kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditLogOptions {
    /// The file; `-` stands for standard output.
    pub path: PathBuf,
    /// The size in bytes at which the file is rotated: 100 MiB unless set. Zero means never.
    pub max_bytes: u64,
    /// How many old files are kept: 100 unless set. Zero means all.
    pub max_backups: usize,
    /// How many days an old file is kept: 366 unless set. Zero means forever.
    pub max_age_days: u32,
}

impl AuditLogOptions {
    /// A log in this file, with kube-apiserver's default rotation.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), max_bytes: 100 << 20, max_backups: 100, max_age_days: 366 }
    }
}

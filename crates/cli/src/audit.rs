//! The audit log of `evenkeel up`, with the flags of kube-apiserver.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use evenkeel::Env;
use evenkeel::cluster::audit::{Audit, AuditLog, AuditLogOptions, read_policy};

/// A megabyte, as kube-apiserver counts it.
const MEGABYTE: u64 = 1 << 20;

/// The flags of the audit log.
#[derive(Debug, Args)]
#[command(next_help_heading = "Audit log")]
pub(crate) struct AuditFlags {
    /// Write audit events to this file, as JSON lines of audit.k8s.io/v1; `-` means standard output. Needs a policy
    /// file.
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<PathBuf>,
    /// The audit policy, a Policy of audit.k8s.io/v1 in YAML or JSON: which requests to log, and in what detail.
    #[arg(long, value_name = "FILE")]
    audit_policy_file: Option<PathBuf>,
    /// Rotate the log file when it reaches this size; 0 means never.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 100)]
    audit_log_maxsize: u32,
    /// How many old log files to keep; 0 means all.
    #[arg(long, value_name = "N", default_value_t = 100)]
    audit_log_maxbackup: u32,
    /// How many days to keep an old log file; 0 means forever.
    #[arg(long, value_name = "DAYS", default_value_t = 366)]
    audit_log_maxage: u32,
}

/// An open audit log.
pub(crate) struct OpenAudit {
    pub(crate) audit: Audit,
    /// Must be closed at the end, so that its last lines are written.
    pub(crate) log: Arc<AuditLog>,
}

impl AuditFlags {
    /// Reads the policy and opens the log. As with kube-apiserver, a log without a policy, or a policy without a log,
    /// gives a warning and logs nothing.
    pub(crate) fn open(&self) -> anyhow::Result<Option<OpenAudit>> {
        let policy = self.audit_policy_file.as_deref().map(read_policy).transpose()?;
        match (&self.audit_log_path, policy) {
            (None, None) => Ok(None),
            (Some(_), None) => {
                eprintln!("warning: no audit policy file provided, no events will be recorded");
                Ok(None)
            }
            (None, Some(_)) => {
                eprintln!("warning: no audit log path provided, no events will be recorded");
                Ok(None)
            }
            (Some(path), Some(policy)) => {
                let log = AuditLog::open(&self.options(path), Env::system())?;
                Ok(Some(OpenAudit { audit: Audit::new(policy, log.clone()), log }))
            }
        }
    }

    fn options(&self, path: &Path) -> AuditLogOptions {
        let mut options = AuditLogOptions::new(path);
        options.max_bytes = MEGABYTE * u64::from(self.audit_log_maxsize);
        options.max_backups = self.audit_log_maxbackup as usize;
        options.max_age_days = self.audit_log_maxage;
        options
    }
}

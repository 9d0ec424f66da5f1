//! The audit log as a file: a queue of lines, and one thread that writes them.
//!
//! The API server makes the lines ([`Audit`]); a request waits until its lines are written, as with kube-apiserver's
//! default mode `blocking`. The thread takes every line that waits and writes them in one go, so that many requests at
//! once cost one write. An error of the disk loses the lines that it struck, is logged and counted, and never stops the
//! server.

mod file;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_apiserver::AuditSink;
pub use evenkeel_apiserver::{Audit, AuditPolicy, AuditPolicyError};
use evenkeel_env::Env;
use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use file::{LogFile, Output};

/// How many bytes may wait to be written. A request waits for its lines before it goes on, so that a disk that works
/// has a few lines waiting for it; this much waits only for one that stands still, and what comes after is lost.
const QUEUE_MAX_BYTES: usize = 64 << 20;
/// How long the end of the process waits for lines that are not written yet. A disk takes milliseconds; a pipe that
/// nobody reads takes for ever.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// Where the audit log is written, and how much of it is kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditLogOptions {
    /// The file; `-` stands for standard output.
    pub path: PathBuf,
    /// The size in bytes beyond which a new file is begun: 100 MiB unless set. Zero never begins a new one.
    pub max_bytes: u64,
    /// How many old files are kept: 100 unless set. Zero keeps all.
    pub max_backups: usize,
    /// How many days an old file is kept: 366 unless set. Zero keeps it for ever.
    pub max_age_days: u32,
}

impl AuditLogOptions {
    /// A log in this file, kept as kube-apiserver keeps it by default.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), max_bytes: 100 << 20, max_backups: 100, max_age_days: 366 }
    }
}

/// An audit log cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditLogError {
    /// The file cannot be opened.
    #[error("cannot open the audit log {}", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There is no thread for it.
    #[error("cannot start the writer of the audit log")]
    Thread(#[source] io::Error),
    /// The policy file cannot be read.
    #[error("loading audit policy file: failed to read file path {path:?}")]
    ReadPolicy {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The policy file is no usable policy.
    #[error("loading audit policy file: {reason}: from file {}", .path.display())]
    Policy {
        /// The file.
        path: PathBuf,
        /// Why, in the words of kube-apiserver.
        reason: AuditPolicyError,
    },
}

/// Reads a policy from a file. What is odd about it and can be ignored is logged.
pub fn read_policy(path: &Path) -> Result<AuditPolicy, AuditLogError> {
    let read = |source| AuditLogError::ReadPolicy { path: path.to_owned(), source };
    let text = std::fs::read(path).map_err(read)?;
    let refuse = |reason| AuditLogError::Policy { path: path.to_owned(), reason };
    let (policy, warnings) = AuditPolicy::parse(&text).map_err(refuse)?;
    warnings.iter().for_each(|warning| tracing::warn!(file = %path.display(), "{warning}"));
    Ok(policy)
}

/// An audit log that is being written. It ends with [`AuditLog::close`], or when it is dropped.
pub struct AuditLog {
    shared: Arc<Shared>,
    /// Resolves when the writer has ended.
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Told when there is something to do for the writer.
    filled: Condvar,
    lost: AtomicU64,
}

#[derive(Default)]
struct Queue {
    lines: Vec<Line>,
    bytes: usize,
    closed: bool,
}

struct Line {
    text: Vec<u8>,
    /// Told when the line is written or lost.
    written: oneshot::Sender<()>,
}

impl AuditLog {
    /// Opens the log and starts its writer. `env` dates old files.
    ///
    /// # Errors
    /// Fails where the file cannot be opened, or there is no thread to be had.
    pub fn open(options: &AuditLogOptions, env: Env) -> Result<Arc<Self>, AuditLogError> {
        let opened = LogFile::open(options, env);
        let file = opened.map_err(|source| AuditLogError::Open { path: options.path.clone(), source })?;
        Self::start(file)
    }

    fn start(output: impl Output) -> Result<Arc<Self>, AuditLogError> {
        let shared =
            Arc::new(Shared { queue: Mutex::default(), filled: Condvar::new(), lost: AtomicU64::new(0) });
        let (ending, ended) = oneshot::channel();
        let writer = Writer { shared: shared.clone(), output };
        let run = move || {
            writer.run();
            let _ = ending.send(());
        };
        let spawned = std::thread::Builder::new().name("audit log".to_owned()).spawn(run);
        spawned.map_err(AuditLogError::Thread)?;
        Ok(Arc::new(Self { shared, ended: Mutex::new(Some(ended)) }))
    }

    /// How many lines were lost to errors of the disk, or to one that stood still.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Ends the log: waits until every line is written, for two seconds at most. Later lines are not taken.
    pub async fn close(&self) {
        self.shared.close();
        let Some(ended) = self.ended.lock().take() else { return };
        if tokio::time::timeout(FLUSH_MAX, ended).await.is_err() {
            // The lines that the writer has taken are not counted: it may still write them.
            let left = self.shared.queue.lock().lines.len();
            self.shared.lose(left as u64, &io::Error::from(io::ErrorKind::TimedOut));
        }
        let lost = self.lost();
        if lost > 0 {
            tracing::error!(lost, "the audit log is closed: this many events are missing from it");
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl AuditSink for AuditLog {
    fn record(&self, text: Vec<u8>) -> BoxFuture<'static, ()> {
        let (written, waiting) = oneshot::channel();
        let mut queue = self.shared.queue.lock();
        if queue.closed {
            return Box::pin(std::future::ready(()));
        }
        if queue.bytes + text.len() > QUEUE_MAX_BYTES {
            drop(queue);
            self.shared.lose(1, &io::Error::from(io::ErrorKind::WouldBlock));
            return Box::pin(std::future::ready(()));
        }
        queue.bytes += text.len();
        queue.lines.push(Line { text, written });
        drop(queue);
        self.shared.filled.notify_one();
        Box::pin(async move {
            // A writer that is gone has nothing more to wait for.
            let _ = waiting.await;
        })
    }
}

impl Shared {
    fn close(&self) {
        self.queue.lock().closed = true;
        self.filled.notify_one();
    }

    /// Counts and reports lost lines.
    fn lose(&self, lines: u64, error: &io::Error) {
        let all = lines + self.lost.fetch_add(lines, Ordering::Relaxed);
        tracing::error!(%error, lines, all, "audit events are lost: they cannot be written");
    }

    /// Waits for lines and takes all of them; `None` when the log is closed and empty.
    fn take(&self) -> Option<Vec<Line>> {
        let mut queue = self.queue.lock();
        while queue.lines.is_empty() {
            if queue.closed {
                return None;
            }
            self.filled.wait(&mut queue);
        }
        queue.bytes = 0;
        Some(std::mem::take(&mut queue.lines))
    }
}

/// The thread that writes.
struct Writer<O> {
    shared: Arc<Shared>,
    output: O,
}

impl<O: Output> Writer<O> {
    fn run(mut self) {
        while let Some(lines) = self.shared.take() {
            if let Err(error) = self.output.write(lines.iter().map(|line| &*line.text)) {
                self.shared.lose(error.lost, &error.source);
            }
            for line in lines {
                // A client that went away does not wait.
                let _ = line.written.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests;

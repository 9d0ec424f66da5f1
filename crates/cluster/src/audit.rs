//! The audit log as a file: a queue of lines, and one thread that writes them.
//!
//! The API server creates the lines ([`Audit`]). A request waits until its lines are written, as in kube-apiserver's
//! default mode `blocking`. The thread writes all waiting lines at once, so that many concurrent requests cost one
//! write. A disk error loses the lines that it affects; it is logged and counted, and never stops the server.

mod file;
mod options;

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

pub use options::AuditLogOptions;

use file::{LogFile, Output};

/// How many bytes may wait to be written. Requests wait for their lines, so only a few lines wait for a disk that
/// works. This many wait only for a disk that hangs, and further lines are lost.
const QUEUE_MAX_BYTES: usize = 64 << 20;
/// How long the shutdown waits for lines that are not written yet. A disk takes milliseconds; a pipe that nobody reads
/// takes forever.
const FLUSH_MAX: Duration = Duration::from_secs(2);

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
    /// The writer thread cannot be started.
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
    /// The policy file is invalid.
    #[error("loading audit policy file: {reason}: from file {}", .path.display())]
    Policy {
        /// The file.
        path: PathBuf,
        /// The cause, in the words of kube-apiserver.
        reason: AuditPolicyError,
    },
}

/// Reads an audit policy from a file. Problems that can be ignored are logged.
pub fn read_policy(path: &Path) -> Result<AuditPolicy, AuditLogError> {
    let read = |source| AuditLogError::ReadPolicy { path: path.to_owned(), source };
    let text = std::fs::read(path).map_err(read)?;
    let refuse = |reason| AuditLogError::Policy { path: path.to_owned(), reason };
    let (policy, warnings) = AuditPolicy::parse(&text).map_err(refuse)?;
    warnings.iter().for_each(|warning| tracing::warn!(file = %path.display(), "{warning}"));
    Ok(policy)
}

/// An open audit log. [`AuditLog::close`] closes it, and so does dropping it.
pub struct AuditLog {
    shared: Arc<Shared>,
    /// Resolves when the writer thread has ended.
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Notified when there are lines to write, or the log is closed.
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
    /// Notified when the line is written or lost.
    written: oneshot::Sender<()>,
}

impl AuditLog {
    /// Opens the log and starts its writer thread. `env` gives the time for the names of rotated files.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or the thread cannot be started.
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

    /// How many lines were lost because of disk errors or a disk that hangs.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Closes the log: waits until every line is written, for two seconds at most. Later lines are discarded.
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
            // An error means that the writer has ended; then there is nothing to wait for.
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
        tracing::error!(%error, lines, all, "audit events could not be written and are lost");
    }

    /// Waits for lines and takes all of them. `None` if the log is closed and empty.
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

/// The thread that writes the lines.
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
                // An error means that the request was cancelled.
                let _ = line.written.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! The disk journal: a log and checkpoints.
//!
//! The whole state is in memory, so that the disk is read only when the store is opened. The journal needs little of the
//! disk: append, sync, read in order, drop the beginning.
//!
//! ```text
//! FORMAT                           marks the directory as a store, with its format version
//! LOCK                             locked while a process has it open
//! checkpoint-00000000000000005120  the state at revision 5120
//! log-00000000000000005121         every change from revision 5121 on
//! ```
//!
//! * **Group commit.** One thread takes all waiting writes, decides them in order, writes them as one frame and syncs it.
//!   Only then do readers and watchers see them, and are the writers answered. Writes that arrive in the meantime form
//!   the next frame.
//! * **A torn tail is not damage.** A frame is written only when the one before it is durable. So a broken frame at the
//!   very end was never acknowledged: it is cut off, with a log line. A broken frame before a whole one or in an older
//!   file, or a gap in the revisions, means that acknowledged data is damaged: the store does not open, the error says
//!   where, and nothing is changed. (Only decay of the very last frame cannot be distinguished from a torn frame.)
//! * **Nothing is visible before it is durable**, not even what is found when a store is opened. The last frame of the log
//!   may be only in the page cache, because the previous process was killed before its sync, or its sync failed. So the
//!   frame is written again and synced, and the directory is synced, before the store is open.
//! * **Backups.** A snapshot of the tree becomes a stream (`backup.rs`), which can become a data directory or a store in
//!   memory again, completely or not at all (`restore.rs`).
//! * **Checkpoints.** When the log has grown by the size of the state (and by [`Options::checkpoint_bytes`]), a second
//!   thread writes a snapshot of the tree, and a new log file begins. Older files are removed when no kept history needs
//!   them. So a restart also restores the history, and watches can resume. A checkpoint reserves its disk space before it
//!   writes. One that fails leaves nothing behind, and is tried again when the log has grown.
//!
//! # When the disk fails
//!
//! | failure | consequence |
//! |---|---|
//! | the sync of a frame, whatever the error | Final. Linux reports a failed write-back once and then treats the pages as clean, so that neither another sync nor reading the file shows what is on disk. PostgreSQL panics for the same reason, and etcd ends its process. The store takes no more writes, still serves reads, and reports the failure (`Store::journal_failure`). |
//! | the write of a frame, disk full | The file is truncated to its old length and synced. If both succeed, the write was not made ([`WriteError::NoRoom`]) and the next one is tried. An incomplete frame is never read as a frame, so that a crash in between is harmless. If one of them fails, the failure is final. |
//! | the write of a frame, any other error | Final. |
//! | a new log file: no file descriptor, disk full, any error | The old file stays in use. The new file is tried again when the log has grown by an eighth of [`Options::checkpoint_bytes`]. What is left of the new file is empty, and recovery skips it. |
//! | a checkpoint, at any step, or the removal of old files | A log line. The log becomes longer, and the step is tried again. |
//! | the committer thread panics | Writers get an error at once, and the failure is reported. |
//!
//! Tests on a simulated disk cover all of this (`faults.rs`, `simulated.rs`): every fault at every call, crashes during
//! recovery, and random fault plans (`just disk-faults`).
//!
//! # Why not a storage engine
//!
//! `fjall` 3.1, `redb` 4.4 and a plain log were measured: 1.5 KiB writes per second, each synced, by 1, 8 and 64
//! writers through one committer: log 4–5k / 17–24k / 52–93k, fjall 4–6k / 17–22k / 45–47k, redb 3k / 9–13k /
//! 12–25k. So fjall is fast enough. Two reasons spoke against it. It opens a journal that is damaged in the middle: it
//! treats the broken part as a torn tail and cuts off everything after it (four flipped bytes in a journal of 1,000 synced
//! keys left 499, without an error). And its first start creates a file of 64 MiB, which took 40–110 ms where this journal
//! takes five syncs (10–20 ms on the same busy machine), while its trees, caches and threads would hold a second copy of
//! the state. What remains is checksums, torn tails and checkpoints: the few hundred lines of this directory.
//!
//! `cargo bench -p evenkeel-store -- writes` compares writes with the sync rate of the disk: with group commit, 64 writers
//! are 30 to 60 times as fast as the sync rate, one writer is as fast as it.

mod backup;
mod checkpoint;
mod committer;
mod data_dir;
#[cfg(test)]
mod faults;
pub(crate) mod files;
mod format;
pub(crate) mod frame;
mod headers;
mod queue;
mod recover;
mod restore;
mod segment;
#[cfg(any(test, feature = "simulation"))]
pub(crate) mod simulated;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use evenkeel_env::Env;
use futures::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::journal::{Answers, Journal};
use crate::shared::Shared;
use crate::{Header, OpenError, Options, Write, WriteError};
pub use backup::{Backup, BackupError, BackupStream, BackupSummary, verify_backup};
pub(crate) use restore::first_revision;

use committer::{Committer, Running};
use data_dir::DataDir;
use files::{Files, OsFiles};
use queue::{Closed, Queue, Submission};

/// The error for writers when the committer has panicked.
const PANICKED: &str = "the committer thread has panicked";

/// The journal of an open data directory.
pub(crate) struct DiskJournal<H> {
    shared: Arc<Shared<H>>,
    queue: Arc<Queue<H>>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

/// Opens a data directory.
pub(crate) async fn open<H: Header>(
    dir: &Path,
    env: Env,
    options: Options,
) -> Result<DiskJournal<H>, OpenError> {
    open_on(Arc::new(OsFiles), dir, env, options).await
}

/// Opens a data directory on a file system.
pub(crate) async fn open_on<H: Header>(
    files: Arc<dyn Files>,
    dir: &Path,
    env: Env,
    options: Options,
) -> Result<DiskJournal<H>, OpenError> {
    let path = dir.to_owned();
    on_a_thread(dir, move || start(DataDir::open(files, &path)?, &path, env, options)).await
}

/// Creates a data directory from a backup and opens it.
pub(crate) async fn restore<H: Header>(
    dir: &Path,
    backup: Backup<H>,
    env: Env,
    options: Options,
) -> Result<DiskJournal<H>, OpenError> {
    let path = dir.to_owned();
    on_a_thread(dir, move || {
        let data_dir = restore::restore(Arc::new(OsFiles), &path, &backup)?;
        // The files are read next. Without this drop there would be two copies in memory.
        drop(backup);
        start(data_dir, &path, env, options)
    })
    .await
}

/// Runs work that takes long, such as recovery, on a thread of its own.
async fn on_a_thread<T: Send + 'static>(
    dir: &Path,
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    let (answer, opened) = oneshot::channel();
    let spawned = std::thread::Builder::new().name("store-open".to_owned()).spawn(move || {
        // If the caller no longer waits, the store is dropped with the answer.
        let _ = answer.send(work());
    });
    let io = |source| OpenError::Io { path: dir.display().to_string(), source };
    spawned.map_err(io)?;
    opened
        .await
        .unwrap_or_else(|_| Err(io(std::io::Error::other("the thread that opens the store panicked"))))
}

/// Recovers the state of a directory and starts its committer.
fn start<H: Header>(
    data_dir: DataDir,
    dir: &Path,
    env: Env,
    options: Options,
) -> Result<DiskJournal<H>, OpenError> {
    let io = |source| OpenError::Io { path: dir.display().to_string(), source };
    let recovered = recover::recover(&data_dir, options.clone())?;
    let queue = Arc::new(Queue::new());
    let share = |state| Arc::new(Shared::of(env, state));
    let committer = Committer::new(data_dir, recovered, &options, share, queue.clone(), Running::on_a_thread)
        .map_err(io)?;
    let shared = committer.shared().clone();
    let thread = std::thread::Builder::new().name("store-commit".to_owned()).spawn(move || {
        let _alarm = Alarm { shared: committer.shared().clone(), queue: committer.queue().clone() };
        committer.run();
    });
    Ok(DiskJournal { shared, queue, committer: Mutex::new(Some(thread.map_err(io)?)) })
}

/// Reports a panic of the committer to writers and health checks, so that no writer waits for ever.
struct Alarm<H> {
    shared: Arc<Shared<H>>,
    queue: Arc<Queue<H>>,
}

impl<H> Drop for Alarm<H> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("{PANICKED}; the store takes no more writes until it is opened again");
            self.shared.report(Some(PANICKED));
            self.queue.abandon(PANICKED);
        }
    }
}

impl<H> DiskJournal<H> {
    pub(crate) fn shared(&self) -> &Arc<Shared<H>> {
        &self.shared
    }

    /// Waits until all accepted writes are done, and unlocks the directory.
    fn finish(&self) {
        self.queue.close();
        if let Some(thread) = self.committer.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            // If the committer has panicked, its writers got an error when their answer channels were dropped.
            let _ = thread.join();
        }
    }
}

impl<H: Header> Journal<H> for DiskJournal<H> {
    fn write(&self, writes: Vec<Write<H>>) -> BoxFuture<'_, Answers<H>> {
        let count = writes.len();
        let (answer, answered) = oneshot::channel();
        let refusal = |closed| match closed {
            Closed::ByOwner => WriteError::Closed,
            Closed::Abandoned(why) => WriteError::Journal(why),
        };
        if let Err(closed) = self.queue.submit(Submission { writes, answer }) {
            return ready((0..count).map(|_| Err(refusal(closed.clone()))).collect()).boxed();
        }
        let lost = move || (0..count).map(|_| Err(WriteError::Journal(PANICKED.to_owned())));
        async move { answered.await.unwrap_or_else(|_| lost().collect()) }.boxed()
    }

    /// Returns the newest revision: every answered write is in memory, and no other server writes.
    fn sync(&self) -> BoxFuture<'_, u64> {
        ready(self.shared.state.read().revision).boxed()
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn close(&self) {
        self.finish();
    }
}

impl<H> Drop for DiskJournal<H> {
    fn drop(&mut self) {
        self.finish();
    }
}

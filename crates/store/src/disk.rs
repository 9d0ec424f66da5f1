//! The disk journal: a log of ours, and checkpoints.
//!
//! The whole state is in memory, so that nothing is ever read from disk but when the store is opened. What is asked
//! of the disk is little: append, sync, read back in order, forget the beginning.
//!
//! ```text
//! FORMAT                           whose directory this is, and its version
//! LOCK                             locked while a process has it open
//! checkpoint-00000000000000005120  the state as of revision 5120
//! log-00000000000000005121         every change from revision 5121 on
//! ```
//!
//! * **Group commit.** One thread takes all writes that wait, decides them in order, writes them as one frame and
//!   syncs it; only then do readers and watchers see them and are writers answered. Writers who come meanwhile are
//!   the next frame.
//! * **A torn tail is not damage.** A frame is begun when the one before it is durable. So a broken frame at the
//!   very end was never acknowledged and is cut off, which is logged, while a broken frame with a whole one behind
//!   it, or in an older file, or a gap in the revisions, had been: the store refuses to open, says where, and changes
//!   nothing. (Only decay of the very last frame cannot be told from a torn one.)
//! * **Nothing is shown before it is durable**, not even what is found at a start. The last frame of the log may be
//!   in the page cache alone: the process before was killed before its sync, or its sync failed. So it is written
//!   again and synced, and the directory is synced, before the store is open.
//! * **Backups.** A snapshot of the tree is a stream for anybody to keep (`backup.rs`), and becomes a data directory or a
//!   store in memory again, whole or not at all (`restore.rs`).
//! * **Checkpoints.** When the log has grown by as much as the state is large (and by
//!   [`Options::checkpoint_bytes`]), a second thread writes a snapshot of the tree beside it, and a new log file is
//!   begun. Older files go when history no longer reaches back to them. So a restart also brings back the history,
//!   and watchers go on where they were. A checkpoint reserves its room before it writes, and one that fails leaves
//!   nothing behind and is tried again when the log has grown.
//!
//! # When the disk fails
//!
//! | what fails | what happens |
//! |---|---|
//! | the sync of a frame, whatever the error | Final. Linux reports a failed write-back once and takes the pages for clean, so that neither another sync nor reading the file back tells what is on disk. PostgreSQL panics for the same reason, and etcd ends its process. The store takes no more writes, still serves what is durable, and reports it ([`Store::journal_failure`](crate::Store::journal_failure)). |
//! | the write of a frame, disk full | The file is cut to its old length and synced; if both succeed, the write was not made ([`WriteError::NoRoom`]) and the next one is tried. An incomplete frame can never be read as one, so that a crash in between is harmless. If one of them fails, the failure is final. |
//! | the write of a frame, any other error | Final. |
//! | a new log file: no file descriptor, disk full, any error | The old file is written on; tried again when the log has grown by an eighth of [`Options::checkpoint_bytes`]. What is left of the new file holds nothing, and an opening passes it over. |
//! | a checkpoint, at any step, or the removal of old files | Logged; the log is longer. Tried again. |
//! | the thread that writes panics | Writers are told at once, and it is reported. |
//!
//! All of it is tested on a simulated disk (`faults.rs`, `simulated.rs`): every fault at every call, crashes during
//! recovery, and random plans (`just disk-faults`).
//!
//! # Why not an engine
//!
//! `fjall` 3.1, `redb` 4.4 and a plain log were measured: 1.5 KiB writes per second, each synced, by 1, 8 and 64
//! writers through one committer: log 4–5k / 17–24k / 52–93k, fjall 4–6k / 17–22k / 45–47k, redb 3k / 9–13k /
//! 12–25k. So fjall would do for speed. Two things spoke against it. When the middle of its journal is damaged it
//! opens all the same: it takes what is broken for the torn end and cuts off everything behind it (four flipped
//! bytes in a journal of 1,000 synced keys left 499, without an error). And its first opening makes a 64 MiB file,
//! which took 40–110 ms where this takes five syncs (10–20 ms on the same busy machine), while its trees, caches and
//! threads would hold a second copy of what is in memory. What remains, checksums, torn tails and checkpoints, is
//! the few hundred lines of this folder.
//!
//! `cargo bench -p evenkeel-store -- writes` sets writes beside what the disk itself can sync: group commit makes 64
//! writers 30 to 60 times as fast as the disk's own rate of syncs, one writer as fast as it.

mod backup;
mod checkpoint;
mod committer;
#[cfg(test)]
mod faults;
pub(crate) mod files;
mod folder;
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
use crate::state::Shared;
use crate::{Header, OpenError, Options, Write, WriteError};
pub use backup::{Backup, BackupError, BackupStream, BackupSummary, verify_backup};
pub(crate) use restore::first_revision;

use committer::{Committer, Running};
use files::{Files, OsFiles};
use folder::Folder;
use queue::{Closed, Queue, Submission};

/// What writers are told when the committer is gone.
const PANICKED: &str = "the thread that writes has panicked";

/// The writers' side of an open data directory.
pub(crate) struct Disk<H> {
    shared: Arc<Shared<H>>,
    queue: Arc<Queue<H>>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

/// Opens a data directory.
pub(crate) async fn open<H: Header>(dir: &Path, env: Env, options: Options) -> Result<Disk<H>, OpenError> {
    open_on(Arc::new(OsFiles), dir, env, options).await
}

/// Opens a data directory on a file system.
pub(crate) async fn open_on<H: Header>(
    files: Arc<dyn Files>,
    dir: &Path,
    env: Env,
    options: Options,
) -> Result<Disk<H>, OpenError> {
    let path = dir.to_owned();
    on_a_thread(dir, move || start(Folder::open(files, &path)?, &path, env, options)).await
}

/// Makes a data directory from a backup, and opens it.
pub(crate) async fn restore<H: Header>(
    dir: &Path,
    backup: Backup<H>,
    env: Env,
    options: Options,
) -> Result<Disk<H>, OpenError> {
    let path = dir.to_owned();
    on_a_thread(dir, move || {
        let folder = restore::restore(Arc::new(OsFiles), &path, &backup)?;
        // What was written is read back; until then there would be two copies in memory.
        drop(backup);
        start(folder, &path, env, options)
    })
    .await
}

/// Does what takes a while, as reading everything back does, on a thread of its own.
async fn on_a_thread<T: Send + 'static>(
    dir: &Path,
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    let (answer, opened) = oneshot::channel();
    let spawned = std::thread::Builder::new().name("store-open".to_owned()).spawn(move || {
        // Whoever does not wait any more drops the store with the answer.
        let _ = answer.send(work());
    });
    let io = |source| OpenError::Io { path: dir.display().to_string(), source };
    spawned.map_err(io)?;
    opened.await.unwrap_or_else(|_| Err(io(std::io::Error::other("reading it panicked"))))
}

/// Reads a directory back and starts its committer.
fn start<H: Header>(folder: Folder, dir: &Path, env: Env, options: Options) -> Result<Disk<H>, OpenError> {
    let io = |source| OpenError::Io { path: dir.display().to_string(), source };
    let recovered = recover::recover(&folder, options.clone())?;
    let queue = Arc::new(Queue::new());
    let share = |state| Arc::new(Shared::of(env, state));
    let committer = Committer::new(folder, recovered, &options, share, queue.clone(), Running::on_a_thread)
        .map_err(io)?;
    let shared = committer.shared().clone();
    let thread = std::thread::Builder::new().name("store-commit".to_owned()).spawn(move || {
        let _alarm = Alarm { shared: committer.shared().clone(), queue: committer.queue().clone() };
        committer.run();
    });
    Ok(Disk { shared, queue, committer: Mutex::new(Some(thread.map_err(io)?)) })
}

/// Tells writers and the health checks when the committer panics, so that nobody waits for it.
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

impl<H> Disk<H> {
    pub(crate) fn shared(&self) -> &Arc<Shared<H>> {
        &self.shared
    }

    /// Waits for what was taken and gives the directory up.
    fn finish(&self) {
        self.queue.close();
        if let Some(thread) = self.committer.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A committer that panicked has answered nobody; its writers were told when it dropped their answers.
            let _ = thread.join();
        }
    }
}

impl<H: Header> Journal<H> for Disk<H> {
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

    /// Every write that was answered is in memory, and nobody else writes.
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

impl<H> Drop for Disk<H> {
    fn drop(&mut self) {
        self.finish();
    }
}

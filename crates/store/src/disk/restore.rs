//! From a backup to a data directory.
//!
//! The file `FORMAT`, without which no directory is opened, is written last: a directory in which a restore did not
//! finish does not open. The file `RESTORING` is written first, so that the next restore knows that what lies there was
//! left by one and may be removed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::backup::Backup;
use super::checkpoint;
use super::files::Files;
use super::folder::Folder;
use super::segment::Segment;
use crate::{Header, OpenError};

/// How far the revisions of a restored store lie above those of its backup.
///
/// Clients may have seen revisions that were given after the backup was made. If the restored store gave these again,
/// for other changes, such a client would go on from one of them and never learn what it has missed. With the gap it is
/// told that its revision is gone, and lists anew. The number is the one that etcd recommends for its own restores:
/// a week of 1,500 writes a second.
pub(crate) const REVISION_GAP: u64 = 1_000_000_000;

/// Writes a backup into a directory that holds no store, and gives the directory, locked.
pub(crate) fn restore<H: Header>(
    files: Arc<dyn Files>,
    path: &Path,
    backup: &Backup<H>,
) -> Result<Folder, OpenError> {
    let folder = Folder::open_empty(files, path)?;
    let revision = first_revision(backup.summary().revision);
    let written = folder
        .begin_restore()
        .and_then(|()| checkpoint::write(&folder, &backup.keys, revision, &AtomicBool::new(false)))
        .and_then(|_| Segment::create(&folder, revision + 1))
        .and_then(|_| folder.finish_restore());
    match written {
        Ok(()) => Ok(folder),
        Err(source) => Err(folder.io_error(source)),
    }
}

/// The revision that a restored store begins with.
pub(crate) fn first_revision(backed_up: u64) -> u64 {
    backed_up.saturating_add(REVISION_GAP)
}

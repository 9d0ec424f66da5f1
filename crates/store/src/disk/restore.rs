//! Restores a backup into a data directory.
//!
//! The file `FORMAT`, without which no directory opens, is written last, so that a directory with an interrupted restore does
//! not open. The file `RESTORING` is written first, so that the next restore knows that it may remove the other files.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::backup::Backup;
use super::checkpoint;
use super::data_dir::DataDir;
use super::files::Files;
use super::segment::Segment;
use crate::{Header, OpenError};

/// How far the revisions of a restored store are above those of its backup.
///
/// Clients may have seen revisions after the backup. If the restored store used these again for other changes, such a client
/// would resume its watch from one of them and miss changes. With the gap, the client is told that its revision is gone, and
/// lists again. etcd recommends the same number for its own restores: a week of 1,500 writes a second.
pub(crate) const REVISION_GAP: u64 = 1_000_000_000;

/// Writes a backup into a directory without a store. Returns the locked directory.
pub(crate) fn restore<H: Header>(
    files: Arc<dyn Files>,
    path: &Path,
    backup: &Backup<H>,
) -> Result<DataDir, OpenError> {
    let data_dir = DataDir::open_empty(files, path)?;
    let revision = first_revision(backup.summary().revision);
    let written = data_dir
        .begin_restore()
        .and_then(|()| checkpoint::write(&data_dir, &backup.keys, revision, &AtomicBool::new(false)))
        .and_then(|_| Segment::create(&data_dir, revision + 1))
        .and_then(|_| data_dir.finish_restore());
    match written {
        Ok(()) => Ok(data_dir),
        Err(source) => Err(data_dir.io_error(source)),
    }
}

/// Returns the first revision of a restored store.
pub(crate) fn first_revision(backed_up: u64) -> u64 {
    backed_up.saturating_add(REVISION_GAP)
}

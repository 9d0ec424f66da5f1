//! The data directory: its format, its lock, and its files.

use std::fs::TryLockError;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Files, Lock, OpenDir};
use super::format;
use crate::OpenError;

/// Marks the directory as a store, with its format version.
const FORMAT_FILE: &str = "FORMAT";
const FORMAT_NEW_FILE: &str = "FORMAT.new";
/// Locked while the directory is open.
const LOCK_FILE: &str = "LOCK";
const LOG_PREFIX: &str = "log-";
const CHECKPOINT_PREFIX: &str = "checkpoint-";
/// How many digits a revision has in a file name, so that names sort as revisions do.
const REVISION_DIGITS: usize = 20;
/// The largest revision: Kubernetes' resource versions are signed 64-bit integers.
const REVISION_MAX: u64 = i64::MAX as u64;
/// The name of a checkpoint until it is complete.
const UNFINISHED: &str = "checkpoint.new";
/// Exists while a backup is being restored into the directory.
const RESTORING_FILE: &str = "RESTORING";

/// An open data directory. No other process can open it while this value exists.
#[derive(Debug)]
pub(crate) struct DataDir {
    files: Arc<dyn Files>,
    path: PathBuf,
    /// The directory itself, kept open so that syncing it needs no further file descriptor.
    dir: Box<dyn OpenDir>,
    _lock: Box<dyn Lock>,
}

/// The revisions in the file names of a directory, in order.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The first revisions of the log segments.
    pub(crate) segments: Vec<u64>,
    /// The revisions of the checkpoints.
    pub(crate) checkpoints: Vec<u64>,
}

impl DataDir {
    /// Opens the directory of a store, or creates a new one. Does not change a directory with other files.
    pub(crate) fn open(files: Arc<dyn Files>, path: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { path: path.display().to_string(), source };
        if !is_store_or_new(&*files, path).map_err(io)? {
            let why = match names(&*files, path).map_err(io)?.iter().any(|name| name == RESTORING_FILE) {
                true => "a restore into it was interrupted: restore the snapshot again".to_owned(),
                false => "it has files but no FORMAT file".to_owned(),
            };
            return Err(OpenError::Foreign { path: path.display().to_string(), why });
        }
        let data_dir = Self::lock(files, path)?;
        data_dir.check_format()?;
        Ok(data_dir)
    }

    /// Opens a directory without a store, to restore a backup into it. Subdirectories in it are not touched.
    pub(crate) fn open_empty(files: Arc<dyn Files>, path: &Path) -> Result<Self, OpenError> {
        check_restorable(&*files, path)?;
        let data_dir = Self::lock(files, path)?;
        // Another process may have created a store before the lock was taken.
        check_restorable(data_dir.files(), path)?;
        Ok(data_dir)
    }

    /// Creates the directory if necessary, and locks it.
    fn lock(files: Arc<dyn Files>, path: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { path: path.display().to_string(), source };
        create_dirs(&*files, path).map_err(io)?;
        let lock = match files.lock(&path.join(LOCK_FILE)) {
            Ok(lock) => lock,
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(path.display().to_string())),
            Err(TryLockError::Error(source)) => return Err(io(source)),
        };
        let dir = files.open_dir(path).map_err(io)?;
        Ok(Self { files, path: path.to_owned(), dir, _lock: lock })
    }

    /// Marks the directory as being restored, and removes the files of an earlier, interrupted restore.
    pub(crate) fn begin_restore(&self) -> io::Result<()> {
        let mut marker = self.files.create(&self.path.join(RESTORING_FILE))?;
        marker.sync()?;
        self.sync()?;
        for name in self.files.list(&self.path)? {
            let is_numbered =
                [LOG_PREFIX, CHECKPOINT_PREFIX].iter().any(|it| revision_of(&name, it).is_some());
            if is_numbered || name == UNFINISHED || name == FORMAT_NEW_FILE {
                self.remove(&self.path.join(&name))?;
            }
        }
        self.sync()
    }

    /// Marks the restore as complete, so that the directory opens.
    pub(crate) fn finish_restore(&self) -> io::Result<()> {
        self.write_format(&self.path.join(FORMAT_FILE))?;
        self.remove(&self.path.join(RESTORING_FILE))?;
        self.sync()
    }

    pub(crate) fn files(&self) -> &dyn Files {
        &*self.files
    }

    pub(crate) fn io_error(&self, source: io::Error) -> OpenError {
        OpenError::Io { path: self.path.display().to_string(), source }
    }

    /// Returns an error about one file of the directory.
    pub(crate) fn file_error(&self, file: &Path, source: io::Error) -> OpenError {
        OpenError::Io { path: file.display().to_string(), source }
    }

    pub(crate) fn damaged(&self, why: impl Into<String>) -> OpenError {
        OpenError::Damaged { path: self.path.display().to_string(), why: why.into() }
    }

    pub(crate) fn segment(&self, first: u64) -> PathBuf {
        self.path.join(format!("{LOG_PREFIX}{first:0REVISION_DIGITS$}"))
    }

    pub(crate) fn checkpoint(&self, revision: u64) -> PathBuf {
        self.path.join(format!("{CHECKPOINT_PREFIX}{revision:0REVISION_DIGITS$}"))
    }

    pub(crate) fn unfinished(&self) -> PathBuf {
        self.path.join(UNFINISHED)
    }

    pub(crate) fn list(&self) -> Result<Listing, OpenError> {
        let mut listing = Listing::default();
        for name in self.files.list(&self.path).map_err(|source| self.io_error(source))? {
            listing.segments.extend(revision_of(&name, LOG_PREFIX));
            listing.checkpoints.extend(revision_of(&name, CHECKPOINT_PREFIX));
        }
        listing.segments.sort_unstable();
        listing.checkpoints.sort_unstable();
        let newest = listing.segments.last().max(listing.checkpoints.last());
        match newest {
            Some(newest) if *newest > REVISION_MAX => {
                Err(self.damaged(format!("a file is named for revision {newest}, which is too large")))
            }
            _ => Ok(listing),
        }
    }

    /// Removes the temporary and unused files of an interrupted process. A failure is only logged.
    pub(crate) fn clear_away(&self, unused: &[u64]) {
        let leftovers = [self.unfinished(), self.path.join(FORMAT_NEW_FILE)];
        for path in leftovers.into_iter().chain(unused.iter().map(|first| self.segment(*first))) {
            if let Err(error) = self.remove(&path) {
                tracing::warn!(%error, file = %path.display(), "cannot remove an unneeded file");
            }
        }
    }

    /// Removes a file, if it exists.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        match self.files.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// Reads a whole file.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.files.read(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Makes the names of files durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.dir.sync()
    }

    fn check_format(&self) -> Result<(), OpenError> {
        let file = self.path.join(FORMAT_FILE);
        match self.read(&file) {
            Ok(text) => {
                let path = self.path.display().to_string();
                format::check(&text).map_err(|why| OpenError::Foreign { path, why })?;
                // The previous process may have been killed before the name of this file was durable. No other name may
                // become durable first, because a directory without this file is not recognized as a store.
                self.sync().map_err(|source| self.io_error(source))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.write_format(&file).map_err(|source| self.file_error(&file, source))
            }
            Err(source) => Err(self.file_error(&file, source)),
        }
    }

    fn write_format(&self, file: &Path) -> io::Result<()> {
        let new = self.path.join(FORMAT_NEW_FILE);
        let mut out = self.files.create(&new)?;
        out.write_at(0, format::text().as_bytes())?;
        out.sync()?;
        self.files.rename(&new, file)?;
        self.sync()?;
        self.sync_own_name()
    }

    /// Makes the name of the directory itself durable, which a previous process may have created without a sync.
    fn sync_own_name(&self) -> io::Result<()> {
        match self.files.open_dir(parent_of(&self.path)) {
            // Without access to the parent, another user created the directory.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            parent => parent?.sync(),
        }
    }
}

/// Whether a directory holds a store, does not exist, or has only files of an interrupted first opening.
fn is_store_or_new(files: &dyn Files, path: &Path) -> io::Result<bool> {
    let names = names(files, path)?;
    let is_beginning = |name: &String| name == LOCK_FILE || name == FORMAT_NEW_FILE;
    Ok(names.iter().any(|name| name == FORMAT_FILE) || names.iter().all(is_beginning))
}

/// Checks that a backup can be restored into a directory: it holds neither a store nor other files.
fn check_restorable(files: &dyn Files, path: &Path) -> Result<(), OpenError> {
    let io = |source| OpenError::Io { path: path.display().to_string(), source };
    let names = names(files, path).map_err(io)?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if has(FORMAT_FILE) {
        return Err(OpenError::Occupied(path.display().to_string()));
    }
    let is_ours =
        |name: &String| name == LOCK_FILE || name == FORMAT_NEW_FILE || files.is_dir(&path.join(name));
    if has(RESTORING_FILE) || names.iter().all(is_ours) {
        return Ok(());
    }
    let why = "it has files but no FORMAT file".to_owned();
    Err(OpenError::Foreign { path: path.display().to_string(), why })
}

/// Returns the names in a directory; none if it does not exist.
fn names(files: &dyn Files, path: &Path) -> io::Result<Vec<String>> {
    match files.list(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names,
    }
}

/// Creates a directory and its missing parents, and makes their names durable.
fn create_dirs(files: &dyn Files, path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| !files.is_dir(dir)).collect();
    for dir in missing.into_iter().rev().filter(|dir| !dir.as_os_str().is_empty()) {
        files.create_dir(dir)?;
        files.open_dir(parent_of(dir))?.sync()?;
    }
    Ok(())
}

/// Returns the parent directory of a path.
fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the revision in a file name; `None` if the name does not have our form.
fn revision_of(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let is_ours = digits.len() == REVISION_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_ours)
}

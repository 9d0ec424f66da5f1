//! The data directory: whose it is, and what lies in it.

use std::fs::TryLockError;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Files, Lock, OpenDir};
use super::format;
use crate::OpenError;

/// Says that the directory is ours, and how to read it.
const FORMAT_FILE: &str = "FORMAT";
const FORMAT_NEW_FILE: &str = "FORMAT.new";
/// Held locked for as long as the directory is open.
const LOCK_FILE: &str = "LOCK";
const LOG_PREFIX: &str = "log-";
const CHECKPOINT_PREFIX: &str = "checkpoint-";
/// How many digits a revision has in the name of a file, so that names sort as revisions do.
const REVISION_DIGITS: usize = 20;
/// The largest revision: Kubernetes' resource versions are signed numbers of 64 bits.
const REVISION_MAX: u64 = i64::MAX as u64;
/// What a checkpoint is called until it is whole.
const UNFINISHED: &str = "checkpoint.new";
/// There while a backup is being restored into the directory.
const RESTORING_FILE: &str = "RESTORING";

/// An open data directory; nobody else can open it while this lives.
#[derive(Debug)]
pub(crate) struct Folder {
    files: Arc<dyn Files>,
    path: PathBuf,
    /// The directory itself, held open so that syncing it needs no further file descriptor.
    dir: Box<dyn OpenDir>,
    _lock: Box<dyn Lock>,
}

/// The files of a directory by the revision in their names, in order.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Segments of the log, by the first revision they may hold.
    pub(crate) segments: Vec<u64>,
    /// Checkpoints, by the revision they are the state of.
    pub(crate) checkpoints: Vec<u64>,
}

impl Folder {
    /// Opens a directory that is ours, or makes one where there is nothing yet. In one that is not ours nothing is
    /// changed.
    pub(crate) fn open(files: Arc<dyn Files>, path: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { path: path.display().to_string(), source };
        if !is_ours(&*files, path).map_err(io)? {
            let why = match names(&*files, path).map_err(io)?.iter().any(|name| name == RESTORING_FILE) {
                true => "a snapshot was being restored into it and is not whole: restore it again".to_owned(),
                false => "it has files but no FORMAT file".to_owned(),
            };
            return Err(OpenError::Foreign { path: path.display().to_string(), why });
        }
        let folder = Self::lock(files, path)?;
        folder.check_format()?;
        Ok(folder)
    }

    /// Opens a directory that holds no store yet, to restore a backup into it. It may hold other directories, which are
    /// the caller's.
    pub(crate) fn open_empty(files: Arc<dyn Files>, path: &Path) -> Result<Self, OpenError> {
        check_restorable(&*files, path)?;
        let folder = Self::lock(files, path)?;
        // Another process may have made a store there meanwhile.
        check_restorable(folder.files(), path)?;
        Ok(folder)
    }

    /// Makes a directory where there is none, and locks it.
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

    /// Marks the directory as one that is being restored, and removes what an earlier restore has left in it.
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

    /// Makes the directory one that opens.
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

    /// An error about one file of the directory.
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
                Err(self.damaged(format!("a file is named for revision {newest}, which there cannot be")))
            }
            _ => Ok(listing),
        }
    }

    /// Removes what an interrupted process has left: files that never got their name. Nothing depends on it.
    pub(crate) fn clear_away(&self, unused: &[u64]) {
        let leftovers = [self.unfinished(), self.path.join(FORMAT_NEW_FILE)];
        for path in leftovers.into_iter().chain(unused.iter().map(|first| self.segment(*first))) {
            if let Err(error) = self.remove(&path) {
                tracing::warn!(%error, file = %path.display(), "cannot remove a file that is not needed");
            }
        }
    }

    /// Removes a file that may be gone already.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        match self.files.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// The whole of a file.
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
                // The process before may have been killed between naming the file and making the name durable. No
                // other name may be durable before this one: the directory would not be known for ours.
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

    /// Makes the name of the directory itself durable, which a process before may have made and not synced.
    fn sync_own_name(&self) -> io::Result<()> {
        match self.files.open_dir(parent_of(&self.path)) {
            // Then somebody else has made the directory for us.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            parent => parent?.sync(),
        }
    }
}

/// Whether a directory is ours, or is not there, or holds nothing but what a first opening that was cut short leaves.
fn is_ours(files: &dyn Files, path: &Path) -> io::Result<bool> {
    let names = names(files, path)?;
    let is_beginning = |name: &String| name == LOCK_FILE || name == FORMAT_NEW_FILE;
    Ok(names.iter().any(|name| name == FORMAT_FILE) || names.iter().all(is_beginning))
}

/// Says why a backup cannot be restored into a directory: it holds a store, or files that are not ours.
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

/// The names in a directory; none if it is not there.
fn names(files: &dyn Files, path: &Path) -> io::Result<Vec<String>> {
    match files.list(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names,
    }
}

/// Makes a directory and those above it that are missing, and makes their names durable.
fn create_dirs(files: &dyn Files, path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| !files.is_dir(dir)).collect();
    for dir in missing.into_iter().rev().filter(|dir| !dir.as_os_str().is_empty()) {
        files.create_dir(dir)?;
        files.open_dir(parent_of(dir))?.sync()?;
    }
    Ok(())
}

/// The directory that a name is in.
fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The revision in the name of a file; none if the name is not one that we give.
fn revision_of(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let is_ours = digits.len() == REVISION_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_ours)
}

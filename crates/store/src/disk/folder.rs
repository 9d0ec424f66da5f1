//! The data directory: whose it is, and what lies in it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::OpenError;

/// Says that the directory is ours, and how to read it.
const FORMAT_FILE: &str = "FORMAT";
const FORMAT_NEW_FILE: &str = "FORMAT.new";
const FORMAT: &str = "evenkeel-store 1\n";
/// Held locked for as long as the directory is open.
const LOCK_FILE: &str = "LOCK";
const LOG_PREFIX: &str = "log-";
const CHECKPOINT_PREFIX: &str = "checkpoint-";
/// What a checkpoint is called until it is whole.
const UNFINISHED: &str = "checkpoint.new";

/// An open data directory; nobody else can open it while this lives.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    lock: File,
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
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { path: path.display().to_string(), source };
        if !is_ours(path).map_err(io)? {
            let why = "it has files but no FORMAT file".to_owned();
            return Err(OpenError::Foreign { path: path.display().to_string(), why });
        }
        create_private_dir(path).map_err(io)?;
        let lock =
            private().create(true).truncate(false).write(true).open(path.join(LOCK_FILE)).map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(path.display().to_string())),
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let folder = Self { path: path.to_owned(), lock };
        folder.check_format()?;
        Ok(folder)
    }

    pub(crate) fn io_error(&self, source: io::Error) -> OpenError {
        OpenError::Io { path: self.path.display().to_string(), source }
    }

    pub(crate) fn damaged(&self, why: impl Into<String>) -> OpenError {
        OpenError::Damaged { path: self.path.display().to_string(), why: why.into() }
    }

    pub(crate) fn segment(&self, first: u64) -> PathBuf {
        self.path.join(format!("{LOG_PREFIX}{first:020}"))
    }

    pub(crate) fn checkpoint(&self, revision: u64) -> PathBuf {
        self.path.join(format!("{CHECKPOINT_PREFIX}{revision:020}"))
    }

    pub(crate) fn unfinished(&self) -> PathBuf {
        self.path.join(UNFINISHED)
    }

    pub(crate) fn list(&self) -> io::Result<Listing> {
        let mut listing = Listing::default();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            let revision = |prefix| name.strip_prefix(prefix).and_then(|text: &str| text.parse::<u64>().ok());
            listing.segments.extend(revision(LOG_PREFIX));
            listing.checkpoints.extend(revision(CHECKPOINT_PREFIX));
        }
        listing.segments.sort_unstable();
        listing.checkpoints.sort_unstable();
        Ok(listing)
    }

    /// Makes the names of files durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        sync_dir(&self.path)
    }

    fn check_format(&self) -> Result<(), OpenError> {
        let file = self.path.join(FORMAT_FILE);
        match fs::read_to_string(&file) {
            Ok(format) if format == FORMAT => Ok(()),
            Ok(format) => {
                let why =
                    format!("its format is {:?}, this version reads {:?}", format.trim(), FORMAT.trim());
                Err(OpenError::Foreign { path: self.path.display().to_string(), why })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.write_format(&file).map_err(|source| self.io_error(source))
            }
            Err(source) => Err(self.io_error(source)),
        }
    }

    fn write_format(&self, file: &Path) -> io::Result<()> {
        let new = self.path.join(FORMAT_NEW_FILE);
        let mut out = private().create(true).truncate(true).write(true).open(&new)?;
        out.write_all(FORMAT.as_bytes())?;
        out.sync_all()?;
        fs::rename(&new, file)?;
        self.sync()
    }
}

impl Drop for Folder {
    /// Closing the file is not enough: a process that is being started by another thread at this moment holds a copy
    /// of it until it runs its own program.
    fn drop(&mut self) {
        // A lock that cannot be given up here goes with the file.
        let _ = self.lock.unlock();
    }
}

/// Whether a directory is ours, or is not there, or holds nothing but what a first opening that was cut short leaves.
fn is_ours(path: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        entries => entries?,
    };
    let mut only_beginnings = true;
    for entry in entries {
        let name = entry?.file_name();
        if name == FORMAT_FILE {
            return Ok(true);
        }
        only_beginnings &= name == LOCK_FILE || name == FORMAT_NEW_FILE;
    }
    Ok(only_beginnings)
}

/// Makes files that only their owner can read: what is stored may be secret.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn create_private_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    // The directory's own name must last, too.
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Elsewhere a directory cannot be opened to be synced, and need not be.
#[cfg(not(unix))]
fn sync_dir(_: &Path) -> io::Result<()> {
    Ok(())
}

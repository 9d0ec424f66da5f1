//! The file system as the disk journal uses it: one trait, and the operating system behind it.
//!
//! Everything in [`disk`](super) reads and writes through [`Files`], so that tests can put a simulated disk in its
//! place that loses what was not synced and fails any call.
//!
//! Written is not durable. The contents of a file last once [`OpenFile::sync`] has returned; its name (its creation,
//! renaming or removal) lasts once [`OpenDir::sync`] of its directory has. After a failed sync of a file, nobody
//! knows which of its writes since the last successful one are on disk, and a second sync does not tell: Linux
//! reports a failed write-back once and then takes the pages for clean.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// The calls that the journal makes on a file system.
pub(crate) trait Files: fmt::Debug + Send + Sync {
    /// Whether there is a directory of this name.
    fn is_dir(&self, path: &Path) -> bool;

    /// Makes a directory that only its owner can read, in a directory that exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Opens a directory, to sync the names in it.
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn OpenDir>>;

    /// The names of the files in a directory, in any order. Names that are not Unicode are left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Opens a file to be read from its beginning.
    fn read(&self, path: &Path) -> io::Result<Box<dyn Read>>;

    /// How long a file is.
    fn length(&self, path: &Path) -> io::Result<u64>;

    /// Makes an empty file that only its owner can read, in the place of what has its name.
    fn create(&self, path: &Path) -> io::Result<Box<dyn OpenFile>>;

    /// Opens a file that exists, to be written.
    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>>;

    /// Gives a file another name, replacing what has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Locks a file, which is made if it is not there, until the answer is dropped.
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, TryLockError>;
}

/// A file that is open to be written.
pub(crate) trait OpenFile: fmt::Debug + Send {
    /// Writes all of these bytes at an offset. After an error, any part of them may have been written.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file to this length.
    fn set_len(&mut self, length: u64) -> io::Result<()>;

    /// Takes room on the disk for a file of this length, so that writing that much cannot run out of it. The length
    /// that readers see stays as it is. A file system that cannot do so does nothing.
    fn reserve(&mut self, length: u64) -> io::Result<()>;

    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A directory that is open.
pub(crate) trait OpenDir: fmt::Debug + Send + Sync {
    /// Makes the creations, renamings and removals in this directory durable.
    fn sync(&self) -> io::Result<()>;
}

/// A lock that is held until it is dropped.
pub(crate) trait Lock: fmt::Debug + Send + Sync {}

/// The operating system's files.
#[derive(Debug)]
pub(crate) struct OsFiles;

impl Files for OsFiles {
    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has a mode to set"))]
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path)
    }

    #[cfg(unix)]
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn OpenDir>> {
        Ok(Box::new(OsDir(File::open(path)?)))
    }

    /// Elsewhere a directory cannot be opened to be synced, and need not be.
    #[cfg(not(unix))]
    fn open_dir(&self, _: &Path) -> io::Result<Box<dyn OpenDir>> {
        Ok(Box::new(OsDir))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        Ok(Box::new(OsFile(private().create(true).truncate(true).write(true).open(path)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        Ok(Box::new(OsFile(private().write(true).open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, TryLockError> {
        let file = private().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(TryLockError::Error)?;
        file.try_lock()?;
        Ok(Box::new(OsLock(file)))
    }
}

/// Options that make files which only their owner can read: what is stored may be secret.
fn private() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has a mode to set"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[derive(Debug)]
struct OsFile(File);

impl OpenFile for OsFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.seek(SeekFrom::Start(offset))?;
        self.0.write_all(bytes)
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    #[cfg(target_os = "linux")]
    fn reserve(&mut self, length: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, length) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn reserve(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    /// The length of a file is part of its data here: `fdatasync` writes what is needed to read the data back.
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(unix)]
#[derive(Debug)]
struct OsDir(File);

#[cfg(unix)]
impl OpenDir for OsDir {
    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

#[cfg(not(unix))]
#[derive(Debug)]
struct OsDir;

#[cfg(not(unix))]
impl OpenDir for OsDir {
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct OsLock(File);

impl Lock for OsLock {}

impl Drop for OsLock {
    /// Closing the file is not enough: a process that is being started by another thread at this moment holds a copy
    /// of it until it runs its own program.
    fn drop(&mut self) {
        // A lock that cannot be given up here goes with the file.
        let _ = self.0.unlock();
    }
}

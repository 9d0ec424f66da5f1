//! The file system as the disk journal uses it: a trait, and its implementation by the operating system.
//!
//! The disk journal reads and writes files only through [`Files`], so that tests can use a simulated disk that loses what
//! was not synced and fails at any call.
//!
//! Written is not durable. The contents of a file are durable after [`OpenFile::sync`]; its creation, renaming or removal is
//! durable after [`OpenDir::sync`] of its directory. After a failed sync of a file it is unknown which writes since the last
//! successful sync are on disk, and a second sync does not tell: Linux reports a failed write-back once and then treats the
//! pages as clean.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// The file system calls of the journal.
pub(crate) trait Files: fmt::Debug + Send + Sync {
    /// Whether the path is a directory.
    fn is_dir(&self, path: &Path) -> bool;

    /// Creates a directory that only its owner can read. The parent must exist.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Opens a directory, to sync the names in it.
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn OpenDir>>;

    /// Returns the file names in a directory, in any order. Names that are not Unicode are left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Opens a file for reading.
    fn read(&self, path: &Path) -> io::Result<Box<dyn Read>>;

    /// Returns the length of a file.
    fn length(&self, path: &Path) -> io::Result<u64>;

    /// Creates an empty file that only its owner can read, or truncates an existing one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn OpenFile>>;

    /// Opens an existing file for writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>>;

    /// Renames a file, and replaces a file with the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Locks a file until the returned value is dropped. Creates the file if necessary.
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, TryLockError>;
}

/// A file that is open for writing.
pub(crate) trait OpenFile: fmt::Debug + Send {
    /// Writes all of these bytes at an offset. After an error, any part of them may have been written.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Sets the length of the file.
    fn set_len(&mut self, length: u64) -> io::Result<()>;

    /// Reserves disk space for a file of this length, so that writing it cannot fail for lack of room. The visible length does
    /// not change. Does nothing on file systems without support.
    fn reserve(&mut self, length: u64) -> io::Result<()>;

    /// Makes all writes to the file durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// An open directory.
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

    /// Other systems than Unix cannot sync a directory, and need not.
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

/// Options that create files which only their owner can read, because a store may hold secrets.
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

    /// Syncs with `fdatasync`, which also writes the length of the file, because reading the data needs it.
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
    /// Unlocks explicitly. Closing the file is not enough: a child process that another thread is just starting has a copy of
    /// the file descriptor until it runs its own program.
    fn drop(&mut self) {
        // If this fails, the lock ends with the last copy of the file descriptor.
        let _ = self.0.unlock();
    }
}

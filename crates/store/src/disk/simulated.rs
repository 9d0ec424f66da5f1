//! A simulated disk that distinguishes written from durable data. Any call can fail, and the machine can crash.
//!
//! * **Contents.** A file consists of pieces of [`PIECE`](disk::PIECE) bytes, which a disk writes atomically. A written
//!   piece is dirty until the file is synced. In a crash, each dirty piece survives or not, independently of the others, as the
//!   [`Tear`] and the seed decide. A piece after the old end that does not survive reads as zeros.
//! * **Names.** A creation, renaming or removal is pending until its directory is synced. In a crash, each pending operation
//!   survives or not.
//! * **A failed sync** marks the pieces as clean, as Linux does, whether or not they reached the disk: the process still
//!   reads them, a later sync ignores them, and a crash loses them.
//! * **Crash and kill.** After a crash of the machine, every call fails until [`SimulatedFiles::restart`]. A kill stops only the
//!   process: its calls fail too, but the next process finds everything that was written, durable or not.
//!
//! Directories themselves always survive: only the names of files in them are simulated.

#![cfg_attr(not(test), allow(dead_code, reason = "only this crate's own tests use all of it"))]

mod disk;
mod fault;

use std::fs::TryLockError;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::files::{Files, Lock, OpenDir, OpenFile};
use disk::DiskState;
#[cfg(test)]
pub(crate) use fault::Fault;
pub(crate) use fault::{Call, FaultPlan, Tear};

/// A handle of a simulated disk. Clones share the disk.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedFiles {
    disk: Arc<Mutex<DiskState>>,
}

impl SimulatedFiles {
    /// An empty disk with a fault plan.
    pub(crate) fn new(plan: FaultPlan) -> Self {
        Self { disk: Arc::new(Mutex::new(DiskState::new(plan))) }
    }

    /// Writes a file durably.
    pub(crate) fn put(&self, path: &Path, bytes: Vec<u8>) {
        self.disk.lock().put(path, bytes);
    }

    /// Starts the next process with another fault plan, after a crash or after the end of the previous process.
    pub(crate) fn restart(&self, plan: FaultPlan) {
        self.disk.lock().restart(plan);
    }

    /// Replaces the fault plan of this process.
    pub(crate) fn plan(&self, plan: FaultPlan) {
        self.disk.lock().plan = plan;
    }

    /// Crashes the machine now.
    pub(crate) fn crash(&self, tear: Tear) {
        self.disk.lock().crash(tear);
    }

    /// Whether the process or the machine has stopped.
    pub(crate) fn has_stopped(&self) -> bool {
        self.disk.lock().has_stopped()
    }

    /// Returns the calls since the last start.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.disk.lock().calls().to_vec()
    }

    /// Returns the size of all files, as the process sees them.
    pub(crate) fn bytes(&self) -> usize {
        self.disk.lock().bytes()
    }

    /// Returns the most bytes that all files had together.
    pub(crate) fn most_bytes(&self) -> usize {
        self.disk.lock().most_bytes()
    }

    /// Returns the names of all files, as the process sees them.
    pub(crate) fn names(&self) -> Vec<String> {
        self.disk.lock().names()
    }
}

impl Files for SimulatedFiles {
    fn is_dir(&self, _: &Path) -> bool {
        true
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        self.disk.lock().call(Call::CreateDir)
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn OpenDir>> {
        self.disk.lock().call(Call::OpenDir)?;
        Ok(Box::new(SimulatedDir { disk: self.disk.clone(), path: path.to_owned() }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut disk = self.disk.lock();
        disk.call(Call::List)?;
        Ok(disk.list(dir))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        let mut disk = self.disk.lock();
        disk.call(Call::Read)?;
        Ok(Box::new(io::Cursor::new(disk.contents(path)?.to_vec())))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        let mut disk = self.disk.lock();
        disk.call(Call::Length)?;
        Ok(disk.contents(path)?.len() as u64)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        let inode = self.disk.lock().create(path)?;
        Ok(Box::new(SimulatedFile { disk: self.disk.clone(), inode }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        let mut disk = self.disk.lock();
        disk.call(Call::Open)?;
        Ok(Box::new(SimulatedFile { inode: disk.inode(path)?, disk: self.disk.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.lock().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.lock().remove(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, TryLockError> {
        let locked = self.disk.lock().lock(path)?;
        Ok(Box::new(SimulatedLock(locked)))
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: Arc<Mutex<DiskState>>,
    inode: u64,
}

impl OpenFile for SimulatedFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.lock().write(self.inode, offset as usize, bytes)
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.disk.lock().set_len(self.inode, length as usize)
    }

    fn reserve(&mut self, length: u64) -> io::Result<()> {
        self.disk.lock().reserve(self.inode, length as usize)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.lock().sync(self.inode)
    }
}

#[derive(Debug)]
struct SimulatedDir {
    disk: Arc<Mutex<DiskState>>,
    path: PathBuf,
}

impl OpenDir for SimulatedDir {
    fn sync(&self) -> io::Result<()> {
        self.disk.lock().sync_names(&self.path)
    }
}

/// A lock that ends when it is dropped. A crash or kill ends all locks.
#[derive(Debug)]
struct SimulatedLock(Arc<AtomicBool>);

impl Lock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

//! The state of a simulated disk: files by inode, cached and durable names, and the calls so far.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::fault::{Call, Fault, FaultPlan, Tear};

/// The size of a sector, which a disk writes atomically.
pub(super) const PIECE: usize = 512;

#[derive(Debug)]
pub(super) struct DiskState {
    pub(super) plan: FaultPlan,
    /// The calls of this process.
    calls: Vec<Call>,
    /// Set when the process or the machine has stopped.
    stopped: bool,
    inodes: BTreeMap<u64, Inode>,
    /// Names as the process sees them.
    names: BTreeMap<PathBuf, u64>,
    /// Names as they are on the disk.
    durable_names: BTreeMap<PathBuf, u64>,
    /// The changes that lead from the durable names to the cached ones.
    pending: Vec<NameChange>,
    locked: Arc<AtomicBool>,
    /// The most bytes that all files had together.
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct Inode {
    cached: Vec<u8>,
    durable: Vec<u8>,
    /// The pieces that were written since the last sync, whether that succeeded or failed.
    dirty: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Create(PathBuf, u64),
    Rename(PathBuf, PathBuf, u64),
    Remove(PathBuf),
}

impl NameChange {
    fn path(&self) -> &Path {
        match self {
            Self::Create(path, _) | Self::Rename(_, path, _) | Self::Remove(path) => path,
        }
    }
}

/// Random decisions that are a function of a seed (SplitMix64).
struct Coins(u64);

impl Coins {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }

    fn heads(&mut self) -> bool {
        self.below(2) == 0
    }
}

fn stopped() -> io::Error {
    io::Error::other("the simulated machine has stopped")
}

fn no_file() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl DiskState {
    pub(super) fn new(plan: FaultPlan) -> Self {
        Self {
            plan,
            calls: Vec::new(),
            stopped: false,
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending: Vec::new(),
            locked: Arc::default(),
            most_bytes: 0,
        }
    }

    pub(super) fn put(&mut self, path: &Path, bytes: Vec<u8>) {
        let inode = self.inodes.len() as u64;
        self.inodes.insert(inode, Inode { cached: bytes.clone(), durable: bytes, dirty: BTreeSet::new() });
        self.names.insert(path.to_owned(), inode);
        self.durable_names.insert(path.to_owned(), inode);
    }

    pub(super) fn restart(&mut self, plan: FaultPlan) {
        self.plan = plan;
        self.calls.clear();
        self.stopped = false;
        self.locked = Arc::default();
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.stopped
    }

    pub(super) fn calls(&self) -> &[Call] {
        &self.calls
    }

    pub(super) fn bytes(&self) -> usize {
        self.names.values().map(|inode| self.inodes[inode].cached.len()).sum()
    }

    pub(super) fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// How many bytes the plan leaves for files to grow.
    fn room(&self) -> usize {
        self.plan.room.map_or(usize::MAX, |room| room.saturating_sub(self.bytes()))
    }

    /// Reserves room for a file of this length. The reservation is not kept: no other file grows before this one is written.
    pub(super) fn reserve(&mut self, inode: u64, length: usize) -> io::Result<()> {
        let grows = length.saturating_sub(self.file(inode).cached.len());
        let fits = grows <= self.room();
        let fault = self.begin(Call::Reserve)?;
        self.end(fault.or((!fits).then_some(Fault::NoSpace(0))))
    }

    pub(super) fn names(&self) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        self.names.keys().filter_map(name).collect()
    }

    /// Crashes the machine: what is not durable survives or not, as the tear decides.
    pub(super) fn crash(&mut self, tear: Tear) {
        self.stopped = true;
        let mut coins = Coins(if let Tear::Random(seed) = tear { seed } else { 0 });
        let mut survives = |all_in: Tear| match tear {
            Tear::Random(_) => coins.heads(),
            Tear::Everything => true,
            other => other == all_in,
        };
        for change in std::mem::take(&mut self.pending) {
            if survives(Tear::Names) {
                apply(&mut self.durable_names, change);
            }
        }
        for inode in self.inodes.values_mut() {
            // The new length of a file may be durable although its contents are not.
            let keeps_length = survives(Tear::Names);
            inode.lose(keeps_length, || survives(Tear::Contents));
        }
        self.names.clone_from(&self.durable_names);
    }

    /// Records a call that has no effect on the disk.
    pub(super) fn call(&mut self, call: Call) -> io::Result<()> {
        let fault = self.begin(call)?;
        self.end(fault)
    }

    /// Records a call and returns its fault.
    fn begin(&mut self, call: Call) -> io::Result<Option<Fault>> {
        if self.stopped {
            return Err(stopped());
        }
        let fault = self.plan.fault(self.calls.len(), call);
        self.calls.push(call);
        match fault {
            Some(Fault::CrashBefore(tear)) => {
                self.crash(tear);
                Err(stopped())
            }
            Some(Fault::Panic) => panic!("a simulated panic"),
            fault => Ok(fault),
        }
    }

    /// Ends a call: crashes, or returns the error of its fault.
    fn end(&mut self, fault: Option<Fault>) -> io::Result<()> {
        match fault {
            Some(Fault::CrashAfter(tear)) => {
                self.crash(tear);
                Err(stopped())
            }
            Some(Fault::Kill) => {
                self.stopped = true;
                Err(stopped())
            }
            Some(fault) => fault.error().map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    /// Changes names, unless the call fails before its work is done.
    fn change_names(&mut self, call: Call, change: NameChange) -> io::Result<()> {
        let fault = self.begin(call)?;
        // A call that fails may still have done its work.
        let is_done = match fault {
            Some(Fault::InputOutput(seed)) => Coins(seed).heads(),
            Some(Fault::NoSpace(_) | Fault::TooManyFiles) => false,
            _ => true,
        };
        if is_done {
            apply(&mut self.names, change.clone());
            self.pending.push(change);
        }
        self.end(fault)
    }

    pub(super) fn inode(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(no_file)
    }

    pub(super) fn contents(&self, path: &Path) -> io::Result<&[u8]> {
        Ok(&self.inodes[&self.inode(path)?].cached)
    }

    pub(super) fn list(&self, dir: &Path) -> Vec<String> {
        let inside = self.names.keys().filter(|path| path.parent() == Some(dir));
        inside.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<u64> {
        if let Ok(inode) = self.inode(path) {
            // The file exists and is truncated.
            let fault = self.begin(Call::Create)?;
            if fault.and_then(Fault::error).is_none() {
                self.file(inode).cut(0);
            }
            return self.end(fault).map(|()| inode);
        }
        let inode = self.inodes.len() as u64;
        self.inodes.insert(inode, Inode::default());
        self.change_names(Call::Create, NameChange::Create(path.to_owned(), inode))?;
        Ok(inode)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.inode(from)?;
        self.change_names(Call::Rename, NameChange::Rename(from.to_owned(), to.to_owned(), inode))
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.inode(path)?;
        self.change_names(Call::Remove, NameChange::Remove(path.to_owned()))
    }

    pub(super) fn lock(&mut self, path: &Path) -> Result<Arc<AtomicBool>, TryLockError> {
        self.call(Call::Lock).map_err(TryLockError::Error)?;
        if self.locked.swap(true, Ordering::Acquire) {
            return Err(TryLockError::WouldBlock);
        }
        if self.inode(path).is_err() {
            let inode = self.inodes.len() as u64;
            self.inodes.insert(inode, Inode::default());
            let created = NameChange::Create(path.to_owned(), inode);
            apply(&mut self.names, created.clone());
            self.pending.push(created);
        }
        Ok(self.locked.clone())
    }

    fn file(&mut self, inode: u64) -> &mut Inode {
        self.inodes.get_mut(&inode).expect("inodes are never removed")
    }

    pub(super) fn write(&mut self, inode: u64, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let grows = (offset + bytes.len()).saturating_sub(self.file(inode).cached.len());
        let missing = grows.saturating_sub(self.room()).min(bytes.len());
        let fault = self.begin(Call::Write)?;
        let written = match fault {
            Some(Fault::InputOutput(seed) | Fault::NoSpace(seed)) => Coins(seed).below(bytes.len()),
            _ => bytes.len() - missing,
        };
        self.file(inode).write(offset, &bytes[..written]);
        self.most_bytes = self.most_bytes.max(self.bytes());
        self.end(fault.or((missing > 0).then_some(Fault::NoSpace(0))))
    }

    pub(super) fn set_len(&mut self, inode: u64, length: usize) -> io::Result<()> {
        let fault = self.begin(Call::SetLen)?;
        if fault.and_then(Fault::error).is_none() {
            self.file(inode).cut(length);
        }
        self.end(fault)
    }

    pub(super) fn sync(&mut self, inode: u64) -> io::Result<()> {
        let fault = self.begin(Call::Sync)?;
        match fault {
            Some(Fault::InputOutput(seed) | Fault::NoSpace(seed)) => self.file(inode).fail_to_sync(seed),
            _ if self.plan.lies_about_file(self.calls.len() - 1) => {}
            _ => self.file(inode).sync(),
        }
        self.end(fault)
    }

    pub(super) fn sync_names(&mut self, dir: &Path) -> io::Result<()> {
        let fault = self.begin(Call::SyncDir)?;
        // Names are part of the file system's journal: a name that could not be written stays pending until a later sync.
        // Some may have been written.
        let mut coins = Coins(match fault {
            Some(Fault::InputOutput(seed) | Fault::NoSpace(seed)) => seed,
            _ => 0,
        });
        let fails = fault.and_then(Fault::error).is_some();
        if !self.plan.lies_about_names {
            for change in std::mem::take(&mut self.pending) {
                if change.path().parent() != Some(dir) || (fails && coins.heads()) {
                    self.pending.push(change);
                } else {
                    apply(&mut self.durable_names, change);
                }
            }
        }
        self.end(fault)
    }
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, change: NameChange) {
    match change {
        NameChange::Create(path, inode) => {
            names.insert(path, inode);
        }
        NameChange::Rename(from, to, inode) => {
            names.remove(&from);
            names.insert(to, inode);
        }
        NameChange::Remove(path) => {
            names.remove(&path);
        }
    }
}

impl Inode {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if end > self.cached.len() {
            self.cached.resize(end, 0);
        }
        self.cached[offset..end].copy_from_slice(bytes);
        self.dirty.extend((offset / PIECE..end.div_ceil(PIECE)).filter(|_| !bytes.is_empty()));
    }

    fn cut(&mut self, length: usize) {
        self.cached.resize(length, 0);
        self.dirty.retain(|piece| piece * PIECE < length);
        if !length.is_multiple_of(PIECE) {
            self.dirty.insert(length / PIECE);
        }
    }

    fn sync(&mut self) {
        self.durable.resize(self.cached.len(), 0);
        for piece in std::mem::take(&mut self.dirty) {
            self.persist(piece);
        }
    }

    /// Marks every piece as clean, whether it was written or not.
    fn fail_to_sync(&mut self, seed: u64) {
        let mut coins = Coins(seed);
        if coins.heads() {
            self.durable.resize(self.cached.len(), 0);
        }
        for piece in std::mem::take(&mut self.dirty) {
            if coins.heads() {
                self.persist(piece);
            }
        }
    }

    /// Makes a piece durable. A file that is too short grows.
    fn persist(&mut self, piece: usize) {
        let (start, end) = (piece * PIECE, ((piece + 1) * PIECE).min(self.cached.len()));
        if start >= end {
            return;
        }
        if end > self.durable.len() {
            self.durable.resize(end, 0);
        }
        self.durable[start..end].copy_from_slice(&self.cached[start..end]);
    }

    fn lose(&mut self, keeps_length: bool, mut survives: impl FnMut() -> bool) {
        if keeps_length {
            self.durable.resize(self.cached.len(), 0);
        }
        for piece in std::mem::take(&mut self.dirty) {
            if survives() {
                self.persist(piece);
            }
        }
        self.cached.clone_from(&self.durable);
    }
}

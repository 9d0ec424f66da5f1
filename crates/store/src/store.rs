//! The handle of a store.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use evenkeel_env::Env;
use tokio::time::Instant;

use crate::journal::{Journal, Memory};
use crate::keyspace::Keyspace;
use crate::shared::Shared;
use crate::state::{Aftermath, StoreState};
use crate::{Entry, Header, Options, Page, Range, ReadError, Watch, WatchError, Write, WriteError, Written};

/// A revisioned keyspace with a change log. Clones share the same store.
///
/// ```
/// # use evenkeel_store::{Expect, Op, Options, Range, Store, Write};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store: Store<()> = Store::memory(Default::default(), Options::default());
/// let mut watch = store.watch("/fruit/", store.revision()).unwrap();
/// let put = Write { key: "/fruit/apple".into(), expect: Expect::Absent, op: Op::Put("red".into(), ()) };
/// let written = store.write(put).await.unwrap();
/// assert_eq!(watch.next().await.unwrap().revision, written.revision);
/// assert_eq!(store.range(&Range { prefix: "/fruit/".into(), ..Range::default() }).unwrap().entries.len(), 1);
/// # });
/// ```
pub struct Store<H> {
    shared: Arc<Shared<H>>,
    journal: Arc<dyn Journal<H>>,
}

impl<H> Clone for Store<H> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), journal: self.journal.clone() }
    }
}

impl<H> fmt::Debug for Store<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("revision", &self.shared.state.read().revision).finish_non_exhaustive()
    }
}

impl<H: Header> Store<H> {
    /// A store in memory, which lives as long as its handles. A write takes no time: it is applied before its future first
    /// yields.
    pub fn memory(env: Env, options: Options) -> Self {
        let shared = Arc::new(Shared::new(env, options));
        let journal = Arc::new(Memory::new(shared.clone()));
        Self { shared, journal }
    }

    /// Returns a store in memory that begins with the state and revision of this one, without its history. The two share
    /// their state until one of them changes it, so that a fork costs no more than a pointer.
    pub fn fork(&self, env: Env, options: Options) -> Self {
        let state = self.shared.state.read();
        let state = StoreState::new(state.revision, state.keys.clone(), options);
        let shared = Arc::new(Shared::of(env, state));
        let journal = Arc::new(Memory::new(shared.clone()));
        Self { shared, journal }
    }

    /// Returns a store in memory with the keys and revisions of this one, and with the values that `change` returns.
    pub fn fork_with(
        &self,
        env: Env,
        options: Options,
        mut change: impl FnMut(&Entry<H>) -> (Bytes, H),
    ) -> Self {
        let old = self.shared.state.read();
        let mut keys = Keyspace::new();
        for entry in old.keys.page("", None, usize::MAX).0 {
            let (value, header) = change(&entry);
            let Entry { key, create_revision, revision, .. } = &*entry;
            let (key, create_revision, revision) = (key.clone(), *create_revision, *revision);
            keys.insert(Arc::new(Entry { key, value, header, create_revision, revision }));
        }
        let shared = Arc::new(Shared::of(env, StoreState::new(old.revision, keys, options)));
        let journal = Arc::new(Memory::new(shared.clone()));
        Self { shared, journal }
    }

    /// Opens a store on disk. Every acknowledged write is durable.
    ///
    /// The directory is created if it does not exist. It must be empty or the directory of a store. Only one store can have
    /// it open at a time. After a restart the state is the same, and so is the history that [`Options`] keeps.
    #[cfg(feature = "disk")]
    pub async fn open(dir: &std::path::Path, env: Env, options: Options) -> Result<Self, crate::OpenError> {
        Ok(Self::on(crate::disk::open(dir, env, options).await?))
    }

    /// The store of an open data directory.
    #[cfg(feature = "disk")]
    pub(crate) fn on(disk: crate::disk::DiskJournal<H>) -> Self {
        Self { shared: disk.shared().clone(), journal: Arc::new(disk) }
    }

    /// Returns a backup of the state at the newest revision; see [`BackupStream`](crate::BackupStream). Later writes are not
    /// part of the backup.
    ///
    /// ```
    /// # use evenkeel_store::{Backup, Expect, Op, Options, Store, Write};
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let store: Store<()> = Store::memory(Default::default(), Options::default());
    /// let put = Write { key: "/fruit/apple".into(), expect: Expect::Absent, op: Op::Put("red".into(), ()) };
    /// store.write(put).await.unwrap();
    /// let bytes: Vec<u8> = store.backup().flatten().collect();
    ///
    /// let backup = Backup::read(&mut bytes.as_slice()).unwrap();
    /// let restored: Store<()> = Store::restored(backup, Default::default(), Options::default());
    /// assert_eq!(restored.get("/fruit/apple").unwrap().value, "red");
    /// # });
    /// ```
    #[cfg(feature = "disk")]
    pub fn backup(&self) -> crate::BackupStream<H> {
        let state = self.shared.state.read();
        crate::BackupStream::new(state.keys.clone(), state.revision)
    }

    /// Returns a store in memory that begins with the state of a backup. Entries keep their revisions. The revisions of new
    /// writes are far above those of the backup, and history begins there.
    #[cfg(feature = "disk")]
    pub fn restored(backup: crate::Backup<H>, env: Env, options: Options) -> Self {
        let revision = crate::disk::first_revision(backup.summary().revision);
        let shared = Arc::new(Shared::of(env, StoreState::new(revision, backup.keys, options)));
        let journal = Arc::new(Memory::new(shared.clone()));
        Self { shared, journal }
    }

    /// Creates a data directory from a backup and opens it.
    ///
    /// The directory must not hold a store; subdirectories in it are not touched. After an interrupted restore the directory
    /// does not open, and the restore can be repeated.
    #[cfg(feature = "disk")]
    pub async fn restore(
        dir: &std::path::Path,
        backup: crate::Backup<H>,
        env: Env,
        options: Options,
    ) -> Result<Self, crate::OpenError> {
        let journal = Arc::new(crate::disk::restore(dir, backup, env, options).await?);
        Ok(Self { shared: journal.shared().clone(), journal })
    }

    /// Returns the newest revision. A new store is at revision 1, so that no state has revision 0.
    pub fn revision(&self) -> u64 {
        self.shared.state.read().revision
    }

    /// Returns the revision that a consistent read must see. Memory and disk know it at once; a journal that several servers
    /// share must ask for it.
    pub async fn sync(&self) -> u64 {
        if self.is_current() { self.revision() } else { self.journal.sync().await }
    }

    /// Returns why the journal cannot make writes durable; `None` if it can.
    ///
    /// A full disk is reported until a write succeeds again. A disk failure after which the contents of a file are unknown
    /// is reported for ever: the store takes no more writes until it is opened again.
    pub fn journal_failure(&self) -> Option<String> {
        self.shared.trouble.lock().clone()
    }

    /// Waits until a read sees every write that was answered before. With memory and disk this returns at once.
    pub async fn catch_up(&self) {
        if !self.is_current() {
            self.journal.sync().await;
        }
    }

    /// Whether a read always sees every write that was answered before, so that [`catch_up`](Self::catch_up) returns at
    /// once.
    pub fn is_current(&self) -> bool {
        self.journal.is_alone()
    }

    /// Returns the newest entry of a key.
    pub fn get(&self, key: &str) -> Option<Arc<Entry<H>>> {
        self.shared.state.read().keys.get(key).cloned()
    }

    /// Calls `view` with the newest entry of a key, without cloning the entry. `view` must be quick, because writes wait for
    /// it.
    pub fn look<R>(&self, key: &str, view: impl FnOnce(&Arc<Entry<H>>) -> R) -> Option<R> {
        self.shared.state.read().keys.get(key).map(view)
    }

    /// Returns the entry of a key at a revision.
    pub fn get_at(&self, key: &str, at: u64) -> Result<Option<Arc<Entry<H>>>, ReadError> {
        self.shared.trim(Instant::now());
        self.shared.get_at(key, at)
    }

    /// Returns the entries of a range of keys, in key order.
    pub fn range(&self, range: &Range) -> Result<Page<H>, ReadError> {
        if range.at.is_some() {
            self.shared.trim(Instant::now());
        }
        self.shared.range(range)
    }

    /// Returns how many keys begin with this prefix, without walking over them.
    pub fn count(&self, prefix: &str) -> usize {
        self.shared.count(prefix)
    }

    /// Returns the newest revision if no key of this folder has changed after `revision`; `None` if one has, or if the
    /// log no longer reaches back that far. No key is read.
    ///
    /// The name of a folder ends with a slash.
    pub fn unchanged_since(&self, folder: &str, revision: u64) -> Option<u64> {
        let state = self.shared.state.read();
        let newest = state.log.scopes.folder(folder).and_then(|scope| scope.newest());
        let is_unchanged = revision >= state.log.floor() && newest.is_none_or(|newest| newest <= revision);
        is_unchanged.then_some(state.revision)
    }

    /// Makes one write.
    pub async fn write(&self, write: Write<H>) -> Result<Written<H>, WriteError<H>> {
        let answers = self.journal.write(vec![write]).await;
        answers.into_iter().next().unwrap_or(Err(WriteError::Closed))
    }

    /// Makes several writes in this order. Each has its own revision and outcome; they become durable together.
    pub async fn write_all(&self, writes: Vec<Write<H>>) -> Vec<Result<Written<H>, WriteError<H>>> {
        self.journal.write(writes).await
    }

    /// Watches the changes after a revision. The revision may be in the future; earlier changes are then not seen.
    ///
    /// A prefix that is empty or ends with a slash selects every key below it; any other prefix selects that one key.
    pub fn watch(&self, prefix: &str, after: u64) -> Result<Watch<H>, WatchError> {
        self.shared.watch(prefix, after)
    }

    /// Drops the changes up to a revision. The store also does this by itself, within the bounds of its [`Options`].
    pub fn compact(&self, revision: u64) {
        let mut aftermath = Aftermath::default();
        let mut state = self.shared.state.write();
        let revision = revision.min(state.revision);
        state.log.drop_to(revision, &mut aftermath.gone);
        drop(state);
        self.shared.settle(aftermath);
    }

    /// Takes no more writes and ends all watches. Reads still work.
    pub fn close(&self) {
        self.journal.close();
        let mut state = self.shared.state.write();
        state.closed = true;
        let wakers: Vec<Waker> =
            state.log.scopes.listeners().filter_map(|listener| listener.wake()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

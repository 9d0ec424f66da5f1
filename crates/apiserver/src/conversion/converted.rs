//! A cache of custom resources in versions other than the storage version.

use bytes::Bytes;
use evenkeel_env::HashMap;
use evenkeel_store::Entry;
use parking_lot::Mutex;

use crate::Header;
use crate::status::Result;

/// The number of bytes in a generation; two generations are kept. That is enough to convert a list of ten
/// thousand objects of a kilobyte or two only once, and an unused resource takes 32 MiB at most.
const GENERATION_BYTES: usize = 16 << 20;

/// Converted objects by the revision that wrote them, since a revision is one write of one key.
///
/// The cache belongs to one version of one CRD and is dropped with it.
#[derive(Debug, Default)]
pub(crate) struct Converted(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<u64, (Bytes, Header)>,
    young_bytes: usize,
    /// The previous young generation; an object that is read again becomes young again.
    old: HashMap<u64, (Bytes, Header)>,
}

impl Converted {
    /// Returns the converted form of an entry; converts it if it is not cached.
    pub(crate) fn get(
        &self,
        entry: &Entry<Header>,
        make: impl FnOnce() -> Result<(Bytes, Header)>,
    ) -> Result<(Bytes, Header)> {
        let kept = self.0.lock().take(entry.revision);
        // Converted without holding the lock: concurrent readers may convert it twice, but none waits.
        let made = kept.map_or_else(make, Ok)?;
        self.0.lock().put(entry.revision, made.clone());
        Ok(made)
    }
}

impl Generations {
    fn take(&mut self, revision: u64) -> Option<(Bytes, Header)> {
        match self.young.get(&revision) {
            Some(kept) => Some(kept.clone()),
            None => self.old.remove(&revision),
        }
    }

    fn put(&mut self, revision: u64, made: (Bytes, Header)) {
        let bytes = made.0.len();
        if self.young.insert(revision, made).is_none() {
            self.young_bytes += bytes;
        }
        if self.young_bytes > GENERATION_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

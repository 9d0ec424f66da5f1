//! Objects of custom resources in a face that is not the stored one, made once and kept for the next reader.

use bytes::Bytes;
use evenkeel_env::HashMap;
use evenkeel_store::Entry;
use parking_lot::Mutex;

use crate::Header;
use crate::status::Result;

/// How many bytes are kept in a generation; two are kept. So a list of ten thousand objects of a kilobyte or two is
/// converted once, and a resource that nobody reads any more costs 32 MiB at most.
const GENERATION_BYTES: usize = 16 << 20;

/// What was made of stored objects, by the revision that wrote them: a revision is one write of one key.
///
/// It belongs to one version of one definition, and goes with it.
#[derive(Debug, Default)]
pub(crate) struct Converted(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<u64, (Bytes, Header)>,
    young_bytes: usize,
    /// What was young before; what is asked for again becomes young again.
    old: HashMap<u64, (Bytes, Header)>,
}

impl Converted {
    /// The converted form of an entry, made now if it is not kept.
    pub(crate) fn get(
        &self,
        entry: &Entry<Header>,
        make: impl FnOnce() -> Result<(Bytes, Header)>,
    ) -> Result<(Bytes, Header)> {
        let kept = self.0.lock().take(entry.revision);
        // Made without the lock: two who come at once make it twice, and nobody waits.
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

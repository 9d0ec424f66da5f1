//! A cache of custom resources that were converted to one version of their definition.
//!
//! A conversion may be a call of a webhook, so it is made only once for each stored revision. Its result is kept within
//! a size limit, and requests that need an object while it is being converted wait for that conversion.

use std::fmt;
use std::sync::Arc;

use evenkeel_env::HashMap;
use evenkeel_store::Entry;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;

use crate::Header;
use crate::bounded_cache::BoundedCache;
use crate::status::Result;

/// The size of one generation of kept objects; there are two. That is enough to convert a list of ten thousand objects
/// of a kilobyte or two only once, and an unused resource takes at most 32 MiB.
const GENERATION_BYTES: usize = 16 << 20;
/// How many abandoned conversions are remembered before they are swept out. A conversion is abandoned when nobody waits
/// for it any more.
const PENDING_SWEEP: usize = 10_000;

/// A conversion of several objects in progress. The results are in the order of the objects.
pub(crate) type Batch = Shared<BoxFuture<'static, Result<Arc<Vec<Arc<Entry<Header>>>>>>>;
type WeakBatch = WeakShared<BoxFuture<'static, Result<Arc<Vec<Arc<Entry<Header>>>>>>>;

/// The objects of a definition in one of its versions, by the revision that wrote them. A revision is one write of
/// one key, so it identifies an object.
#[derive(Default)]
pub(crate) struct ConvertedObjects {
    kept: BoundedCache<u64, Arc<Entry<Header>>, GENERATION_BYTES>,
    /// The batch that is converting a revision, and the object's index in it. Only the waiting requests hold the batch
    /// itself, so that a conversion nobody waits for is dropped.
    pending: Mutex<HashMap<u64, (WeakBatch, usize)>>,
}

impl fmt::Debug for ConvertedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConvertedObjects").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl ConvertedObjects {
    /// Returns the converted form of the object that this revision wrote, if it is kept.
    pub(crate) fn get(&self, revision: u64) -> Option<Arc<Entry<Header>>> {
        self.kept.get(&revision)
    }

    /// Keeps a converted object.
    pub(crate) fn keep(&self, entry: &Arc<Entry<Header>>) {
        self.kept.insert(entry.revision, entry.clone(), entry.value.len());
    }

    /// Returns the batch that is converting a revision, and the object's index in it.
    pub(crate) fn pending(&self, revision: u64) -> Option<(Batch, usize)> {
        let pending = self.pending.lock();
        let (batch, place) = pending.get(&revision)?;
        Some((batch.upgrade()?, *place))
    }

    /// Records that a batch converts the objects of these revisions, in this order.
    pub(crate) fn begin(&self, revisions: impl Iterator<Item = u64>, batch: &Batch) {
        // `None` if the batch is complete, which it cannot be before its first poll.
        let Some(weak) = batch.downgrade() else { return };
        let mut pending = self.pending.lock();
        if pending.len() > PENDING_SWEEP {
            pending.retain(|_, (batch, _)| batch.upgrade().is_some_and(|batch| batch.peek().is_none()));
        }
        pending.extend(revisions.enumerate().map(|(place, revision)| (revision, (weak.clone(), place))));
    }

    /// Records that the conversion of these revisions has ended.
    pub(crate) fn end(&self, revisions: impl Iterator<Item = u64>) {
        let mut pending = self.pending.lock();
        revisions.for_each(|revision| drop(pending.remove(&revision)));
    }
}

/// Turns a future into a batch that several requests can wait for.
pub(crate) fn batch(
    convert: impl Future<Output = Result<Vec<Arc<Entry<Header>>>>> + Send + 'static,
) -> Batch {
    convert.map(|converted| converted.map(Arc::new)).boxed().shared()
}

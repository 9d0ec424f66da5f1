//! Estimates the size of a cache, for metrics.

use super::shared::Shared;
use crate::Object;

/// How many objects are sampled to estimate the size of a cache.
const SIZE_SAMPLE: usize = 32;

impl<K: Object> Shared<K> {
    /// Estimates the size of all objects as JSON from a sample.
    pub(super) fn estimated_bytes(&self) -> usize {
        let (all, sample) = {
            let store = self.store.read();
            (store.len(), store.sample(SIZE_SAMPLE).cloned().collect::<Vec<_>>())
        };
        let sizes = sample.iter().map(|object| {
            let mut size = Size(0);
            // Counting bytes cannot fail; an object that cannot be serialized counts as nothing.
            let _ = serde_json::to_writer(&mut size, &**object);
            size.0
        });
        (sizes.sum::<usize>() * all).checked_div(sample.len()).unwrap_or(0)
    }
}

/// Counts the bytes that are written to it.
struct Size(usize);

impl std::io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

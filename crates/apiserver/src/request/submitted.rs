//! The flag that a request has begun to write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a request has handed a write to the store. The default value ignores notes; it is for requests
/// that need no completion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Submitted(Option<Arc<AtomicBool>>);

impl Submitted {
    /// Creates the flag of a request that has not written yet.
    pub(crate) fn not_yet() -> Self {
        Self(Some(Arc::default()))
    }

    /// Notes that a write of this request has been handed to the store, or is about to be.
    pub(crate) fn note(&self) {
        if let Some(submitted) = &self.0 {
            submitted.store(true, Ordering::Release);
        }
    }

    /// Whether a write has been handed to the store.
    pub(crate) fn is_noted(&self) -> bool {
        self.0.as_ref().is_some_and(|it| it.load(Ordering::Acquire))
    }
}

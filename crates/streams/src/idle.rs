//! Notices that nothing has happened on a connection for a long time.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::limits::IDLE;

/// When something last happened on a connection. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Idle(Arc<Mutex<Instant>>);

impl Idle {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    /// Notes that something happened.
    pub(crate) fn note(&self) {
        *self.0.lock() = Instant::now();
    }

    /// Completes when nothing has happened for [`IDLE`].
    pub(crate) async fn expired(&self) {
        loop {
            let end = *self.0.lock() + IDLE;
            if Instant::now() >= end {
                return;
            }
            sleep_until(end).await;
        }
    }
}

//! The lock and the wakes that the queue is built of.

use std::future::Future;

pub(super) use parking_lot::Mutex;
pub(super) use tokio::sync::Notify;
use tokio::time::Instant;

/// Waits to be told, until a time at most.
pub(super) async fn notified_until(notified: impl Future<Output = ()>, at: Instant) {
    let _ = tokio::time::timeout_at(at, notified).await;
}

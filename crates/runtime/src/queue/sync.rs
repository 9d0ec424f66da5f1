//! The lock and the notifications that the queue is built of.

use std::future::Future;

pub(super) use parking_lot::Mutex;
pub(super) use tokio::sync::Notify;
use tokio::time::Instant;

/// Waits for a notification, until `at` at the latest.
pub(super) async fn notified_until(notified: impl Future<Output = ()>, at: Instant) {
    let _ = tokio::time::timeout_at(at, notified).await;
}

//! How a reconcile ended, and what that means for its key.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::Request;
use crate::action::{Action, Next};
use crate::cause::Cause;
use crate::error::{BoxError, Retry, chain, is_conflict, retry_of};
use crate::metrics::{self, ControllerMetrics};
use crate::observe::Stage;
use crate::queue::{Add, Item, Queue};

/// How many conflicts in a row are what happens between writers; more of them are worth an error in the log.
const CONFLICTS_EXPECTED: u32 = 5;

/// How a reconcile ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Done(Action),
    Failed(Failure),
}

#[derive(Debug)]
pub(super) enum Failure {
    Error(BoxError),
    Panic(String),
    Timeout(Duration),
}

impl Failure {
    /// Whether the server refused because somebody else was faster.
    fn is_conflict(&self) -> bool {
        match self {
            Self::Error(error) => is_conflict(error.as_ref()),
            Self::Panic(_) | Self::Timeout(_) => false,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Error(error) => retry_of(error.as_ref()),
            Self::Panic(_) | Self::Timeout(_) => Retry::Backoff,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => f.write_str(&chain(error.as_ref())),
            Self::Panic(text) => write!(f, "the reconcile panicked: {text}"),
            Self::Timeout(timeout) => write!(f, "the reconcile took longer than {timeout:?}"),
        }
    }
}

impl Outcome {
    /// Logs it once, with the chain of its error.
    pub(super) fn report(&self, item: &Item, took: Duration) {
        let causes = &item.causes;
        match self {
            Self::Done(action) => tracing::debug!(%causes, ?took, next = ?action.next, "reconciled"),
            Self::Failed(failure) => match failure.retry() {
                Retry::Never => {
                    tracing::error!(%causes, ?took, error = %failure, "reconcile failed for good");
                }
                retry if failure.is_conflict() && item.requeues < CONFLICTS_EXPECTED => {
                    // Another writer was faster: the next attempt reads what it wrote.
                    tracing::debug!(%causes, ?took, ?retry, error = %failure, "reconcile again after a conflict");
                }
                retry => {
                    let attempt = item.requeues + 1;
                    tracing::error!(%causes, ?took, attempt, ?retry, error = %failure, "reconcile failed");
                }
            },
        }
    }

    /// What an observer is told of it.
    pub(super) fn stage(&self, took: Duration) -> Stage {
        let error = match self {
            Self::Done(_) => None,
            Self::Failed(failure) => Some(failure.to_string()),
        };
        Stage::Ended { took, error }
    }

    /// Counts it.
    pub(super) fn count(&self, metrics: &ControllerMetrics, key: &Request, took: Duration) {
        let result = match self {
            Self::Done(action) => match action.next {
                Next::Done => metrics::Result::Success,
                Next::Requeue => metrics::Result::Requeue,
                Next::After(_) => metrics::Result::RequeueAfter,
            },
            Self::Failed(failure) => {
                let special = match failure {
                    Failure::Panic(_) => Some(&metrics.panics),
                    Failure::Timeout(_) => Some(&metrics.timeouts),
                    Failure::Error(_) if failure.retry() == Retry::Never => Some(&metrics.terminal),
                    Failure::Error(_) => None,
                };
                if let Some(special) = special {
                    special.fetch_add(1, Ordering::Relaxed);
                }
                metrics::Result::Error
            }
        };
        metrics.ended(key, took, result);
    }

    /// Queues the key again, or forgets it. The key must still be in flight.
    pub(super) fn settle(&self, queue: &Queue, item: &Item) {
        let key = item.key.clone();
        let again = |priority, after, rate_limited, cause| {
            let add = Add { priority, after, rate_limited, cause: Some(cause) };
            queue.add_with(key.clone(), add);
        };
        match self {
            Self::Done(action) => {
                let priority = action.priority.unwrap_or(item.priority);
                match action.next {
                    Next::Done => queue.forget(&item.key),
                    Next::Requeue => again(priority, None, true, Cause::Requeue),
                    Next::After(delay) => {
                        queue.forget(&item.key);
                        again(priority, Some(delay), false, Cause::Timer);
                    }
                }
            }
            Self::Failed(failure) => match failure.retry() {
                Retry::Backoff => again(item.priority, None, true, Cause::Retry),
                Retry::After(delay) => again(item.priority, Some(delay), true, Cause::Retry),
                Retry::Never => queue.forget(&item.key),
            },
        }
    }
}

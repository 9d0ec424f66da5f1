//! The outcome of a reconcile, and what follows for its key.

use std::fmt;
use std::time::Duration;

use evenkeel_env::Purpose;

use crate::Request;
use crate::action::{Action, Next};
use crate::cause::Cause;
use crate::error::{BoxError, Retry, chain, is_conflict, is_gone, retry_of};
use crate::flight::{Ended, error_text};
use crate::metrics::{self, ControllerMetrics};
use crate::observe::Stage;
use crate::queue::{Add, Item, Queue};

/// A key that writes every time it is looked at again is not at rest if the looks are at most this far apart, which is
/// the limit of the test kit's `settled()`. A key with longer pauses, such as the renewal of a certificate, may write
/// each time.
const WRITES_ARE_RARE: Duration = Duration::from_secs(60);

/// How many conflicts in a row are normal between concurrent writers; more of them are logged as errors.
const CONFLICTS_EXPECTED: u32 = 5;

/// The outcome of a reconcile.
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
    /// Whether the API server refused a write because another writer was faster.
    fn is_conflict(&self) -> bool {
        match self {
            Self::Error(error) => is_conflict(error.as_ref()),
            Self::Panic(_) | Self::Timeout(_) => false,
        }
    }

    /// Whether the API server does not have the reconciled object any more.
    fn is_gone(&self, key: &Request) -> bool {
        match self {
            Self::Error(error) => is_gone(error.as_ref(), &key.name),
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
    /// Logs the outcome, with the sources of an error.
    pub(super) fn report(&self, item: &Item, took: Duration) {
        let causes = &item.causes;
        match self {
            Self::Done(action) => tracing::debug!(%causes, ?took, next = ?action.next, "reconciled"),
            Self::Failed(failure) => match failure.retry() {
                Retry::Never => {
                    tracing::error!(%causes, ?took, error = %failure, "reconcile failed and is not retried");
                }
                retry if failure.is_conflict() && item.requeues < CONFLICTS_EXPECTED => {
                    // Another writer was faster: the next attempt reads the newer object.
                    tracing::debug!(%causes, ?took, ?retry, error = %failure, "reconcile again after a conflict");
                }
                retry if item.requeues == 0 && failure.is_gone(&item.key) => {
                    // The object was deleted during the reconcile: the cache will show that by the next attempt.
                    tracing::debug!(%causes, ?took, ?retry, error = %failure, "reconcile again: its object was deleted");
                }
                retry => {
                    let attempt = item.requeues + 1;
                    tracing::error!(%causes, ?took, attempt, ?retry, error = %failure, "reconcile failed");
                }
            },
        }
    }

    /// The outcome as observers see it.
    pub(super) fn stage(&self, took: Duration) -> Stage {
        let error = match self {
            Self::Done(_) => None,
            Self::Failed(failure) => Some(failure.to_string()),
        };
        Stage::Ended { took, error }
    }

    /// Counts the outcome.
    pub(super) fn count(&self, metrics: &ControllerMetrics, key: &Request, took: Duration) {
        let result = match self {
            Self::Done(action) => match action.next {
                Next::AwaitChange => metrics::Result::Success,
                Next::RequeueWithBackoff => metrics::Result::Requeue,
                Next::Requeue(_) => metrics::Result::RequeueAfter,
            },
            Self::Failed(failure) => {
                match failure {
                    Failure::Panic(_) => metrics.panicked(),
                    Failure::Timeout(_) => metrics.timed_out(),
                    Failure::Error(_) if failure.retry() == Retry::Never => metrics.failed_for_good(),
                    Failure::Error(_) => {}
                }
                metrics::Result::Error
            }
        };
        metrics.ended(key, took, result);
    }

    /// Queues the key again or forgets its failures, and ends the work on it. `later_look` is the ledger's purpose for
    /// a later look at this key. Returns the delay after which the key comes back.
    pub(super) fn settle(
        &self,
        queue: &Queue,
        item: &Item,
        later_look: impl FnOnce(Duration) -> Purpose,
    ) -> Option<Duration> {
        let again = |priority, after, rate_limited, cause| {
            let add = Add { priority, after, rate_limited, cause: Some(cause) };
            queue.add_for(item.key.clone(), add, Purpose::Work)
        };
        let delay = match self {
            Self::Done(action) => {
                let priority = action.priority.unwrap_or(item.priority);
                match action.next {
                    Next::AwaitChange => {
                        queue.succeeded(&item.key);
                        return None;
                    }
                    Next::RequeueWithBackoff => again(priority, None, true, Cause::Requeue),
                    Next::Requeue(delay) => {
                        queue.forget(&item.key);
                        let (after, cause) = (Some(delay), Some(Cause::Timer));
                        let add = Add { priority, after, rate_limited: false, cause };
                        queue.add_for(item.key.clone(), add, later_look(delay))
                    }
                }
            }
            Self::Failed(failure) => match failure.retry() {
                Retry::Backoff => again(item.priority, None, true, Cause::Retry),
                Retry::After(delay) => again(item.priority, Some(delay), true, Cause::Retry),
                Retry::Never => {
                    queue.succeeded(&item.key);
                    return None;
                }
            },
        };
        queue.done(&item.key);
        delay
    }

    /// The outcome in the form that the flight recorder keeps.
    pub(super) fn ended(&self) -> Ended {
        match self {
            Self::Done(action) => match action.next {
                Next::AwaitChange => Ended::Done,
                Next::RequeueWithBackoff | Next::Requeue(_) => Ended::Requeued,
            },
            Self::Failed(failure) => {
                let text = error_text(&failure.to_string());
                match failure.retry() {
                    Retry::Never => Ended::FailedForGood(text),
                    Retry::Backoff | Retry::After(_) => Ended::Failed(text),
                }
            }
        }
    }
}

/// Returns the ledger's purpose for a later look at a key after a successful reconcile. `wrote` says whether the
/// reconcile changed an object.
pub(super) fn later_look(item: &Item, wrote: bool, delay: Duration) -> Purpose {
    let repeats = item.causes.kept().contains(&Cause::Timer);
    match (wrote, repeats) {
        (false, _) => Purpose::Look,
        (true, true) if delay <= WRITES_ARE_RARE => Purpose::Work,
        (true, _) => Purpose::Follow,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::Status;
    use parking_lot::Mutex;
    use tokio::time::Instant;
    use tracing::{Level, Metadata, Subscriber, span};

    use super::*;
    use crate::Causes;

    /// A subscriber that keeps the levels of log lines.
    #[derive(Clone, Default)]
    struct Levels(Arc<Mutex<Vec<Level>>>);

    impl Subscriber for Levels {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &tracing::Event<'_>) {
            self.0.lock().push(*event.metadata().level());
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    fn level_of(error: kube::Error, requeues: u32) -> Vec<Level> {
        let levels = Levels::default();
        let item = Item {
            key: Request::namespaced("a", "b"),
            priority: 0,
            causes: Causes::default(),
            ready_at: Instant::now(),
            requeues,
        };
        let outcome = Outcome::Failed(Failure::Error(error.into()));
        tracing::subscriber::with_default(levels.clone(), || outcome.report(&item, Duration::ZERO));
        let seen = levels.0.lock();
        seen.clone()
    }

    /// Every conflict between two writers used to be logged as an error, though the next attempt resolved it.
    #[tokio::test(start_paused = true)]
    async fn conflicts_are_no_errors_in_the_log_unless_they_keep_coming() {
        let refused =
            |reason: &str, code| kube::Error::Api(Status::failure("x", reason).with_code(code).boxed());
        assert_eq!(level_of(refused("Conflict", 409), 0), [Level::DEBUG]);
        assert_eq!(level_of(refused("Conflict", 409), CONFLICTS_EXPECTED), [Level::ERROR]);
        assert_eq!(level_of(refused("Forbidden", 403), 0), [Level::ERROR]);
    }

    /// A missing object is not an error if it is the reconciled object, which was deleted meanwhile.
    #[tokio::test(start_paused = true)]
    async fn what_was_deleted_under_a_reconcile_is_no_error_the_first_time() {
        let missing = |name: &str| {
            let status = serde_json::json!({ "code": 404, "details": { "name": name } });
            let status: Status = serde_json::from_value(status).unwrap();
            kube::Error::Api(status.boxed())
        };
        assert_eq!(level_of(missing("b"), 0), [Level::DEBUG]);
        assert_eq!(level_of(missing("b"), 1), [Level::ERROR]);
        assert_eq!(level_of(missing("other"), 0), [Level::ERROR]);
    }
}

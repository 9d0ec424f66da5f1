//! What a reconcile wants to happen next.

use std::time::Duration;

/// The result of a reconcile that did not fail.
///
/// The constructors carry the names of `kube::runtime::controller::Action` and mean what they mean there.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_runtime::Action;
///
/// let _nothing_more_to_do = Action::await_change();
/// let _look_again_in_half_a_minute = Action::requeue(Duration::from_secs(30));
/// let _not_finished_yet = Action::requeue_with_backoff();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a reconcile returns its action"]
pub struct Action {
    pub(crate) next: Next,
    pub(crate) priority: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait for the next event of a watched object.
    AwaitChange,
    /// Reconcile again after this delay; the key's backoff starts over.
    Requeue(Duration),
    /// Reconcile again after the key's backoff.
    RequeueWithBackoff,
}

impl Action {
    /// Does nothing until a watched object changes. The key's backoff starts over.
    pub fn await_change() -> Self {
        Self { next: Next::AwaitChange, priority: None }
    }

    /// Reconciles this key again after `delay`, or earlier if a watched object changes. The key's backoff starts over.
    pub fn requeue(delay: Duration) -> Self {
        Self { next: Next::Requeue(delay), priority: None }
    }

    /// Reconciles this key again after its backoff, which grows with each requeue in a row, as after an error.
    pub fn requeue_with_backoff() -> Self {
        Self { next: Next::RequeueWithBackoff, priority: None }
    }

    /// Sets the priority at which the key is queued again. The default is the priority of this reconcile.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }
}

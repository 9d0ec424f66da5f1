//! What a reconcile wants to happen next.

use std::time::Duration;

/// The result of a reconcile that did not fail.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_runtime::Action;
///
/// let _nothing_more = Action::done();
/// let _once_more_with_backoff = Action::requeue();
/// let _look_again = Action::after(Duration::from_secs(30));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a reconcile returns its action"]
pub struct Action {
    pub(crate) next: Next,
    pub(crate) priority: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Done,
    /// Again, after this key's backoff.
    Requeue,
    /// Again at a time; forgets the key's backoff.
    After(Duration),
}

impl Action {
    /// Nothing more to do until something changes. Forgets the key's backoff.
    pub fn done() -> Self {
        Self { next: Next::Done, priority: None }
    }

    /// Reconcile this key again after its backoff, which grows with each time in a row.
    pub fn requeue() -> Self {
        Self { next: Next::Requeue, priority: None }
    }

    /// Reconcile this key again after `delay`, or earlier if something changes. Forgets the key's backoff.
    pub fn after(delay: Duration) -> Self {
        Self { next: Next::After(delay), priority: None }
    }

    /// The priority at which the key is queued again; that of this reconcile unless set.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }
}

//! Requests that have begun to write are completed, even if their client goes away.
//!
//! A client may disconnect at any moment; the transport then drops the future that serves its request. A
//! write that has been handed to the store commits regardless, but everything that the request still had to
//! do would be lost: a CRD would not be served, the address of a Service would be allocated twice, half of a
//! collection would remain, an eviction would count against a budget and never happen.
//!
//! [`Completion`] prevents this. It runs the whole request and owns everything that the request needs.
//! Dropping it before the first write is handed to the store ([`Submitted`]) drops the request, and nothing
//! was written. After that, a dropped request continues as a task of the runtime, registered as work in the
//! ledger. A request that is not dropped is polled in place, without a task and in the same order as without
//! this module.
//!
//! If the process dies, such requests die with it; the next start completes what they left unfinished
//! ([`resume`](crate::resume)).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use evenkeel_env::Station;
use futures::future::BoxFuture;
use tokio::runtime::Handle;

use crate::request::Submitted;

/// The future of a request that may write.
pub(crate) struct Completion<T: 'static> {
    /// The request; `None` after it has ended, and while it is polled, so that a request that panicked is not
    /// polled again.
    request: Option<BoxFuture<'static, T>>,
    submitted: Submitted,
    /// The ledger's station for requests.
    station: Station,
    /// The runtime on which the request continues if it is dropped outside of any runtime.
    runtime: Option<Handle>,
}

impl<T: Send + 'static> Completion<T> {
    /// Creates the future of a request that notes its first write in `submitted`.
    pub(crate) fn new(
        station: Station,
        submitted: Submitted,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let runtime = Handle::try_current().ok();
        Self { request: Some(Box::pin(request)), submitted, station, runtime }
    }
}

impl<T: Send + 'static> Future for Completion<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(mut request) = self.request.take() else { return Poll::Pending };
        let polled = request.as_mut().poll(cx);
        if polled.is_pending() {
            self.request = Some(request);
        }
        polled
    }
}

impl<T: 'static> Drop for Completion<T> {
    fn drop(&mut self) {
        let Some(request) = self.request.take().filter(|_| self.submitted.is_noted()) else { return };
        let Some(runtime) = Handle::try_current().ok().or_else(|| self.runtime.take()) else {
            return tracing::warn!(
                "a request that had begun to write cannot be completed: no runtime is available"
            );
        };
        // Acquired before the request releases its own work, so that the ledger never appears idle in
        // between.
        let work = self.station.enter_with("a write whose client went away".to_owned());
        runtime.spawn(finish(request, work));
    }
}

async fn finish<T>(request: BoxFuture<'static, T>, work: evenkeel_env::Work) {
    drop(request.await);
    drop(work);
}

//! A request that has begun to write is carried to its end, whether or not its client waits for the answer.
//!
//! A client may go away at any moment, and whoever serves it then drops the future that answers its request. While a
//! write waits for the disk that future is no more than an onlooker: the write is made without it. What the request
//! still had to do would be lost: a definition would not be served, the address of a Service would be given out a
//! second time, half of a collection would be deleted, an eviction would be charged to a budget and never happen.
//!
//! [`Completion`] is the one place that prevents this. It runs the whole request, and owns everything that the request
//! needs. Until the first write is handed to the store ([`Submitted`]), dropping it drops the request, and nothing was
//! written. From then on a request that is dropped goes on as a task of the runtime, as work in the ledger. A request
//! that is waited for is polled in place: it costs no task, and runs in the same order as without this module.
//!
//! A process that dies takes such requests with it; what they leave undone is taken up at the next start
//! ([`resume`](crate::resume)).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tokio::runtime::Handle;

use crate::ApiServer;

/// Whether a request has handed a write to the store. The default is that of a request that nobody completes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Submitted(Option<Arc<AtomicBool>>);

impl Submitted {
    /// No write was handed to the store yet.
    pub(crate) fn not_yet() -> Self {
        Self(Some(Arc::default()))
    }

    /// Notes that the store has a write of this request, or will have it in a moment.
    pub(crate) fn note(&self) {
        if let Some(submitted) = &self.0 {
            submitted.store(true, Ordering::Release);
        }
    }

    fn is_noted(&self) -> bool {
        self.0.as_ref().is_some_and(|it| it.load(Ordering::Acquire))
    }
}

/// The future of a request that may write.
pub(crate) struct Completion<T: 'static> {
    /// None once the request has ended, and while it is polled: a request that panicked is not polled again.
    request: Option<BoxFuture<'static, T>>,
    submitted: Submitted,
    server: ApiServer,
    /// The runtime on which the request goes on, where it is dropped outside of one.
    runtime: Option<Handle>,
}

impl<T: Send + 'static> Completion<T> {
    /// A request to this server, which notes its first write in `submitted`.
    pub(crate) fn new(
        server: ApiServer,
        submitted: Submitted,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let runtime = Handle::try_current().ok();
        Self { request: Some(Box::pin(request)), submitted, server, runtime }
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
            return tracing::warn!("a request that was writing is given up: it runs on no runtime");
        };
        // Entered before the work of the request itself is let go.
        let work = self.server.hold("a write whose client went away");
        runtime.spawn(finish(request, work));
    }
}

async fn finish<T>(request: BoxFuture<'static, T>, work: evenkeel_env::Work) {
    drop(request.await);
    drop(work);
}

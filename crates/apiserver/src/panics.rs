//! Panics while a request is served: the client gets status 500 and the log gets an error; the connection
//! does not just end.
//!
//! Unwinding releases everything that the request holds: its work in the ledger, reserved addresses, locks.
//! The locks are from `parking_lot`, which a panic does not poison.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;

thread_local! {
    /// The number of nested guards that are running on this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// What the panic hook saw of the last panic in guarded code.
    static CAPTURED: RefCell<Option<CapturedPanic>> = const { RefCell::new(None) };
}

/// A panic, as the panic hook saw it.
struct CapturedPanic {
    /// The message and the source location.
    what: String,
    backtrace: Backtrace,
}

/// Counts the panics of one server's requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Panics(Arc<AtomicU64>);

impl Panics {
    /// Creates a counter at zero and installs the panic hook.
    pub(crate) fn new() -> Self {
        install_hook();
        Self::default()
    }

    /// The number of panics that were caught.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs a part of a request. Returns `None` if it panicked, which is counted and logged under `what`.
    pub(crate) fn guard<T>(&self, what: &dyn Fn() -> String, run: impl FnOnce() -> T) -> Option<T> {
        DEPTH.set(DEPTH.get() + 1);
        let result = catch_unwind(AssertUnwindSafe(run));
        DEPTH.set(DEPTH.get() - 1);
        result.map_err(|payload| self.caught(&what(), &*payload)).ok()
    }

    /// Runs a future that serves a request. Resolves to `None` if it panicked, which is counted and logged
    /// under `what`.
    pub(crate) async fn guard_future<T>(
        &self,
        what: &(dyn Fn() -> String + Sync),
        future: impl Future<Output = T>,
    ) -> Option<T> {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| match self.guard(&|| what(), || future.as_mut().poll(cx)) {
            Some(poll) => poll.map(Some),
            None => Poll::Ready(None),
        })
        .await
    }

    /// Wraps the stream of a response body; the wrapper ends if the stream panics.
    pub(crate) fn guard_stream<S>(&self, what: String, stream: S) -> Guarded<S> {
        Guarded { panics: self.clone(), what, stream: Some(Box::pin(stream)) }
    }

    fn caught(&self, what: &str, payload: &(dyn Any + Send)) {
        self.0.fetch_add(1, Ordering::Relaxed);
        let seen = CAPTURED.take();
        let panic = match &seen {
            Some(seen) => &seen.what,
            None => message(payload),
        };
        let backtrace = seen.as_ref().map(|it| it.backtrace.to_string()).unwrap_or_default();
        tracing::error!(request = what, panic, backtrace, "a request panicked");
    }
}

/// A stream that ends if the wrapped stream panics.
pub(crate) struct Guarded<S> {
    panics: Panics,
    /// The request, for the log.
    what: String,
    /// The wrapped stream; `None` once it has panicked, so that it is not polled again.
    stream: Option<Pin<Box<S>>>,
}

impl<S: Stream<Item = Bytes>> Stream for Guarded<S> {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Self { panics, what, stream } = &mut *self;
        let Some(within) = stream else { return Poll::Ready(None) };
        match panics.guard(&|| what.clone(), || within.as_mut().poll_next(cx)) {
            Some(poll) => poll,
            None => {
                // Dropping the broken stream may panic as well.
                let broken = stream.take();
                let _ = panics.guard(&|| what.clone(), || drop(broken));
                Poll::Ready(None)
            }
        }
    }
}

/// Installs a panic hook that captures panics in guarded code, because their backtrace is lost once they are
/// caught. All other panics go to the previous hook.
fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if DEPTH.get() == 0 {
                return before(info);
            }
            let seen = CapturedPanic { what: info.to_string(), backtrace: Backtrace::force_capture() };
            CAPTURED.set(Some(seen));
        }));
    });
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic whose payload is not text")
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    #[test]
    fn a_panic_is_seen_with_its_place_and_counted() {
        let panics = Panics::new();
        assert_eq!(panics.guard(&|| "one".to_owned(), || 1), Some(1));
        let broken = || -> u8 { panic!("number {}", 2) };
        DEPTH.set(1);
        assert!(catch_unwind(broken).is_err());
        DEPTH.set(0);
        let seen = CAPTURED.take().map(|it| (it.what, it.backtrace.to_string())).unwrap_or_default();
        assert!(seen.0.contains("panics.rs") && seen.0.contains("number 2"), "{}", seen.0);
        assert!(seen.1.contains("panics"), "the backtrace names this module: {}", seen.1);
        assert_eq!(panics.guard(&|| "two".to_owned(), broken), None);
        assert_eq!(panics.count(), 1);
    }

    #[tokio::test]
    async fn a_body_that_panics_ends() {
        let panics = Panics::new();
        let broken = futures::stream::iter(0..3).map(|number| {
            assert!(number < 2, "the third piece is broken");
            Bytes::from(vec![number])
        });
        let pieces: Vec<Bytes> = panics.guard_stream("watch".to_owned(), broken).collect().await;
        assert_eq!(pieces, [Bytes::from(vec![0]), Bytes::from(vec![1])]);
        assert_eq!(panics.count(), 1);
    }
}

//! The timer of a connection that bounds how long the head of a request may take.
//!
//! Such a bound is set for every request and almost never met. A timer of its own for each would be entered into the
//! runtime's wheel and taken out again for nothing; here a connection has one that is moved only when it goes off.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;

/// The one timer of a connection, made when it is first needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patience(Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>);

/// A time to wait for, on the connection's timer.
struct Bound {
    until: tokio::time::Instant,
    patience: Patience,
}

impl Timer for Patience {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.bound(tokio::time::Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.bound(deadline.into())
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Patience {
    fn bound(&self, until: tokio::time::Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Bound { until, patience: self.clone() })
    }
}

impl Sleep for Bound {}

impl Future for Bound {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut timer = self.patience.0.lock();
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(self.until)));
        // It goes off no later than the bound: it was set for this one or for one before.
        if timer.deadline() > self.until {
            timer.as_mut().reset(self.until);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= self.until {
                return Poll::Ready(());
            }
            timer.as_mut().reset(self.until);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn waited(bound: Pin<Box<dyn Sleep>>) -> Duration {
        let start = tokio::time::Instant::now();
        bound.await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn each_bound_is_met_and_none_before_its_time() {
        let patience = Patience::default();
        let second = Duration::from_secs(1);
        assert_eq!(waited(patience.sleep(second)).await, second);
        // A bound that is given up leaves the timer where it is, before the next one.
        let given_up = patience.sleep(second);
        assert!(tokio::time::timeout(second / 2, given_up).await.is_err());
        assert_eq!(waited(patience.sleep(second)).await, second);
        assert!(tokio::time::timeout(second / 2, patience.sleep(10 * second)).await.is_err());
        assert_eq!(waited(patience.sleep(second)).await, second, "also one before the timer's time");
    }
}

//! What a manager runs, and what each part waits for.

use std::future::Future;
use std::sync::Arc;

use evenkeel_env::Work;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::Object;
use crate::controller::{self, Controller, Host};
use crate::error::BoxError;

/// Something a manager runs.
pub(super) struct Part {
    pub(super) name: Arc<str>,
    pub(super) when: When,
    /// Controllers have names of their own: metrics, logs and field managers tell them apart by these.
    pub(super) is_controller: bool,
    /// It gets the host, what tells it to stop, and what it holds until it has begun.
    pub(super) run: Box<dyn FnOnce(Host, CancellationToken, Start) -> Running + Send>,
}

/// What a part holds until it has begun.
pub(super) struct Start {
    /// The start is pending work.
    pub(super) work: Work,
    /// Those wait who begin after it.
    #[expect(dead_code, reason = "it is held, and never read")]
    pub(super) before: Option<Arc<Before>>,
}

/// Cancels its token once nobody holds it any more.
pub(super) struct Before(pub(super) CancellationToken);

impl Drop for Before {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

pub(super) type Running = BoxFuture<'static, Result<(), BoxError>>;

/// What a part waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    AtOnce,
    /// The caches that somebody held when the manager started.
    Filled,
    /// That, those who wait for it, and the lease where there is one. Controllers fill their own caches meanwhile.
    Leading,
}

impl Part {
    pub(super) fn controller<K: Object>(controller: Controller<K>) -> Self {
        let name: Arc<str> = controller.name().into();
        let run = move |host: Host, _: CancellationToken, start: Start| -> Running {
            Box::pin(controller::run(controller, host, start.work))
        };
        Self { name, when: When::Leading, is_controller: true, run: Box::new(run) }
    }

    pub(super) fn runnable<F, Fut, E>(name: &str, when: When, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let run = move |host: Host, stop: CancellationToken, start: Start| -> Running {
            Box::pin(async move {
                let mut start = Some(start);
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return Ok(()),
                    () = when.wait(&host, &mut start) => {}
                }
                after_first_poll(run(stop), start).await.map_err(Into::into)
            })
        };
        Self { name: name.into(), when, is_controller: false, run: Box::new(run) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl When {
    /// Waits for it. Who waits to be elected may wait for ever: that is no pending work, and `start` is let go.
    async fn wait(self, host: &Host, start: &mut Option<Start>) {
        match self {
            Self::AtOnce => {}
            Self::Filled => host.filled.cancelled().await,
            Self::Leading => {
                host.begun.cancelled().await;
                if !host.elected.is_cancelled() {
                    *start = None;
                    host.elected.cancelled().await;
                }
            }
        }
    }
}

/// Lets go of `start` once `running` was polled: by then it holds work of its own, or waits for others.
async fn after_first_poll<T>(running: impl Future<Output = T>, mut start: Option<Start>) -> T {
    let mut running = std::pin::pin!(running);
    std::future::poll_fn(move |cx| {
        let polled = running.as_mut().poll(cx);
        drop(start.take());
        polled
    })
    .await
}

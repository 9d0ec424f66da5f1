//! The parts that a manager runs, and what each of them waits for.

use std::future::Future;
use std::sync::Arc;

use evenkeel_env::Work;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::Object;
use crate::controller::{self, Controller, Host};
use crate::error::BoxError;
use crate::resource_use::WakeOn;

/// A controller or a runnable of a manager.
pub(super) struct Part {
    pub(super) name: Arc<str>,
    pub(super) when: When,
    /// Whether this is a controller. The names of controllers must be unique: metrics, logs and field managers tell
    /// controllers apart by name.
    pub(super) is_controller: bool,
    /// What wakes the part, if the manager knows which resources are in use.
    pub(super) wake_on: WakeOn,
    /// Runs the part. The arguments are the host, the token that tells it to stop, and what it holds until it has started.
    pub(super) run: Box<dyn FnOnce(Host, CancellationToken, Start) -> Running + Send>,
}

/// Held by a part until it has started.
pub(super) struct Start {
    /// The start as pending work in the ledger.
    pub(super) work: Work,
    /// Keeps later parts waiting until this part has started.
    #[expect(dead_code, reason = "it is held, and never read")]
    pub(super) before: Option<Arc<Before>>,
}

/// Cancels its token when the last clone is dropped.
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
    /// Waits for the caches that were in use when the manager started.
    Filled,
    /// Waits for those caches, for the parts that wait only for them, and for the lease, if there is a leader election.
    /// Controllers fill their own caches meanwhile.
    Leading,
}

impl Part {
    pub(super) fn controller<K: Object>(controller: Controller<K>) -> Self {
        let (name, wake_on): (Arc<str>, _) = (controller.name().into(), controller.wake_on());
        let run = move |host: Host, _: CancellationToken, start: Start| -> Running {
            Box::pin(controller::run(controller, host, start.work))
        };
        Self { name, when: When::Leading, is_controller: true, wake_on, run: Box::new(run) }
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
                let standing_by = (when == When::Leading).then(|| host.standby.subscribe());
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return Ok(()),
                    () = when.wait(&host, &mut start) => {}
                }
                after_first_poll(run(stop), (start, standing_by)).await.map_err(Into::into)
            })
        };
        Self { name: name.into(), when, is_controller: false, wake_on: WakeOn::Start, run: Box::new(run) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl When {
    /// Waits until the part may start. Waiting for the lease may take for ever and is not pending work: `start` is dropped
    /// before.
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

/// Drops `held` after the first poll of `running`. By then the part holds pending work of its own, or waits for
/// something.
async fn after_first_poll<T>(running: impl Future<Output = T>, held: impl Sized) -> T {
    let (mut running, mut held) = (std::pin::pin!(running), Some(held));
    std::future::poll_fn(move |cx| {
        let polled = running.as_mut().poll(cx);
        drop(held.take());
        polled
    })
    .await
}

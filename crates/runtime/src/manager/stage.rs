//! Parts of a manager that run together and stop together.

use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::ManagerError;
use super::part::{Part, Start, When};
use crate::controller::Host;
use crate::error::BoxError;
use crate::resource_use::{Waking, Woken};
use crate::tasks::Tasks;

type Ended = (Arc<str>, Result<Result<(), BoxError>, JoinError>);

/// All running parts of a manager, in the order in which they stop. Controllers stop first, while everything that they
/// use still runs; the endpoints stop last, so that a manager that stops slowly does not fail its probes.
pub(super) struct Stages {
    /// Controllers, and runnables that run while leading.
    pub(super) working: Stage,
    /// Runnables that run always.
    pub(super) beside: Stage,
    /// The task that sends events.
    pub(super) events: Stage,
    /// Servers of the user.
    pub(super) servers: Stage,
    /// The endpoints of health and metrics.
    pub(super) serving: Stage,
}

impl Stages {
    pub(super) fn new() -> Self {
        let [working, beside, events, servers, serving] = std::array::from_fn(|_| Stage::new());
        Self { working, beside, events, servers, serving }
    }

    /// Starts a part in its stage.
    pub(super) fn start(&mut self, tasks: &Tasks, part: Part, host: &Host, start: Start) {
        let stage = match part.when {
            When::AtOnce => &mut self.servers,
            When::Filled => &mut self.beside,
            When::Leading => &mut self.working,
        };
        let (host, stop) = (host.clone(), stage.stop.clone());
        let running = match sleep(&part, &host) {
            None => (part.run)(host, stop, start),
            Some(waking) => Box::pin(async move {
                // A sleeping part is not pending work.
                drop(start);
                tokio::select! {
                    biased;
                    () = stop.cancelled() => Ok(()),
                    Ok(Woken { work, .. }) = waking => (part.run)(host, stop, Start { work, before: None }).await,
                }
            }),
        };
        stage.start(tasks, part.name, running);
    }

    /// Waits for the first part that fails.
    pub(super) async fn failed(&mut self) -> ManagerError {
        tokio::select! {
            biased;
            error = self.working.failed() => error,
            error = self.beside.failed() => error,
            error = self.events.failed() => error,
            error = self.servers.failed() => error,
            error = self.serving.failed() => error,
        }
    }

    /// Stops the stages one after another.
    pub(super) async fn end(&mut self) {
        self.working.end().await;
        self.beside.end().await;
        self.events.end().await;
        self.servers.end().await;
        self.serving.end().await;
    }
}

/// Lets a part sleep until a resource is used that concerns it. Returns `None` if the part must start now.
fn sleep(part: &Part, host: &Host) -> Option<Waking> {
    let uses = host.informers.uses()?;
    uses.sleep_of_controller(&part.wake_on, host.informers.asleep())
}

/// Parts of a manager that are told to stop at the same time.
pub(super) struct Stage {
    /// Tells its parts to stop.
    pub(super) stop: CancellationToken,
    running: FuturesUnordered<BoxFuture<'static, Ended>>,
}

impl Stage {
    fn new() -> Self {
        Self { stop: CancellationToken::new(), running: FuturesUnordered::new() }
    }

    pub(super) fn start(
        &mut self,
        tasks: &Tasks,
        name: Arc<str>,
        part: impl Future<Output = Result<(), BoxError>> + Send + 'static,
    ) {
        let handle = tasks.spawn_named(&name, part);
        self.running.push(Box::pin(async move { (name, handle.await) }));
    }

    /// Waits for the first part that fails; for ever if none does.
    async fn failed(&mut self) -> ManagerError {
        while let Some(ended) = self.running.next().await {
            if let Some(error) = failure(ended) {
                return error;
            }
        }
        std::future::pending().await
    }

    /// Tells the parts to stop, and waits until they have.
    async fn end(&mut self) {
        self.stop.cancel();
        while let Some((part, ended)) = self.running.next().await {
            if let Some(error) = failure((part, ended)) {
                tracing::warn!(%error, "a part failed while it stopped");
            }
        }
    }
}

fn failure((part, ended): Ended) -> Option<ManagerError> {
    let source: BoxError = match ended {
        Ok(Ok(())) => return None,
        Ok(Err(error)) => error,
        Err(error) => error.into(),
    };
    Some(ManagerError { part: part.to_string(), source })
}

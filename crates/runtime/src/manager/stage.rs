//! What runs together and stops together.

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
use crate::tasks::Tasks;

type Ended = (Arc<str>, Result<Result<(), BoxError>, JoinError>);

/// All that a manager runs, in the order in which it stops: first who works, so that what it works with is still
/// there; last the endpoints, so that a manager that takes its time to stop is not killed as dead.
pub(super) struct Stages {
    /// Controllers, and runnables that run while leading.
    pub(super) working: Stage,
    /// Runnables that run always.
    pub(super) beside: Stage,
    /// The sending of events.
    pub(super) events: Stage,
    /// Servers.
    pub(super) servers: Stage,
    /// Health and metrics.
    pub(super) serving: Stage,
}

impl Stages {
    pub(super) fn new() -> Self {
        let [working, beside, events, servers, serving] = std::array::from_fn(|_| Stage::new());
        Self { working, beside, events, servers, serving }
    }

    /// Starts a part, to be stopped with its like.
    pub(super) fn start(&mut self, tasks: &Tasks, part: Part, host: &Host, start: Start) {
        let stage = match part.when {
            When::AtOnce => &mut self.servers,
            When::Filled => &mut self.beside,
            When::Leading => &mut self.working,
        };
        let running = (part.run)(host.clone(), stage.stop.clone(), start);
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

    /// Stops one after the other.
    pub(super) async fn end(&mut self) {
        self.working.end().await;
        self.beside.end().await;
        self.events.end().await;
        self.servers.end().await;
        self.serving.end().await;
    }
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

    /// Waits for the first part that fails; for ever, where none does.
    async fn failed(&mut self) -> ManagerError {
        while let Some(ended) = self.running.next().await {
            if let Some(error) = failure(ended) {
                return error;
            }
        }
        std::future::pending().await
    }

    /// Tells its parts to stop and waits for them.
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

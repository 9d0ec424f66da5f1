//! The life of a manager: it starts its parts, waits for a stop or the first fatal error, and ends them.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::Work;
use futures::future::FutureExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::leadership::Leadership;
use super::part::{Before, Part, Start, When};
use super::signals::Signals;
use super::stage::Stages;
use super::{Manager, ManagerError};
use crate::controller::{Host, SYNC_TIMEOUT};
use crate::error::chain;
use crate::recorder::{self, Recorder};
use crate::tasks::Tasks;

impl Manager {
    /// Runs until Ctrl-C, SIGTERM, or the first fatal error. After a second signal the manager does not wait for running
    /// work: it ends at once, with an error.
    pub fn run(self) -> impl Future<Output = Result<(), ManagerError>> + Send {
        let stop = CancellationToken::new();
        let running = self.run_until(stop.clone().cancelled_owned());
        async move {
            let mut signals = Signals::listen();
            let twice = async {
                signals.next().await;
                stop.cancel();
                signals.next().await;
            };
            tokio::select! {
                biased;
                ended = running => ended,
                () = twice => Err(failed("manager", "a second signal came before all work had ended")),
            }
        }
    }

    /// Runs until `stop` is ready, or the first fatal error. The start counts as pending work from this call on.
    pub fn run_until(
        self,
        stop: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<(), ManagerError>> + Send {
        let station = self.env.ledger().station("manager: starting");
        let starting = self.parts.iter().map(|part| station.enter_with(part.name.to_string())).collect();
        self.run_parts(stop, starting)
    }

    async fn run_parts(
        mut self,
        stop: impl Future<Output = ()> + Send,
        starting: Vec<Work>,
    ) -> Result<(), ManagerError> {
        if let Some(name) = name_of_two(&self.parts) {
            return Err(failed(name, "another controller of this manager has the same name"));
        }
        let tasks = Tasks::default();
        let _crash = tasks.abort_on_drop();
        let mut stages = Stages::new();
        let stopping = CancellationToken::new();
        self.start_webhooks(&tasks, &mut stages, stopping.clone())?;
        let (host, before) = self.host(&tasks, &mut stages);
        let Self { parts, election, unfenced, env, fence, grace_period, .. } = self;
        for (part, work) in parts.into_iter().zip(starting) {
            let before = (part.when == When::Filled).then(|| before.clone());
            stages.start(&tasks, part, &host, Start { work, before });
        }
        drop(before);
        let mut leadership = Leadership::start(election, &unfenced, &env, fence, &host);
        let failed = tokio::select! {
            biased;
            () = stop => None,
            lost = leadership.lost() => Some(lost),
            error = stages.failed() => Some(error),
        };
        if let Some(error) = &failed {
            tracing::error!(error = chain(error), "the manager ends with an error");
        }
        stopping.cancel();
        // After the lease is lost, no work may continue, not even to end gracefully.
        let grace = if leadership.is_lost() { Duration::ZERO } else { grace_period };
        if tokio::time::timeout(grace, stages.end()).await.is_err() {
            tracing::warn!(?grace, "the grace period is over: stopping without waiting for running work");
        }
        leadership.release().await;
        failed.map_or(Ok(()), Err)
    }

    /// Starts the endpoints and the sending of events. Returns what the parts run in, and the guard that keeps controllers
    /// waiting.
    fn host(&mut self, tasks: &Tasks, stages: &mut Stages) -> (Host, Arc<Before>) {
        self.metrics.watch_informers(&self.informers);
        // A weak reference: a record may outlive its manager, whose watches must end.
        let informers = self.informers.downgrade();
        self.flight.describe_watches(move || informers().map(|it| it.watches()).unwrap_or_default());
        self.start_serving(tasks, stages);
        let stop = stages.events.stop.clone();
        let recorder = if self.sends_events {
            let (recorder, recording) = recorder::channel(self.client.clone(), self.env.clone(), stop);
            stages.events.start(tasks, "events".into(), recording.map(Ok));
            recorder
        } else {
            Recorder::silent(&self.env)
        };
        let [filled, begun, elected] = std::array::from_fn(|_| CancellationToken::new());
        let before = Arc::new(Before(begun.clone()));
        self.wait_for_caches(tasks, stages, filled.clone(), before.clone());
        if self.election.is_none() {
            elected.cancel();
        }
        let host = Host {
            informers: self.informers.clone(),
            client: self.client.clone(),
            recorder,
            metrics: self.metrics.clone(),
            flight: self.flight.clone(),
            observers: self.observers.clone(),
            tasks: tasks.clone(),
            stop: stages.working.stop.clone(),
            filled,
            begun,
            elected,
            standby: watch::Sender::new(()),
            later_looks_are_work: self.later_looks_are_work,
        };
        (host, before)
    }

    /// Cancels `filled` once the caches that are in use now are filled.
    fn wait_for_caches(
        &self,
        tasks: &Tasks,
        stages: &mut Stages,
        filled: CancellationToken,
        before: Arc<Before>,
    ) {
        let informers = self.informers.clone();
        if informers.is_synced() {
            return filled.cancel();
        }
        stages.beside.start(tasks, "caches".into(), async move {
            informers.wait_synced(SYNC_TIMEOUT).await?;
            filled.cancel();
            drop(before);
            Ok(())
        });
    }
}

/// The name of two controllers, if two share one.
fn name_of_two(parts: &[Part]) -> Option<&str> {
    let mut names = BTreeSet::new();
    parts.iter().filter(|part| part.is_controller).map(Part::name).find(|name| !names.insert(*name))
}

fn failed(part: &str, why: &str) -> ManagerError {
    ManagerError { part: part.to_owned(), source: why.into() }
}

//! Services outside the cluster that an operator calls: a database, a cloud, a registry. Their fakes take part in the
//! test, so that the operator can crash before and after a call, and responses can get lost.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use evenkeel_env::{Footprint, Work};
use http::Method;

use crate::cluster::{Cluster, ClusterInner, second_replica};
use crate::transport::{CrashMoment, Directed, Fault, OperatorProcess, Outcome, OutgoingRequest, Verdict};

/// The prefix of the paths under which calls are recorded.
const PATH: &str = "/outside";

/// A service outside the cluster that one operator calls, made by [`Cluster::outside`]. Cloning is cheap.
#[derive(Clone)]
pub struct Outside {
    cluster: Weak<ClusterInner>,
    operator: Arc<str>,
    name: Arc<str>,
}

/// A call to a service outside the cluster got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("call {what}: {why} (injected)")]
#[non_exhaustive]
pub struct OutsideError {
    /// The name of the call.
    pub what: String,
    /// Why the call failed.
    pub why: &'static str,
}

impl Cluster {
    /// Makes a handle for the fake of a service outside the cluster, which the operator with this name calls.
    ///
    /// Wrap each method of the fake in [`Outside::call`] or [`Outside::ask`]. The call then counts as pending work,
    /// appears in the timeline, and can fail like a request to the API server: exploration crashes the operator before
    /// and after it, makes it fail, and loses its answer.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use evenkeel_cluster::{Outside, OutsideError};
    /// use parking_lot::Mutex;
    ///
    /// /// The buckets of a cloud, as the test sees them. Clones share them, so that they survive a crash of the operator.
    /// #[derive(Clone)]
    /// struct Cloud {
    ///     handle: Outside,
    ///     buckets: Arc<Mutex<Vec<String>>>,
    /// }
    ///
    /// impl Cloud {
    ///     async fn create(&self, name: &str) -> Result<(), OutsideError> {
    ///         self.handle.call("create bucket", async { self.buckets.lock().push(name.to_owned()) }).await
    ///     }
    /// }
    ///
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// let cloud = Cloud { handle: cluster.outside("my-operator", "cloud"), buckets: Arc::default() };
    /// let buckets = cloud.buckets.clone();
    /// cloud.handle.shows(move || buckets.lock().clone().into());   // exploration compares the buckets at each rest
    /// cloud.create("a").await.unwrap();
    /// # });
    /// ```
    pub fn outside(&self, operator: &str, name: &str) -> Outside {
        Outside { cluster: Arc::downgrade(&self.inner), operator: operator.into(), name: name.into() }
    }
}

impl Outside {
    /// Sets the function that returns the state of the service. Exploration compares that state at each rest, like
    /// objects.
    pub fn shows(&self, state: impl Fn() -> serde_json::Value + Send + Sync + 'static) {
        if let Some(cluster) = self.cluster.upgrade() {
            cluster.outside.lock().insert(self.name.to_string(), Arc::new(state));
        }
    }

    /// Makes a call that changes the state of the service.
    ///
    /// # Errors
    /// Fails if the test makes the call fail. The call may have taken effect: possibly only its answer was lost.
    pub async fn call<T>(&self, what: &str, effect: impl Future<Output = T>) -> Result<T, OutsideError> {
        self.carry(Method::POST, what, effect).await
    }

    /// Makes a call that only reads the state of the service.
    ///
    /// # Errors
    /// Fails if the test makes the call fail.
    pub async fn ask<T>(&self, what: &str, look: impl Future<Output = T>) -> Result<T, OutsideError> {
        self.carry(Method::GET, what, look).await
    }

    /// Returns the replica of the operator that makes the call, and its process: the first one that is alive. Only one
    /// replica leads.
    fn caller(&self, cluster: &ClusterInner) -> (Arc<str>, Option<Arc<OperatorProcess>>) {
        let operators = cluster.operators.lock();
        let names = [self.operator.clone(), second_replica(&self.operator).into()];
        let processes = names.map(|name| (operators.get(&*name).map(|operator| operator.process()), name));
        let [(first, name), (second, second_name)] = processes;
        match (&first, &second) {
            (Some(process), Some(_)) if !process.is_alive() => (second_name, second),
            _ => (name, first),
        }
    }

    async fn carry<T>(
        &self,
        method: Method,
        what: &str,
        effect: impl Future<Output = T>,
    ) -> Result<T, OutsideError> {
        // After the cluster has ended, nothing disturbs the call.
        let Some(cluster) = self.cluster.upgrade() else { return Ok(effect.await) };
        let wire = cluster.wire.clone();
        let (by, process) = self.caller(&cluster);
        drop(cluster);
        let path = format!("{PATH}/{}/{}", self.name, what.replace(' ', "-"));
        let work = wire.requests.enter_with(format!("{by} calls {path}"));
        if process.as_ref().is_some_and(|process| !process.is_alive()) {
            // A task that outlives its process waits for ever, and nobody waits for it.
            drop(work);
            return std::future::pending().await;
        }
        let directed =
            Directed { by: &by, is_operator: process.is_some(), method: &method, verb: "call", path: &path };
        let verdict =
            wire.direction.director().map_or(Verdict::Serve, |director| director.request(&directed));
        let number = wire.records.then(|| {
            let body = Bytes::new();
            let (by, method, path) = (&by, &method, &*path);
            wire.recorder.asked(OutgoingRequest { by, verb: "call", method, path, body: &body })
        });
        let note = |outcome| {
            if let Some(number) = number {
                wire.recorder.answered(number, outcome);
            }
        };
        let failed = |why| OutsideError { what: what.to_owned(), why };
        match verdict {
            Verdict::Crash(CrashMoment::Before) if process.is_some() => return crash(process, work).await,
            Verdict::Fail(Fault::LostAnswer) => {
                effect.await;
                note_effect(&method);
                note(Outcome::Lost { wrote: None, fault: "answer lost (injected)".into() });
                return Err(failed("the answer was lost"));
            }
            Verdict::Fail(_) => {
                note(Outcome::Lost { wrote: None, fault: "timed out (injected)".into() });
                tokio::time::sleep(Fault::TIMEOUT).await;
                return Err(failed("the call timed out and was never made"));
            }
            Verdict::DelayRequest => wire.wait(Verdict::LATE).await,
            _ => {}
        }
        let answer = effect.await;
        note_effect(&method);
        note(Outcome::Answered { status: 200, wrote: None, fault: None });
        match verdict {
            Verdict::Crash(CrashMoment::Unanswered) if process.is_some() => {
                return crash(process, work).await;
            }
            Verdict::Crash(CrashMoment::After) => process.iter().for_each(|it| wire.crash_soon(it)),
            Verdict::DelayAnswer => wire.wait(Verdict::LATE).await,
            Verdict::SlowAnswer(time) => wire.wait(time).await,
            _ => {}
        }
        Ok(answer)
    }
}

/// A call that changes the service's state counts as a write of the reconcile that makes it.
fn note_effect(method: &Method) {
    if method != Method::GET {
        Footprint::note_write();
    }
}

/// Crashes the operator, and never returns, because a crashed process does not continue.
async fn crash<T>(process: Option<Arc<OperatorProcess>>, work: Work) -> T {
    process.iter().for_each(|it| it.die());
    drop(work);
    std::future::pending().await
}

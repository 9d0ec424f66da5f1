//! What an operator calls outside of the cluster: a database, a cloud, a registry. A fake of it takes part in the test,
//! so that the operator can crash before and after a call, and answers can be lost.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use evenkeel_env::Footprint;
use http::Method;

use crate::cluster::{Cluster, ClusterInner, second_replica};
use crate::transport::{Asked, CrashMoment, Directed, Fault, OperatorProcess, Outcome, Verdict};

/// The beginning of the paths by which calls are recorded.
const PATH: &str = "/outside";

/// Something outside of the cluster that one operator calls. Made by [`Cluster::outside`]; cloning is cheap.
#[derive(Clone)]
pub struct Outside {
    cluster: Weak<ClusterInner>,
    operator: Arc<str>,
    name: Arc<str>,
}

/// A call to something outside of the cluster got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("call {what}: {why} (injected)")]
#[non_exhaustive]
pub struct OutsideError {
    /// What was called.
    pub what: String,
    /// What happened to the call.
    pub why: &'static str,
}

impl Cluster {
    /// A door to something outside of the cluster, for the fake that stands for it in a test. The operator of this name
    /// calls it.
    ///
    /// Wrap each method of the fake in [`Outside::call`] or [`Outside::ask`]. The call is then pending work, is in the
    /// timeline, and can be struck as a request to the API server can: exploration crashes the operator before and after
    /// it, lets it fail, and loses its answer.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use evenkeel_cluster::{Outside, OutsideError};
    /// use parking_lot::Mutex;
    ///
    /// /// The buckets of a cloud, as the test sees them. Clones share them, so that they survive a crash of the operator.
    /// #[derive(Clone)]
    /// struct Cloud {
    ///     door: Outside,
    ///     buckets: Arc<Mutex<Vec<String>>>,
    /// }
    ///
    /// impl Cloud {
    ///     async fn create(&self, name: &str) -> Result<(), OutsideError> {
    ///         self.door.call("create bucket", async { self.buckets.lock().push(name.to_owned()) }).await
    ///     }
    /// }
    ///
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// let cloud = Cloud { door: cluster.outside("my-operator", "cloud"), buckets: Arc::default() };
    /// let buckets = cloud.buckets.clone();
    /// cloud.door.shows(move || buckets.lock().clone().into());   // exploration compares the buckets at each rest
    /// cloud.create("a").await.unwrap();
    /// # });
    /// ```
    pub fn outside(&self, operator: &str, name: &str) -> Outside {
        Outside { cluster: Arc::downgrade(&self.inner), operator: operator.into(), name: name.into() }
    }
}

impl Outside {
    /// Shows the state of what is outside, which exploration compares at each rest as it compares objects.
    pub fn shows(&self, state: impl Fn() -> serde_json::Value + Send + Sync + 'static) {
        if let Some(cluster) = self.cluster.upgrade() {
            cluster.outside.lock().insert(self.name.to_string(), Arc::new(state));
        }
    }

    /// Makes a call that changes something outside.
    ///
    /// # Errors
    /// Fails if the test lets the call fail. The effect may have happened: the answer may be what was lost.
    pub async fn call<T>(&self, what: &str, effect: impl Future<Output = T>) -> Result<T, OutsideError> {
        self.carry(Method::POST, what, effect).await
    }

    /// Makes a call that changes nothing outside.
    ///
    /// # Errors
    /// Fails if the test lets the call fail.
    pub async fn ask<T>(&self, what: &str, look: impl Future<Output = T>) -> Result<T, OutsideError> {
        self.carry(Method::GET, what, look).await
    }

    /// The replica of the operator that calls, and its process: the first one that is alive. Only one of them leads.
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
        // A cluster that is gone disturbs nothing.
        let Some(cluster) = self.cluster.upgrade() else { return Ok(effect.await) };
        let wire = cluster.wire.clone();
        let (by, process) = self.caller(&cluster);
        drop(cluster);
        let path = format!("{PATH}/{}/{}", self.name, what.replace(' ', "-"));
        let _work = wire.requests.enter_with(format!("{by} calls {path}"));
        if process.as_ref().is_some_and(|process| !process.is_alive()) {
            std::future::pending::<()>().await;
        }
        let directed =
            Directed { by: &by, is_operator: process.is_some(), method: &method, verb: "call", path: &path };
        let verdict =
            wire.direction.director().map_or(Verdict::Serve, |director| director.request(&directed));
        let number = wire.records.then(|| {
            let body = Bytes::new();
            let (by, method, path) = (&by, &method, &*path);
            wire.recorder.asked(Asked { by, verb: "call", method, path, body: &body })
        });
        let note = |outcome| {
            if let Some(number) = number {
                wire.recorder.answered(number, outcome);
            }
        };
        let failed = |why| OutsideError { what: what.to_owned(), why };
        match verdict {
            Verdict::Crash(CrashMoment::Before) => crash(process.as_deref()).await,
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
            Verdict::DelayRequest => wire.let_all_else_happen().await,
            _ => {}
        }
        let answer = effect.await;
        note_effect(&method);
        note(Outcome::Answered { status: 200, wrote: None, fault: None });
        match verdict {
            Verdict::Crash(CrashMoment::Unanswered) => crash(process.as_deref()).await,
            Verdict::Crash(CrashMoment::After) => process.iter().for_each(|it| wire.crash_soon(it)),
            Verdict::DelayAnswer => wire.let_all_else_happen().await,
            _ => {}
        }
        Ok(answer)
    }
}

/// A call that changes something outside counts as a write of the reconcile that makes it.
fn note_effect(method: &Method) {
    if method != Method::GET {
        Footprint::note_write();
    }
}

/// Ends the process of the operator. A crashed process waits for nothing.
async fn crash(process: Option<&OperatorProcess>) {
    if let Some(process) = process {
        process.die();
        std::future::pending::<()>().await;
    }
}

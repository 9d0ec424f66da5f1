//! What exploration needs from a cluster: a director, stopped operators, held watches, and all changes of the store.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_runtime::Manager;
use evenkeel_store::Range;
use jiff::SignedDuration;

use crate::cluster::Cluster;
use crate::operator::{CONTROLLERS, Operator};
use crate::transport::{Director, Matcher, Moment};

/// An object as stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredObject {
    /// The key: `/registry/GROUP/PLURAL/[NAMESPACE/]NAME`.
    pub key: Arc<str>,
    /// The uid.
    pub uid: String,
    /// The revision at which the object was last written.
    pub revision: u64,
    /// The object as JSON, without its resource version.
    pub json: Bytes,
}

/// One change of one object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredChange {
    /// The revision of the change.
    pub revision: u64,
    /// The object before, if there was one.
    pub before: Option<StoredObject>,
    /// The object after the change, or `None` if it was removed.
    pub after: Option<StoredObject>,
}

impl StoredChange {
    /// The key of the object.
    pub fn key(&self) -> &str {
        self.after.as_ref().or(self.before.as_ref()).map_or("", |object| &object.key)
    }
}

impl Cluster {
    /// Sets the director of this cluster, which decides what happens to each request, or removes it. While a director
    /// is set, an operator whose manager ends with an error starts again after ten seconds, like a pod of a Deployment.
    pub fn direct(&self, director: Option<Arc<dyn Director>>) {
        self.inner.wire.direction.set(director);
    }

    /// The names of the running operators, without the built-in controllers.
    pub fn operators(&self) -> Vec<String> {
        let operators = self.inner.operators.lock();
        operators.keys().filter(|name| *name != CONTROLLERS).cloned().collect()
    }

    /// Whether an operator with this name runs. The built-in controllers are named `kube-controller-manager`.
    pub fn is_running(&self, name: &str) -> bool {
        self.inner.operators.lock().contains_key(name)
    }

    /// Runs the operator with this name as two replicas when it is started next. The second one is named `NAME/2`.
    /// `adapt` is called for the manager of each replica, and must add a leader election if the operator has none of
    /// its own.
    pub fn replicate(&self, name: &str, adapt: impl Fn(Manager) -> Manager + Send + Sync + 'static) {
        self.inner.replicated.lock().insert(name.to_owned(), Arc::new(adapt));
    }

    /// Crashes an operator and keeps it stopped until [`Cluster::resume`].
    ///
    /// # Panics
    /// Panics if no operator of this name runs.
    #[track_caller]
    pub fn suspend(&self, name: &str) {
        self.keep_away(name);
        self.restart(name);
    }

    /// Keeps an operator stopped after its next crash, until [`Cluster::resume`].
    ///
    /// # Panics
    /// Panics if no operator of this name runs.
    #[track_caller]
    pub fn keep_away(&self, name: &str) {
        self.with_operator(name, Operator::hold_back);
    }

    /// Starts an operator that was kept stopped.
    ///
    /// # Panics
    /// Panics if no operator of this name runs.
    #[track_caller]
    pub fn resume(&self, name: &str) {
        self.inner.wire.recorder.disturbed(format!("lets {name} start again"));
        self.with_operator(name, Operator::let_start);
    }

    /// Moves the wall clock of the machine that an operator runs on forward or back, as a time server does. The clock keeps
    /// this when the operator starts again. Other operators and the API server have clocks of their own.
    ///
    /// # Panics
    /// Panics if no operator of this name runs.
    #[track_caller]
    pub fn shift_clock_of(&self, name: &str, by: SignedDuration) {
        self.inner.wire.recorder.disturbed(format!("moves the clock of {name} by {by:#}"));
        self.with_operator(name, |operator| operator.env().shift_clock(by));
    }

    /// Holds the events of the open watches that match until [`Cluster::release_watches`], as if the API server lagged
    /// behind. Watches that are resumed are held too; watches that begin with a new list are not. Returns how many open
    /// watches are held.
    pub fn hold_watches(&self, matcher: Matcher) -> usize {
        let text = format!("holds watches: {matcher}");
        let held = self.inner.wire.held.hold(matcher);
        self.inner.wire.recorder.disturbed(text);
        held
    }

    /// Delivers the events of all held watches.
    pub fn release_watches(&self) {
        self.inner.wire.held.release(&self.inner.station);
    }

    /// Records in the timeline that the cluster was disturbed on purpose.
    pub fn note_disturbance(&self, what: impl Into<String>) {
        self.inner.wire.recorder.disturbed(what);
    }

    /// Returns every request, reconcile and disturbance since the timeline began.
    pub fn moments(&self) -> Vec<Moment> {
        self.inner.wire.recorder.moments()
    }

    /// The newest revision of the store, or zero on a remote cluster.
    pub fn revision(&self) -> u64 {
        self.inner.server.as_ref().map_or(0, |server| server.store().revision())
    }

    /// Returns all stored objects, ordered by key, followed by the states of services outside the cluster
    /// ([`Outside::shows`](crate::Outside::shows)). On a remote cluster there are no objects.
    pub fn stored_objects(&self) -> Vec<StoredObject> {
        let page = self.inner.server.as_ref().map(|server| server.store().range(&Range::default()));
        let page = page.into_iter().flatten().flat_map(|page| page.entries);
        page.map(|entry| stored(&entry)).chain(self.outside_states()).collect()
    }

    fn outside_states(&self) -> Vec<StoredObject> {
        let states = self.inner.outside.lock().clone();
        let shown = states.into_iter().map(|(name, state)| StoredObject {
            key: format!("/registry/outside/states/{}/{name}", self.namespace()).into(),
            uid: String::new(),
            revision: 0,
            json: Bytes::from(serde_json::json!({ "state": state() }).to_string()),
        });
        shown.collect()
    }

    /// Returns every change of the store after a revision, oldest first. Returns `None` if the store no longer has all
    /// of them, or if the cluster is remote.
    pub fn changes_after(&self, revision: u64) -> Option<Vec<StoredChange>> {
        let mut watch = self.inner.server.as_ref()?.store().watch("", revision).ok()?;
        let mut changes = Vec::new();
        while let Some(change) = watch.try_next() {
            let change = change.ok()?;
            changes.push(StoredChange {
                revision: change.revision,
                before: change.before.as_ref().map(|entry| stored(entry)),
                after: change.after.as_ref().map(|entry| stored(entry)),
            });
        }
        Some(changes)
    }
}

fn stored(entry: &evenkeel_store::Entry<evenkeel_apiserver::Header>) -> StoredObject {
    let (key, json) = (entry.key.clone(), entry.value.clone());
    StoredObject { key, uid: entry.header.uid.to_string(), revision: entry.revision, json }
}

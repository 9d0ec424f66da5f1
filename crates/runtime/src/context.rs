//! What a reconcile works with: its key and causes, cached and live reads, writes that carry the owner and the field
//! manager, status, events.
//!
//! Reads without `fetch` in their name come from the caches that the controller declared; reading a kind it did not
//! declare is an error, not a hidden watch. Writes are remembered: the key is not reconciled again from a cache that
//! is older than they are.

mod applied;
mod objects;
mod read;
mod scope;
mod status;
mod write;

pub use objects::Objects;
pub(crate) use read::CATCH_UP_MAX;
pub(crate) use scope::{ControllerScope, Ids};
pub use write::Ensured;

use std::fmt;
use std::sync::{Arc, LazyLock};

use evenkeel_env::Env;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::cause::Causes;
use crate::object::AsObject;
use crate::own_writes::Writes;
use crate::owner::Owner;
use crate::queue::Item;
use crate::recorder::{EventType, Recorder};
use crate::{Object, Request};

/// What a reconcile works with. `S` is the operator's own state. Cloning is cheap.
///
/// ```no_run
/// use std::sync::Arc;
/// use evenkeel_runtime::{Action, Ctx, Result};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// struct Settings { prefix: String }
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx<Settings>) -> Result<Action> {
///     let mut secret = Secret::default();
///     secret.metadata.name = Some(format!("{}-secret", ctx.state().prefix));
///     ctx.apply(secret).await?;             // in the namespace of `map`, controlled by it
///     Ok(Action::await_change())
/// }
/// ```
pub struct Ctx<S = ()> {
    pub(crate) inner: Arc<Inner>,
    state: Arc<S>,
}

/// What all clones of one reconcile's context share.
pub(crate) struct Inner {
    pub(crate) scope: Arc<ControllerScope>,
    request: Request,
    causes: Causes,
    /// A number of its own, which [`ControllerScope::reconcile_id`] makes an id of when somebody asks.
    number: u64,
    attempt: u32,
    /// Whether the caches are known to be older than this key's own last writes.
    behind: bool,
    owner: LazyOwner,
    /// Shared with contexts made from this one, so that no write is forgotten.
    writes: Arc<Mutex<Writes>>,
}

/// The owner of what a context writes, made of the object when the first write asks for it.
type LazyOwner = LazyLock<Option<Owner>, Box<dyn FnOnce() -> Option<Owner> + Send>>;

fn nobody() -> LazyOwner {
    LazyLock::new(Box::new(|| None))
}

impl Ctx<()> {
    pub(crate) fn new(scope: Arc<ControllerScope>, item: &Item, behind: bool) -> Self {
        let inner = Inner {
            request: item.key.clone(),
            causes: item.causes.clone(),
            number: scope.next_number(),
            attempt: item.requeues,
            behind,
            owner: nobody(),
            writes: Arc::default(),
            scope,
        };
        let state = inner.scope.no_state.clone();
        Self { inner: Arc::new(inner), state }
    }

    /// What this reconcile will have written when it has ended.
    pub(crate) fn writes(&self) -> Arc<Mutex<Writes>> {
        self.inner.writes.clone()
    }

    pub(crate) fn with_state<S>(self, state: Arc<S>) -> Ctx<S> {
        Ctx { inner: self.inner, state }
    }
}

impl<S> Ctx<S> {
    /// The operator's own state.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Which object this reconcile is for.
    pub fn request(&self) -> &Request {
        &self.inner.request
    }

    /// Why this reconcile runs.
    pub fn causes(&self) -> &Causes {
        &self.inner.causes
    }

    /// A unique id of this reconcile, the one in the log.
    pub fn reconcile_id(&self) -> String {
        self.inner.scope.reconcile_id(self.inner.number)
    }

    /// How many attempts in a row failed or asked for a requeue before this one.
    pub fn attempt(&self) -> u32 {
        self.inner.attempt
    }

    /// Whether the caches did not show this key's own last writes within the bound: what matters should be read
    /// with `fetch` then. The object that a reconcile is given was.
    pub fn is_behind(&self) -> bool {
        self.inner.behind
    }

    /// The name of the controller.
    pub fn controller(&self) -> &str {
        &self.inner.scope.name
    }

    /// The client, for what this context does not offer. Writes through it are not remembered: a cache may be read
    /// that does not show them, unless the answer is given to [`Ctx::remember`].
    pub fn client(&self) -> &Client {
        &self.inner.scope.client
    }

    /// Remembers a write that was made through the bare client, as if it were one of this context: the key is not
    /// reconciled again from a cache older than `object`, the server's answer.
    pub fn remember<O: AsObject<M>, M>(&self, object: &O) {
        self.of::<O::Kind>().remember_object(object.as_object());
    }

    /// The environment: clock, randomness, ledger.
    pub fn env(&self) -> &Env {
        &self.inner.scope.env
    }

    /// Wall-clock time; virtual in tests.
    pub fn now(&self) -> Timestamp {
        self.inner.scope.env.now()
    }

    /// The informers of the manager, to watch something from now on.
    pub fn informers(&self) -> &crate::Informers {
        &self.inner.scope.informers
    }

    /// Cancelled when the manager stops or loses its leadership; long work should end then.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.inner.scope.cancelled
    }

    /// A context whose writes are owned by this object; the object form of a reconcile has it from the beginning.
    pub fn with_owner<O: AsObject<M>, M>(&self, owner: &O) -> Self {
        self.with_dynamic_owner(owner.as_object(), &Default::default())
    }

    /// The same for a kind that is known at run time.
    pub fn with_dynamic_owner<K: Object>(&self, owner: &K, dynamic: &K::DynamicType) -> Self {
        let owner = Owner::of(owner, dynamic);
        Self { inner: Arc::new(self.inner.with_owner(Box::new(|| owner))), state: self.state.clone() }
    }

    /// The same for a context that nobody else has yet, which is changed in place.
    pub(crate) fn owned_by<K: Object>(mut self, owner: Arc<K>, dynamic: K::DynamicType) -> Self {
        let owner = Box::new(move || Owner::of(&*owner, &dynamic));
        match Arc::get_mut(&mut self.inner) {
            Some(inner) => inner.owner = LazyLock::new(owner),
            None => self.inner = Arc::new(self.inner.with_owner(owner)),
        }
        self
    }

    /// The object that owns what this context writes.
    pub fn owner(&self) -> Option<&Owner> {
        self.inner.owner.as_ref()
    }

    /// The objects of a kind that is known at run time: the same reads and writes as this context offers for types.
    pub fn objects<K: Object>(&self, dynamic: K::DynamicType) -> Objects<'_, K> {
        Objects::new(&self.inner, dynamic)
    }

    pub(crate) fn of<K: Object<DynamicType: Default>>(&self) -> Objects<'_, K> {
        self.objects(K::DynamicType::default())
    }

    /// Records a Normal event about an object. It never waits: events are sent in the background.
    pub fn event<O: AsObject<M>, M>(&self, about: &O, reason: &str, note: impl Into<String>) {
        self.of::<O::Kind>().event(about.as_object(), reason, note);
    }

    /// Records a Warning event about an object.
    pub fn warning<O: AsObject<M>, M>(&self, about: &O, reason: &str, note: impl Into<String>) {
        self.of::<O::Kind>().warning(about.as_object(), reason, note);
    }

    /// The recorder of events.
    pub fn recorder(&self) -> &Recorder {
        &self.inner.scope.recorder
    }
}

impl<K: Object> Objects<'_, K> {
    /// Records a Normal event about an object. It never waits: events are sent in the background.
    pub fn event(&self, about: &K, reason: &str, note: impl Into<String>) {
        self.record(about, EventType::Normal, reason, note);
    }

    /// Records a Warning event about an object.
    pub fn warning(&self, about: &K, reason: &str, note: impl Into<String>) {
        self.record(about, EventType::Warning, reason, note);
    }

    fn record(&self, about: &K, event_type: EventType, reason: &str, note: impl Into<String>) {
        self.inner.scope.recorder.record_about(about.object_ref(&self.dynamic), event_type, reason, note);
    }
}

impl Inner {
    fn with_owner(&self, owner: Box<dyn FnOnce() -> Option<Owner> + Send>) -> Self {
        Self {
            scope: self.scope.clone(),
            request: self.request.clone(),
            causes: self.causes.clone(),
            number: self.number,
            attempt: self.attempt,
            behind: self.behind,
            owner: LazyLock::new(owner),
            writes: self.writes.clone(),
        }
    }
}

impl<S> Clone for Ctx<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), state: self.state.clone() }
    }
}

impl<S> fmt::Debug for Ctx<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx")
            .field("controller", &self.inner.scope.name)
            .field("request", &self.inner.request)
            .field("causes", &self.inner.causes)
            .finish_non_exhaustive()
    }
}

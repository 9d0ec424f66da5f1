//! The context of a reconcile: its key and causes, reads from caches and from the server, writes with owner and field
//! manager, status and events.
//!
//! Reads come from the caches that the controller declared, except those with `fetch` in their name, which go to the
//! server. Reading a kind that was not declared is an error, not a hidden watch. Writes are remembered: the key is not
//! reconciled again from a cache that does not show them yet.

mod applied;
mod objects;
mod read;
mod scope;
mod status;
mod unread;
mod write;

pub use objects::Objects;
pub(crate) use read::CATCH_UP_MAX;
pub(crate) use scope::{ControllerScope, Ids};
pub use write::Ensured;

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};

use evenkeel_env::Env;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::cause::Causes;
use crate::flight::Tally;
use crate::kinds::AnyKind;
use crate::object::AsObject;
use crate::owner::Owner;
use crate::queue::Item;
use crate::recorder::{EventType, Recorder};
use crate::{Object, Request};

/// The context of a reconcile: its key and causes, reads, writes, status and events. `S` is the state of the operator.
/// Cloning is cheap.
///
/// `D` is the list of the controller's kinds, made by [`kinds!`](crate::kinds!): a read or an owned write of a kind that
/// the list lacks does not compile. Without a list, as for kinds that are known only at run time, `D` is [`AnyKind`]:
/// methods of [`Controller`](crate::Controller) such as `owns` declare what the controller watches, and a read of any
/// other kind is a run-time error that names the line to add.
///
/// ```no_run
/// use std::sync::Arc;
/// use evenkeel_runtime::{Action, Ctx, Result};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// struct Settings { prefix: String }
///
/// evenkeel_runtime::kinds! {
///     struct MapKinds for ConfigMap { owns Secret }
/// }
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx<Settings, MapKinds>) -> Result<Action> {
///     let mut secret = Secret::default();
///     secret.metadata.name = Some(format!("{}-secret", ctx.state().prefix));
///     ctx.apply(secret).await?;             // in the namespace of `map`, controlled by it
///     Ok(Action::await_change())
/// }
/// ```
pub struct Ctx<S = (), D = AnyKind> {
    pub(crate) inner: Arc<Inner>,
    state: Arc<S>,
    kinds: PhantomData<fn() -> D>,
}

/// The part of a context that all its clones share.
pub(crate) struct Inner {
    pub(crate) scope: Arc<ControllerScope>,
    request: Request,
    causes: Causes,
    /// The number of the reconcile, from which [`ControllerScope::reconcile_id`] makes the id.
    number: u64,
    attempt: u32,
    /// Whether the caches do not show this key's own last writes.
    behind: bool,
    owner: LazyOwner,
    /// What this reconcile has read and written so far. Contexts derived from this one share it.
    pub(crate) tally: Arc<Mutex<Tally>>,
}

/// The owner of objects that a context writes; computed from the reconciled object by the first write.
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
            tally: Arc::new(Mutex::new(Tally::new(scope.records))),
            scope,
        };
        let state = inner.scope.no_state.clone();
        Self { inner: Arc::new(inner), state, kinds: PhantomData }
    }

    /// Returns what this reconcile has read and written, to be recorded when it has ended.
    pub(crate) fn tally(&self) -> Arc<Mutex<Tally>> {
        self.inner.tally.clone()
    }

    /// The number of this reconcile.
    pub(crate) fn number(&self) -> u64 {
        self.inner.number
    }

    pub(crate) fn with_state<S>(self, state: Arc<S>) -> Ctx<S> {
        Ctx { inner: self.inner, state, kinds: PhantomData }
    }
}

impl<S> Ctx<S> {
    pub(crate) fn with_kinds<D>(self) -> Ctx<S, D> {
        Ctx { inner: self.inner, state: self.state, kinds: PhantomData }
    }
}

impl<S, D> Ctx<S, D> {
    /// Returns this context without its list of kinds, for functions that take a `&Ctx<S>`. Their reads are checked at
    /// run time.
    pub fn any_kind(&self) -> Ctx<S> {
        Ctx { inner: self.inner.clone(), state: self.state.clone(), kinds: PhantomData }
    }

    /// The state of the operator, as given to [`Controller::state`](crate::Controller::state).
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The key of the object to reconcile.
    pub fn request(&self) -> &Request {
        &self.inner.request
    }

    /// Why this reconcile runs.
    pub fn causes(&self) -> &Causes {
        &self.inner.causes
    }

    /// The unique id of this reconcile, as in the log.
    pub fn reconcile_id(&self) -> String {
        self.inner.scope.reconcile_id(self.inner.number)
    }

    /// How many attempts in a row failed, or asked for a requeue with backoff, before this one.
    pub fn attempt(&self) -> u32 {
        self.inner.attempt
    }

    /// Whether the caches did not show this key's own last writes in time. The object that the reconcile was given is read
    /// from the server then; read other objects that matter with `fetch`.
    pub fn is_behind(&self) -> bool {
        self.inner.behind
    }

    /// The name of the controller.
    pub fn controller(&self) -> &str {
        &self.inner.scope.name
    }

    /// The client, for requests that this context does not offer. Its writes are not remembered: the next reconcile may
    /// read a cache that does not show them, unless you pass the server's answer to [`Ctx::remember`].
    pub fn client(&self) -> &Client {
        &self.inner.scope.client
    }

    /// Remembers a write through the client as if this context had made it: the key is not reconciled again from a cache
    /// that does not show `object`, the server's answer.
    pub fn remember<O: AsObject<M>, M>(&self, object: &O) {
        self.of::<O::Kind>().remember_object(object.as_object());
    }

    /// The environment: clock, randomness and ledger.
    pub fn env(&self) -> &Env {
        &self.inner.scope.env
    }

    /// The wall-clock time, which is virtual in tests.
    pub fn now(&self) -> Timestamp {
        self.inner.scope.env.now()
    }

    /// The informers of the manager, to start a watch from a reconcile.
    pub fn informers(&self) -> &crate::Informers {
        &self.inner.scope.informers
    }

    /// The token that is cancelled when the manager stops or loses its leadership. Long work should end then.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.inner.scope.cancelled
    }

    /// A context whose writes are owned by this object. A reconcile that is called with an object has such a context
    /// already.
    pub fn with_owner<O: AsObject<M>, M>(&self, owner: &O) -> Self {
        self.with_dynamic_owner(owner.as_object(), &Default::default())
    }

    /// A context whose writes are owned by an object of a kind that is known at run time.
    pub fn with_dynamic_owner<K: Object>(&self, owner: &K, dynamic: &K::DynamicType) -> Self {
        let owner = Owner::of(owner, dynamic);
        let inner = Arc::new(self.inner.with_owner(Box::new(|| owner)));
        Self { inner, state: self.state.clone(), kinds: PhantomData }
    }

    /// Sets the owner of this context's writes, in place if the context has no clones.
    pub(crate) fn owned_by<K: Object>(mut self, owner: Arc<K>, dynamic: K::DynamicType) -> Self {
        let owner = Box::new(move || Owner::of(&*owner, &dynamic));
        match Arc::get_mut(&mut self.inner) {
            Some(inner) => inner.owner = LazyLock::new(owner),
            None => self.inner = Arc::new(self.inner.with_owner(owner)),
        }
        self
    }

    /// The owner of objects that this context writes.
    pub fn owner(&self) -> Option<&Owner> {
        self.inner.owner.as_ref()
    }

    /// Reads and writes of a kind that is known at run time.
    pub fn objects<K: Object>(&self, dynamic: K::DynamicType) -> Objects<'_, K> {
        Objects::new(&self.inner, dynamic)
    }

    pub(crate) fn of<K: Object<DynamicType: Default>>(&self) -> Objects<'_, K> {
        self.objects(K::DynamicType::default())
    }

    /// Records a Normal event about an object. Events are sent in the background.
    pub fn event<O: AsObject<M>, M>(&self, about: &O, reason: &str, note: impl Into<String>) {
        self.of::<O::Kind>().event(about.as_object(), reason, note);
    }

    /// Records a Warning event about an object. Events are sent in the background.
    pub fn warning<O: AsObject<M>, M>(&self, about: &O, reason: &str, note: impl Into<String>) {
        self.of::<O::Kind>().warning(about.as_object(), reason, note);
    }

    /// The recorder of events.
    pub fn recorder(&self) -> &Recorder {
        &self.inner.scope.recorder
    }
}

impl<K: Object> Objects<'_, K> {
    /// Records a Normal event about an object. Events are sent in the background.
    pub fn event(&self, about: &K, reason: &str, note: impl Into<String>) {
        self.record(about, EventType::Normal, reason, note);
    }

    /// Records a Warning event about an object. Events are sent in the background.
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
            tally: self.tally.clone(),
        }
    }
}

impl<S, D> Clone for Ctx<S, D> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), state: self.state.clone(), kinds: PhantomData }
    }
}

impl<S, D> fmt::Debug for Ctx<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx")
            .field("controller", &self.inner.scope.name)
            .field("request", &self.inner.request)
            .field("causes", &self.inner.causes)
            .finish_non_exhaustive()
    }
}

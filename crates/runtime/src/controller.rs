//! Controllers: what to watch, what to do for each object, and with which options.

mod builder;
mod listed;
mod outcome;
mod run;
mod wiring;

pub use builder::Owned;
pub(crate) use run::{Host, run};

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use kube::core::DynamicObject;

use crate::action::Action;
use crate::context::Ctx;
use crate::declaration::{Declaration, Purpose};
use crate::error::{BoxError, ContextError};
use crate::kinds::{AnyKind, Kinds};
use crate::object::{Scoping, scoping};
use crate::queue::Backoff;
use crate::resource_use::WakeOn;
use crate::source::Source;
use crate::{Object, Predicate, Request};
use listed::Listed;
use wiring::{EventFilter, Feed, Wire};

/// A reconcile, type-erased: the object and the state are in the context.
pub(crate) type ErasedReconcile<S> =
    Arc<dyn Fn(Ctx<S>) -> BoxFuture<'static, Result<Action, BoxError>> + Send + Sync>;

/// Watches objects of kind `K` and related objects, and calls a reconcile function for each `K` that may need work.
///
/// There are three ways to make one; everything else is set by its methods.
///
/// | constructor | the reconcile function is called with |
/// |---|---|
/// | [`Controller::new`], [`Controller::new_with`] | the object |
/// | [`Controller::requests`] | the key of an object of kind `K`, also of one that was deleted |
/// | [`Controller::without_primary`] | keys that watches of other kinds and streams give |
///
/// `S` is the state that the function's [`Ctx`] carries. A controller whose function takes a `Ctx<S>` runs once
/// [`Controller::state`] gave it an `S`; a function that takes a plain `Ctx` needs none.
///
/// Name the kinds that the function uses in a list by [`kinds!`](crate::kinds!), as this example does: then the compiler
/// finds an `owns` that is missing. Without a list, [`Controller::owns`] and its like declare them, and a missing one
/// shows at run time.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_runtime::{Action, Ctx, Controller, Result};
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// evenkeel_runtime::kinds! {
///     struct ConfigKinds for ConfigMap { owns Deployment }
/// }
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx<(), ConfigKinds>) -> Result<Action> {
///     let children = ctx.children::<Deployment>()?;
///     println!("{} has {} deployments: {}", ctx.request(), children.len(), ctx.causes());
///     Ok(Action::await_change())
/// }
///
/// let controller = Controller::new("config", reconcile).max_concurrent(4);
/// ```
#[must_use = "a controller runs in a manager: `manager.controller(controller)`"]
pub struct Controller<K: Object, S = ()> {
    name: Arc<str>,
    /// The source of the objects to reconcile, or `None` for a controller without a primary kind.
    primary: Option<Source<K>>,
    primary_filter: Option<Predicate<K>>,
    watches: Vec<Wire<K>>,
    feeds: Vec<Feed>,
    event_filter: EventFilter,
    /// The secondary kinds that the controller's methods have declared, for manifests.
    declared: Vec<Declaration>,
    /// The kinds in the list of the reconcile function's context.
    listed: Vec<Listed<K>>,
    reconcile: ErasedReconcile<S>,
    options: Options,
}

/// The options of a controller.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) max_concurrent: usize,
    pub(crate) backoff: Backoff,
    pub(crate) timeout: Option<Duration>,
    pub(crate) sync_timeout: Duration,
    pub(crate) sync_period: Option<Duration>,
    pub(crate) field_manager: Option<Arc<str>>,
    /// The component that reports the controller's events, which are then counted ones.
    pub(crate) event_source: Option<Arc<str>>,
    /// The number of writes a second, and the burst.
    pub(crate) write_limit: Option<(f64, u32)>,
    /// Whether the controller sleeps until any resource is used; see [`ResourceUse`](crate::resource_use::ResourceUse).
    pub(crate) wakes_on_any_use: bool,
}

/// How long the caches of a controller may take to fill: controller-runtime's default.
pub(crate) const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// How often caches are resynced, give or take a tenth: controller-runtime's default.
const SYNC_PERIOD: Duration = Duration::from_secs(10 * 60 * 60);

impl Default for Options {
    fn default() -> Self {
        Self {
            max_concurrent: 1,
            backoff: Backoff::default(),
            timeout: None,
            sync_timeout: SYNC_TIMEOUT,
            sync_period: Some(SYNC_PERIOD),
            field_manager: None,
            event_source: None,
            write_limit: None,
            wakes_on_any_use: false,
        }
    }
}

/// A function that reconciles one object: `async fn(Arc<K>, Ctx<S>) -> Result<Action, E>`. With a [list of
/// kinds](crate::kinds!) `D`, the second argument is a `Ctx<S, D>`.
///
/// The trait is implemented for every function and closure of this form. `E` may be [`Error`](crate::Error),
/// `anyhow::Error`, or any error that converts into a [`BoxError`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reconcile function",
    label = "expected `async fn(Arc<K>, Ctx<S>) -> Result<Action, E>`",
    note = "the first argument is the object, `Arc<K>`, where `K` is a type of `k8s_openapi` or a derived kind",
    note = "the second argument is `Ctx`, or `Ctx<S>` for a controller with `.state(…)`, or `Ctx<S, D>` with a list of kinds",
    note = "the result is `Result<Action, E>`, where `E` is `evenkeel::Error`, `anyhow::Error` or any error",
    note = "the future must be `Send`: hold no `Rc`, no `RefCell` and no lock guard across an `.await`"
)]
pub trait ReconcileFn<K: Object, S, D>: Send + Sync + 'static {
    /// Calls the function.
    fn call(
        &self,
        object: Arc<K>,
        ctx: Ctx<S, D>,
    ) -> impl Future<Output = Result<Action, BoxError>> + Send + 'static;
}

#[diagnostic::do_not_recommend]
impl<K, S, D, F, Fut, E> ReconcileFn<K, S, D> for F
where
    K: Object,
    F: Fn(Arc<K>, Ctx<S, D>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send + 'static,
    E: Into<BoxError>,
{
    fn call(
        &self,
        object: Arc<K>,
        ctx: Ctx<S, D>,
    ) -> impl Future<Output = Result<Action, BoxError>> + Send + 'static {
        let result = self(object, ctx);
        async move { result.await.map_err(Into::into) }
    }
}

/// Reconciles by key: gets a [`Request`] and reads the object from the cache, where a missing object means that it
/// was deleted. This is the form that controller-runtime has.
///
/// Implement it for a type of your own, or pass a function of the form
/// `async fn(Request, Ctx<S>) -> Result<Action, E>`, for which the trait is implemented.
///
/// ```
/// use evenkeel_runtime::{Action, Controller, Ctx, Error, Reconciler, Request};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Logger;
///
/// impl Reconciler for Logger {
///     type Error = Error;
///
///     async fn reconcile(&self, request: Request, ctx: Ctx) -> Result<Action, Error> {
///         match ctx.get_at::<ConfigMap>(&request)? {
///             Some(_) => println!("{request} exists"),
///             None => println!("{request} was deleted"),
///         }
///         Ok(Action::await_change())
///     }
/// }
///
/// let controller = Controller::<ConfigMap>::requests("logger", Logger);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not reconcile by key",
    label = "expected a `Reconciler` or `async fn(Request, Ctx<S>) -> Result<Action, E>`",
    note = "a function that gets the object instead of its key belongs into `Controller::new`"
)]
pub trait Reconciler<S = (), D = AnyKind>: Send + Sync + 'static {
    /// The error of a failed reconcile.
    type Error: Into<BoxError>;

    /// Brings the cluster to the state that the object of this key asks for.
    fn reconcile(
        &self,
        request: Request,
        ctx: Ctx<S, D>,
    ) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

#[diagnostic::do_not_recommend]
impl<S, D, F, Fut, E> Reconciler<S, D> for F
where
    F: Fn(Request, Ctx<S, D>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send,
    E: Into<BoxError>,
{
    type Error = E;

    fn reconcile(&self, request: Request, ctx: Ctx<S, D>) -> impl Future<Output = Result<Action, E>> + Send {
        self(request, ctx)
    }
}

impl<K: Object, S: Send + Sync + 'static> Controller<K, S> {
    /// A controller of all objects of kind `K`. The function is not called for objects that were deleted.
    ///
    /// If the function's context has a [list of kinds](crate::kinds!), the controller watches the kinds in it.
    pub fn new<D: Kinds<K>>(name: &str, reconcile: impl ReconcileFn<K, S, D>) -> Self
    where
        K::DynamicType: Default,
    {
        Self::new_with(name, Source::new(), reconcile)
    }

    /// A controller of the objects of one source: of some namespaces, of a selector, or of a kind that is known at run
    /// time only.
    pub fn new_with<D: Kinds<K>>(
        name: &str,
        source: Source<K>,
        reconcile: impl ReconcileFn<K, S, D>,
    ) -> Self {
        let dynamic = source.dynamic.clone();
        let reconcile = Arc::new(reconcile);
        let erased: ErasedReconcile<S> = Arc::new(move |ctx: Ctx<S>| {
            let (reconcile, dynamic) = (reconcile.clone(), dynamic.clone());
            async move {
                let Some(object) = primary::<K, S>(&ctx, &dynamic).await? else {
                    return Ok(Action::await_change());
                };
                let ctx = ctx.owned_by(object.clone(), dynamic);
                reconcile.call(object, ctx.with_kinds()).await
            }
            .boxed()
        });
        Self::assemble(name, Some(source), erased).listing::<D>()
    }

    /// A controller that reconciles by key: `reconciler` gets the key of each `K`, also of objects that were deleted.
    pub fn requests<D: Kinds<K>>(name: &str, reconciler: impl Reconciler<S, D>) -> Self
    where
        K::DynamicType: Default,
    {
        Self::requests_with(name, Source::new(), reconciler)
    }

    /// A controller that reconciles the objects of one source by key, for instance of a kind that is known only at run
    /// time.
    pub fn requests_with<D: Kinds<K>>(
        name: &str,
        source: Source<K>,
        reconciler: impl Reconciler<S, D>,
    ) -> Self {
        Self::assemble(name, Some(source), erase_requests(reconciler)).listing::<D>()
    }

    /// Gives the state that the function's context carries: an `S`, or an `Arc<S>` that is shared with others.
    pub fn state(self, state: impl Into<Arc<S>>) -> Controller<K> {
        let (reconcile, state) = (self.reconcile, state.into());
        let bound: ErasedReconcile<()> = Arc::new(move |ctx: Ctx| reconcile(ctx.with_state(state.clone())));
        Controller {
            name: self.name,
            primary: self.primary,
            primary_filter: self.primary_filter,
            watches: self.watches,
            feeds: self.feeds,
            event_filter: self.event_filter,
            declared: self.declared,
            listed: self.listed,
            reconcile: bound,
            options: self.options,
        }
    }

    fn assemble(name: &str, primary: Option<Source<K>>, reconcile: ErasedReconcile<S>) -> Self {
        Self {
            name: name.into(),
            primary,
            primary_filter: None,
            watches: Vec::new(),
            feeds: Vec::new(),
            event_filter: EventFilter::default(),
            declared: Vec::new(),
            listed: Vec::new(),
            reconcile,
            options: Options::default(),
        }
    }
}

impl<S: Send + Sync + 'static> Controller<DynamicObject, S> {
    /// A controller without a kind of its own: all its keys come from [`Controller::watches`] and
    /// [streams](Controller::stream).
    pub fn without_primary<D: Kinds<DynamicObject>>(name: &str, reconciler: impl Reconciler<S, D>) -> Self {
        Self::assemble(name, None, erase_requests(reconciler)).listing::<D>()
    }
}

/// A controller that has all that it needs to run: what [`Manager::controller`](crate::Manager::controller) takes.
///
/// Every controller is, once its state was given, if its reconcile function asks for one.
#[diagnostic::on_unimplemented(
    message = "this controller has no state yet, which its reconcile function asks for",
    label = "call `.state(…)` on this controller first",
    note = "the reconcile function takes a `Ctx<S>`; `Controller::state` gives the `S`"
)]
pub trait IntoController: sealed::Sealed {
    /// The kind of objects that the controller reconciles.
    type Kind: Object;

    /// The controller.
    fn into_controller(self) -> Controller<Self::Kind>;
}

impl<K: Object> IntoController for Controller<K> {
    type Kind = K;

    fn into_controller(self) -> Self {
        self
    }
}

mod sealed {
    pub trait Sealed {}
    impl<K: crate::Object, S> Sealed for super::Controller<K, S> {}
}

fn erase_requests<S: Send + Sync + 'static, D: 'static>(
    reconciler: impl Reconciler<S, D>,
) -> ErasedReconcile<S> {
    let reconciler = Arc::new(reconciler);
    Arc::new(move |ctx: Ctx<S>| {
        let reconciler = reconciler.clone();
        async move {
            let request = ctx.request().clone();
            reconciler.reconcile(request, ctx.with_kinds()).await.map_err(Into::into)
        }
        .boxed()
    })
}

/// The object to reconcile: from the cache, or from the server if the cache does not show this key's own writes yet.
async fn primary<K: Object, S>(
    ctx: &Ctx<S>,
    dynamic: &K::DynamicType,
) -> Result<Option<Arc<K>>, ContextError> {
    match ctx.inner.scope.primary::<K>() {
        Some(informer) if !ctx.is_behind() => {
            let found = informer.get(ctx.request());
            if let Some(version) = found.as_ref().and_then(|found| found.meta().resource_version.as_deref())
                && let Some(notes) = ctx.inner.tally.lock().recorded()
            {
                notes.revision = version.parse().unwrap_or_default();
            }
            Ok(found)
        }
        _ => Ok(ctx.objects::<K>(dynamic.clone()).fetch(ctx.request()).await?.map(Arc::new)),
    }
}

impl<K: Object, S> Controller<K, S> {
    fn declare<C: Object>(&mut self, source: &Source<C>, purpose: Purpose) {
        self.declared.push(declaration(source, purpose));
    }

    /// Everything that the controller watches, its primary kind first.
    pub(crate) fn declarations(&self) -> Vec<Declaration> {
        let owns = self.secondary().any(|declared| declared.purpose == Purpose::Owned);
        let primary =
            self.primary.iter().map(|source| Declaration { owns, ..declaration(source, Purpose::Primary) });
        primary.chain(self.secondary().cloned()).collect()
    }

    /// The secondary kinds that the controller watches.
    fn secondary(&self) -> impl Iterator<Item = &Declaration> {
        let listed = self.listed.iter().filter_map(|listed| listed.adds_to(&self.declared));
        self.declared.iter().chain(listed)
    }

    /// What wakes the controller, if its manager knows which resources are in use.
    pub(crate) fn wake_on(&self) -> WakeOn {
        let primary = self.primary.as_ref().map(|source| source.key.resource.clone());
        match self.options.wakes_on_any_use {
            true => WakeOn::AnyUse,
            false if primary.is_none() && self.secondary().next().is_none() => WakeOn::Start,
            false => {
                let others = self.secondary().map(|declared| declared.resource.clone()).collect();
                WakeOn::Resources { primary, others }
            }
        }
    }
}

fn declaration<C: Object>(source: &Source<C>, purpose: Purpose) -> Declaration {
    let (resource, namespaces) = (source.key.resource.clone(), source.key.namespaces.clone());
    let namespaced = scoping::<C>() == Scoping::Namespaced;
    Declaration { resource, type_id: source.key.type_id, namespaces, purpose, namespaced, owns: false }
}

impl<K: Object, S> fmt::Debug for Controller<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

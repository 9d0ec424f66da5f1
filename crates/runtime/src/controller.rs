//! Controllers: what to watch, what to do, and how.

mod builder;
mod outcome;
mod run;
mod site;
mod wiring;

pub(crate) use run::{Host, run};
pub(crate) use site::Site;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use kube::core::DynamicObject;

use crate::action::Action;
use crate::context::Context;
use crate::error::{BoxError, ContextError};
use crate::manifests::{Declared, Use};
use crate::object::{Scoping, scoping};
use crate::queue::Backoff;
use crate::source::Source;
use crate::trigger::Trigger;
use crate::{Object, Predicate, Request};
use wiring::{EventFilter, Feed, Wire};

/// A reconcile, type-erased: everything it needs is in the context.
pub(crate) type Reconcile<S> =
    Arc<dyn Fn(Context<S>) -> BoxFuture<'static, Result<Action, BoxError>> + Send + Sync>;

/// Watches objects of kind `K` and what concerns them, and calls a function for each that may have changed.
///
/// `S` is what the function's [`Context`] carries; a controller runs once it was given by [`Controller::state`],
/// which functions over `Context<()>` do not need.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_runtime::{Action, Context, Controller, Result};
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Context) -> Result<Action> {
///     let children = ctx.children::<Deployment>()?;
///     println!("{} has {} deployments: {}", ctx.request(), children.len(), ctx.causes());
///     Ok(Action::done())
/// }
///
/// let controller = Controller::new("config", reconcile).owns::<Deployment>().max_concurrent(4);
/// ```
pub struct Controller<K: Object, S = ()> {
    name: Arc<str>,
    /// None for a controller without a primary kind.
    primary: Option<Source<K>>,
    primary_filter: Option<Predicate<K>>,
    watches: Vec<Wire<K>>,
    feeds: Vec<Feed>,
    event_filter: EventFilter,
    /// What it watches beside its primary kind, for manifests.
    declared: Vec<Declared>,
    reconcile: Reconcile<S>,
    options: Options,
}

/// How a controller works.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) max_concurrent: usize,
    pub(crate) backoff: Backoff,
    pub(crate) timeout: Option<Duration>,
    pub(crate) sync_timeout: Duration,
    pub(crate) sync_period: Option<Duration>,
    pub(crate) field_manager: Option<Arc<str>>,
    /// Writes a second, and how many at once.
    pub(crate) write_limit: Option<(f64, u32)>,
}

/// How long the caches of a controller may take to fill: controller-runtime's number.
pub(crate) const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// How often a cache is replayed, give or take a tenth: controller-runtime's number.
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
            write_limit: None,
        }
    }
}

/// The lower form of a reconcile, as the Go world knows it: it gets a key and reads the object from the cache, where
/// a missing object means that it was deleted.
///
/// ```
/// use evenkeel_runtime::{Action, Context, Controller, Error, Reconciler, Request};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Logger;
///
/// impl Reconciler for Logger {
///     type Error = Error;
///
///     async fn reconcile(&self, request: Request, ctx: Context) -> Result<Action, Error> {
///         match ctx.get_at::<ConfigMap>(&request)? {
///             Some(_) => println!("{request} is there"),
///             None => println!("{request} was deleted"),
///         }
///         Ok(Action::done())
///     }
/// }
///
/// let controller = Controller::<ConfigMap>::reconciler("logger", Logger);
/// ```
pub trait Reconciler: Send + Sync + 'static {
    /// What it fails with.
    type Error: Into<BoxError>;

    /// Brings the world to what the object of this key asks for.
    fn reconcile(
        &self,
        request: Request,
        ctx: Context,
    ) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

impl<K: Object, S: Send + Sync + 'static> Controller<K, S> {
    /// A controller of all objects of kind `K`. The function is not called for objects that are gone.
    pub fn new<F, Fut, E>(name: &str, reconcile: F) -> Self
    where
        K::DynamicType: Default,
        F: Fn(Arc<K>, Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self::with_source(name, Source::new(), reconcile)
    }

    /// A controller of the objects of one source: some namespaces, a selector, a kind that is known at run time.
    pub fn with_source<F, Fut, E>(name: &str, source: Source<K>, reconcile: F) -> Self
    where
        F: Fn(Arc<K>, Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let dynamic = source.dynamic.clone();
        let reconcile = Arc::new(reconcile);
        let erased: Reconcile<S> = Arc::new(move |ctx: Context<S>| {
            let (reconcile, dynamic) = (reconcile.clone(), dynamic.clone());
            async move {
                let Some(object) = primary::<K, S>(&ctx, &dynamic).await? else {
                    return Ok(Action::done());
                };
                let ctx = ctx.owned_by(object.clone(), dynamic);
                reconcile(object, ctx).await.map_err(Into::into)
            }
            .boxed()
        });
        Self::assemble(name, Some(source), erased)
    }

    /// The lower form as a function: it gets the key, also of objects that are gone.
    pub fn requests<F, Fut, E>(name: &str, reconcile: F) -> Self
    where
        K::DynamicType: Default,
        F: Fn(Request, Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self::assemble(name, Some(Source::new()), erase_requests(reconcile))
    }

    /// Gives the state that the function's context carries; the controller can run then.
    pub fn state(self, state: S) -> Controller<K> {
        self.shared_state(Arc::new(state))
    }

    /// The same, for a state that others hold too.
    pub fn shared_state(self, state: Arc<S>) -> Controller<K> {
        let reconcile = self.reconcile;
        let bound: Reconcile<()> = Arc::new(move |ctx: Context| reconcile(ctx.with_state(state.clone())));
        Controller {
            name: self.name,
            primary: self.primary,
            primary_filter: self.primary_filter,
            watches: self.watches,
            feeds: self.feeds,
            event_filter: self.event_filter,
            declared: self.declared,
            reconcile: bound,
            options: self.options,
        }
    }

    fn assemble(name: &str, primary: Option<Source<K>>, reconcile: Reconcile<S>) -> Self {
        Self {
            name: name.into(),
            primary,
            primary_filter: None,
            watches: Vec::new(),
            feeds: Vec::new(),
            event_filter: EventFilter::default(),
            declared: Vec::new(),
            reconcile,
            options: Options::default(),
        }
    }
}

impl<S: Send + Sync + 'static> Controller<DynamicObject, S> {
    /// A controller without a primary kind: all its keys come from [`Controller::watches`] and channels.
    pub fn bare<F, Fut, E>(name: &str, reconcile: F) -> Self
    where
        F: Fn(Request, Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self::assemble(name, None, erase_requests(reconcile))
    }
}

impl<K: Object<DynamicType: Default>> Controller<K> {
    /// The lower form as a value.
    pub fn reconciler<R: Reconciler>(name: &str, reconciler: R) -> Self {
        let reconciler = Arc::new(reconciler);
        Self::requests(name, move |request, ctx| {
            let reconciler = reconciler.clone();
            async move { reconciler.reconcile(request, ctx).await }
        })
    }
}

fn erase_requests<S, F, Fut, E>(reconcile: F) -> Reconcile<S>
where
    S: Send + Sync + 'static,
    F: Fn(Request, Context<S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send + 'static,
    E: Into<BoxError>,
{
    Arc::new(move |ctx: Context<S>| {
        let result = reconcile(ctx.request().clone(), ctx);
        async move { result.await.map_err(Into::into) }.boxed()
    })
}

/// The object to reconcile: from the cache, or live where the cache is known to be behind this key's own writes.
async fn primary<K: Object, S>(
    ctx: &Context<S>,
    dynamic: &K::DynamicType,
) -> Result<Option<Arc<K>>, ContextError> {
    match ctx.inner.site.primary::<K>() {
        Some(informer) if !ctx.is_behind() => Ok(informer.get(ctx.request())),
        _ => Ok(ctx.objects::<K>(dynamic.clone()).fetch(ctx.request()).await?.map(Arc::new)),
    }
}

impl<K: Object, S> Controller<K, S> {
    fn declare<C: Object>(&mut self, source: &Source<C>, purpose: Use) {
        self.declared.push(declaration(source, purpose));
    }

    /// Everything it watches, its primary kind first.
    pub(crate) fn declarations(&self) -> Vec<Declared> {
        let owns = self.declared.iter().any(|declared| declared.purpose == Use::Owned);
        let primary =
            self.primary.iter().map(|source| Declared { owns, ..declaration(source, Use::Primary) });
        primary.chain(self.declared.iter().cloned()).collect()
    }
}

fn declaration<C: Object>(source: &Source<C>, purpose: Use) -> Declared {
    let (resource, namespaces) = (source.key.resource.clone(), source.key.namespaces.clone());
    let namespaced = scoping::<C>() == Scoping::Namespaced;
    Declared { resource, namespaces, purpose, namespaced, owns: false }
}

impl<K: Object, S> fmt::Debug for Controller<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The trigger of a kind that `K` owns.
fn owner_trigger<K: Object, C: Object>(primary: &Source<K>, controller: bool) -> Trigger<C> {
    let namespaced = scoping::<K>() != Scoping::Cluster;
    Trigger::owner_with(primary.resource().clone(), namespaced, controller)
}

#[cfg(test)]
mod tests;

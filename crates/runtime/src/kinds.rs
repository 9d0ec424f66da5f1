//! Lists of kinds: which kinds a controller owns, watches and reads, checked by the compiler.
//!
//! A controller names such a list in the type of its context: `Ctx<S, SiteKinds>`. Writing an owned object, or reading
//! a cache, of a kind that is not in the list does not compile, and the controller watches the kinds in the list by
//! itself. In a plain `Ctx` or `Ctx<S>`, the list is [`AnyKind`]: methods such as
//! [`Controller::owns`](crate::Controller::owns) declare what the controller watches, and a read of any other kind is a
//! run-time error.
//!
//! The macro [`kinds!`](crate::kinds!) writes a list and implements its traits.

use crate::Object;

/// The list of kinds in a plain `Ctx`, which allows all kinds. The controller learns what to watch from its methods.
///
/// ```
/// use evenkeel_runtime::Ctx;
/// use evenkeel_runtime::kinds::AnyKind;
///
/// fn same(ctx: Ctx<String>) -> Ctx<String, AnyKind> {
///     ctx
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum AnyKind {}

/// A list of kinds that contains `K`: the controller keeps a cache of it.
///
/// Methods of a context that read require it. [`kinds!`](crate::kinds!) implements it for the primary kind and for
/// every kind in a list.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_runtime::kinds::Reads;
/// use evenkeel_runtime::{ContextError, Ctx};
/// use k8s_openapi::api::core::v1::Secret;
///
/// /// A function for the contexts of several controllers, all of which read Secrets.
/// fn password<S, D: Reads<Secret>>(ctx: &Ctx<S, D>) -> Result<Option<Arc<Secret>>, ContextError> {
///     ctx.get("password")
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{K}` is not in the list of kinds `{Self}`: the controller has no cache of it",
    label = "no cache of `{K}` is declared",
    note = "add `reads {K}` to `{Self}` in its `kinds!`; or `owns {K}`, if the controller creates such objects; or \
            `watches {K}`, if it reacts to them",
    note = "`ctx.fetch` reads from the server, and needs no cache"
)]
pub trait Reads<K> {}

/// A list of kinds that owns `K`: a change of an object of that kind reconciles the object that controls it.
///
/// Methods of a context that write owned objects require it. [`kinds!`](crate::kinds!) implements it for every kind
/// that a list has after `owns`.
///
/// ```
/// use evenkeel_runtime::kinds::Owns;
/// use evenkeel_runtime::{ContextError, Ctx, Object};
///
/// /// A function for the contexts of several controllers.
/// async fn keep<K, S, D>(ctx: &Ctx<S, D>, object: K) -> Result<K, ContextError>
/// where
///     K: Object<DynamicType: Default>,
///     D: Owns<K>,
/// {
///     ctx.apply(object).await
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{K}` is not owned in the list of kinds `{Self}`: the controller would not notice changes of this object",
    label = "`owns {K}` is missing",
    note = "add `owns {K}` to `{Self}` in its `kinds!`",
    note = "for an object without an owner, use `apply_unowned` or `create_unowned`"
)]
pub trait Owns<K>: Reads<K> {}

/// A list of kinds for controllers of kind `K`.
///
/// [`kinds!`](crate::kinds!) implements it. A controller finds the list in the type of its reconcile function's
/// context.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of kinds for a controller of `{K}`",
    label = "the context of this reconcile function has the list `{Self}`",
    note = "a list is made by `kinds! {{ struct {Self} for {K} {{ … }} }}`; the kind after `for` is the first argument of \
            the reconcile function"
)]
pub trait Kinds<K: Object>: 'static {
    /// Calls `to` for each kind of the list.
    fn declare(to: &mut impl Declare);
}

/// Receives the kinds of a list; it is called once for each kind.
pub trait Declare {
    /// The controller owns objects of kind `C`: a change of one reconciles the object that controls it.
    fn owns<C: Object<DynamicType: Default>>(&mut self);

    /// The controller reacts to objects of kind `C`, in the way that one of its methods says.
    fn watches<C: Object<DynamicType: Default>>(&mut self);

    /// The controller reads objects of kind `C`, and does not react to them.
    fn reads<C: Object<DynamicType: Default>>(&mut self);
}

impl<K> Reads<K> for AnyKind {}
impl<K> Owns<K> for AnyKind {}

impl<K: Object> Kinds<K> for AnyKind {
    fn declare(_: &mut impl Declare) {}
}

/// A kind that [`kinds!`](crate::kinds!) adds to every list. If a list had a single kind, the compiler would infer that
/// the object to write must be of that kind, and report the object's type instead of the missing line in the list.
#[doc(hidden)]
#[derive(Debug)]
pub enum NoKind {}

/// Makes a list of the kinds that a controller owns, watches and reads.
///
/// The list is a type without values, for the context of the reconcile function: `Ctx<(), SiteKinds>`, or `Ctx<S,
/// SiteKinds>` with a state. The kinds are written once: the controller watches them, the operator's manifests permit
/// them, and code that writes an owned object or reads a cache of another kind does not compile. The compiler names the
/// line to add.
///
/// | in the list | what the controller does | what its context may do |
/// |---|---|---|
/// | `for Site` | reconciles every `Site` | read Sites from the cache |
/// | `owns Deployment` | reconciles the `Site` that controls a changed Deployment | read them, and write them with an owner |
/// | `watches Secret` | what `.watches(…)` or its like says: the list cannot know which key to reconcile, and a controller without such a call does not start | read them |
/// | `reads ConfigMap` | keeps a cache | read them |
///
/// Methods of the controller can say more about a kind. `.owns_with(source)`, for instance, replaces what the list says
/// about an owned kind, and can watch only objects with some label. A list without `for` is for controllers of any
/// kind. A kind that is known only at run time cannot be in a list; use `ctx.objects(…)`, which is checked at run time.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_runtime::{Action, Controller, Ctx, Result};
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// evenkeel_runtime::kinds! {
///     /// The kinds of the controller of pages.
///     pub struct PageKinds for ConfigMap {
///         owns Deployment,
///         reads Secret,
///     }
/// }
///
/// async fn reconcile(page: Arc<ConfigMap>, ctx: Ctx<(), PageKinds>) -> Result<Action> {
///     let mut servers = Deployment::default();
///     servers.metadata.name = page.metadata.name.clone();
///     if ctx.get::<Secret>("certificate")?.is_some() {
///         ctx.apply(servers).await?;
///     }
///     Ok(Action::await_change())
/// }
///
/// let controller = Controller::new("pages", reconcile); // owns Deployments and reads Secrets
/// ```
///
/// Where many functions take the context, define an alias: `type Ctx<S = ()> = evenkeel::Ctx<S, PageKinds>;`. It
/// shadows the `Ctx` of the prelude.
///
/// A missing kind is a compile error:
///
/// ```compile_fail,E0277
/// # use evenkeel_runtime::{Ctx, Result};
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// evenkeel_runtime::kinds! {
///     struct PageKinds for ConfigMap { reads Secret }
/// }
///
/// async fn write(ctx: Ctx<(), PageKinds>) -> Result<()> {
///     ctx.apply(Secret::default()).await?; // add `owns Secret`
///     Ok(())
/// }
/// ```
#[macro_export]
macro_rules! kinds {
    ($(#[$attribute:meta])* $visibility:vis struct $list:ident for $primary:ty { $($verb:ident $kind:ty),* $(,)? }) => {
        $crate::kinds! { @list $(#[$attribute])* $visibility $list }
        impl $crate::kinds::Reads<$primary> for $list {}
        $($crate::kinds! { @$verb $list $kind })*
        impl $crate::kinds::Kinds<$primary> for $list {
            fn declare(to: &mut impl $crate::kinds::Declare) {
                $($crate::kinds::Declare::$verb::<$kind>(to);)*
            }
        }
    };
    ($(#[$attribute:meta])* $visibility:vis struct $list:ident { $($verb:ident $kind:ty),* $(,)? }) => {
        $crate::kinds! { @list $(#[$attribute])* $visibility $list }
        $($crate::kinds! { @$verb $list $kind })*
        impl<K: $crate::Object> $crate::kinds::Kinds<K> for $list {
            fn declare(to: &mut impl $crate::kinds::Declare) {
                $($crate::kinds::Declare::$verb::<$kind>(to);)*
            }
        }
    };
    (@list $(#[$attribute:meta])* $visibility:vis $list:ident) => {
        $(#[$attribute])*
        #[derive(Debug)]
        $visibility enum $list {}
        impl $crate::kinds::Reads<$crate::kinds::NoKind> for $list {}
        impl $crate::kinds::Owns<$crate::kinds::NoKind> for $list {}
    };
    (@owns $list:ident $kind:ty) => {
        impl $crate::kinds::Reads<$kind> for $list {}
        impl $crate::kinds::Owns<$kind> for $list {}
    };
    (@watches $list:ident $kind:ty) => {
        impl $crate::kinds::Reads<$kind> for $list {}
    };
    (@reads $list:ident $kind:ty) => {
        impl $crate::kinds::Reads<$kind> for $list {}
    };
    (@$verb:ident $list:ident $kind:ty) => {
        ::core::compile_error!(::core::concat!(
            "`", ::core::stringify!($verb), "`: a list of kinds has `owns`, `watches` and `reads`",
        ));
    };
}

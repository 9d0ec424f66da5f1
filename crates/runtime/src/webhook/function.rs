//! The functions of admission webhooks: their signatures, and how they are called for a review.

use std::future::Future;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use serde_json::Value;
use serde_json::value::RawValue;

use super::admission::Admission;
use super::patch::patch;
use super::review::Admitted;
use super::verdict::{IntoMutation, Mutation, Verdict};
use crate::Object;
use crate::error::BoxError;

/// A type-erased function that reviews requests.
pub(super) type Review<S> =
    Arc<dyn Fn(Arc<Admitted>, Arc<S>) -> BoxFuture<'static, Result<Reviewed, Unreviewed>> + Send + Sync>;

/// The verdict, and the JSON patch of a mutating function.
pub(super) struct Reviewed {
    pub(super) verdict: Verdict,
    pub(super) patch: Option<Vec<u8>>,
}

/// Why there is no verdict.
pub(super) enum Unreviewed {
    /// The API server sent an object that is not of the function's type.
    Undecodable(String),
    /// The function returned an error.
    Failed(BoxError),
}

/// A function that allows or refuses a request: `async fn(Arc<K>, Admission<K, S>) -> Result<Verdict, E>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a validating function",
    label = "expected `async fn(Arc<K>, Admission<K, S>) -> Result<Verdict, E>`",
    note = "the first argument is the object, `Arc<K>`; `Admission<K>` has the same `K`",
    note = "the future must be `Send`: hold no `Rc`, no `RefCell` and no lock guard across an `.await`"
)]
pub trait ValidateFn<K: Object, S>: Send + Sync + 'static {
    /// Calls the function.
    fn call(
        &self,
        object: Arc<K>,
        request: Admission<K, S>,
    ) -> impl Future<Output = Result<Verdict, BoxError>> + Send + 'static;
}

#[diagnostic::do_not_recommend]
impl<K, S, F, Fut, E> ValidateFn<K, S> for F
where
    K: Object,
    F: Fn(Arc<K>, Admission<K, S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Verdict, E>> + Send + 'static,
    E: Into<BoxError>,
{
    fn call(
        &self,
        object: Arc<K>,
        request: Admission<K, S>,
    ) -> impl Future<Output = Result<Verdict, BoxError>> + Send + 'static {
        let verdict = self(object, request);
        async move { verdict.await.map_err(Into::into) }
    }
}

/// A function that changes an object: `async fn(K, Admission<K, S>) -> Result<K, E>`. The result can also be a
/// [`Mutation`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a mutating function",
    label = "expected `async fn(K, Admission<K, S>) -> Result<K, E>`",
    note = "the first argument is the object, `K`, which the function returns changed; or a `Mutation<K>`",
    note = "the future must be `Send`: hold no `Rc`, no `RefCell` and no lock guard across an `.await`"
)]
pub trait MutateFn<K: Object, S>: Send + Sync + 'static {
    /// Calls the function.
    fn call(
        &self,
        object: K,
        request: Admission<K, S>,
    ) -> impl Future<Output = Result<Mutation<K>, BoxError>> + Send + 'static;
}

#[diagnostic::do_not_recommend]
impl<K, S, F, Fut, M, E> MutateFn<K, S> for F
where
    K: Object,
    F: Fn(K, Admission<K, S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<M, E>> + Send + 'static,
    M: IntoMutation<K>,
    E: Into<BoxError>,
{
    fn call(
        &self,
        object: K,
        request: Admission<K, S>,
    ) -> impl Future<Output = Result<Mutation<K>, BoxError>> + Send + 'static {
        let mutation = self(object, request);
        async move { mutation.await.map(IntoMutation::into_mutation).map_err(Into::into) }
    }
}

pub(super) fn validating<K, S>(function: impl ValidateFn<K, S>) -> Review<S>
where
    K: Object,
    S: Send + Sync + 'static,
{
    let function = Arc::new(function);
    Arc::new(move |about: Arc<Admitted>, state| {
        let function = function.clone();
        async move {
            let old = decode::<K>("oldObject", about.old_object.as_deref())?.map(Arc::new);
            let new = decode::<K>("object", about.object.as_deref())?.map(Arc::new);
            let object = new.or_else(|| old.clone()).ok_or_else(no_object)?;
            let request = Admission { about, old, state };
            let verdict = function.call(object, request).await.map_err(Unreviewed::Failed)?;
            Ok(Reviewed { verdict, patch: None })
        }
        .boxed()
    })
}

pub(super) fn mutating<K, S>(function: impl MutateFn<K, S>) -> Review<S>
where
    K: Object,
    S: Send + Sync + 'static,
{
    let function = Arc::new(function);
    Arc::new(move |about: Arc<Admitted>, state| {
        let function = function.clone();
        async move {
            let old = decode::<K>("oldObject", about.old_object.as_deref())?.map(Arc::new);
            // Kubernetes does not let a webhook change the object of a deletion, so the function can only allow or
            // refuse it.
            let changeable = about.object.is_some();
            let text = about.object.as_ref().or(about.old_object.as_ref()).ok_or_else(no_object)?.clone();
            let object = decode::<K>("object", Some(&text))?.ok_or_else(no_object)?;
            let before = encode(&object)?;
            let request = Admission { about, old, state };
            let Mutation { object, verdict } =
                function.call(object, request).await.map_err(Unreviewed::Failed)?;
            let patch = match object.filter(|_| changeable && verdict.is_allowed()) {
                Some(object) => changes(&text, &before, &encode(&object)?)?,
                None => None,
            };
            Ok(Reviewed { verdict, patch })
        }
        .boxed()
    })
}

fn changes(text: &RawValue, before: &Value, after: &Value) -> Result<Option<Vec<u8>>, Unreviewed> {
    if before == after {
        return Ok(None);
    }
    let received: Value = serde_json::from_str(text.get()).map_err(|error| undecodable("object", &error))?;
    let patch = patch(&received, before, after);
    patch
        .map(|patch| serde_json::to_vec(&patch))
        .transpose()
        .map_err(|error| Unreviewed::Failed(error.into()))
}

fn encode<K: Object>(object: &K) -> Result<Value, Unreviewed> {
    serde_json::to_value(object).map_err(|error| Unreviewed::Failed(error.into()))
}

fn decode<K: Object>(field: &str, text: Option<&RawValue>) -> Result<Option<K>, Unreviewed> {
    let object = text.map(|text| serde_json::from_str(text.get())).transpose();
    object.map_err(|error| undecodable(field, &error))
}

fn undecodable(field: &str, error: &serde_json::Error) -> Unreviewed {
    Unreviewed::Undecodable(format!("{field} cannot be read: {error}"))
}

fn no_object() -> Unreviewed {
    Unreviewed::Undecodable("the request has neither object nor oldObject".to_owned())
}

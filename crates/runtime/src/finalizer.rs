//! Finalizers: cleanup that must happen before an object is deleted.

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::context::{Ctx, Objects};
use crate::error::{BoxError, ContextError, chain};
use crate::object::AsObject;
use crate::{Action, Object, Request};

pub use crate::error::{FinalizerError, FinalizersChanged};

/// What work under a finalizer has to do: the argument that [`Ctx::finalizer`] calls it with.
///
/// ```
/// use evenkeel_runtime::finalizer::Phase;
///
/// fn wanted_buckets(phase: Phase) -> usize {
///     match phase {
///         Phase::Apply => 1,
///         Phase::Cleanup => 0,
///     }
/// }
/// assert_eq!(wanted_buckets(Phase::Cleanup), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The object exists and has the finalizer: side effects may happen.
    Apply,
    /// The object is being deleted: undo the side effects.
    Cleanup,
}

impl<S: Send + Sync, D> Ctx<S, D> {
    /// Runs `work` under a finalizer.
    ///
    /// The finalizer is added before `work` is first called with [`Phase::Apply`], so that no side effect exists
    /// without the finalizer. When the object is being deleted, `work` is called with [`Phase::Cleanup`] until it
    /// succeeds; then the finalizer is removed. Finalizers of others are left alone. While the cleanup fails, the
    /// object stays, and a Warning event `CleanupFailed` on the object says why. Each write is a JSON patch that
    /// tests the finalizers as they were read, so that a crash at any point or another writer costs one more
    /// attempt, never a lost or doubled finalizer.
    ///
    /// `work` is an async closure, which may borrow what is around it, or a function that returns a future.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use evenkeel_runtime::{Action, Ctx, Result};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # async fn make_bucket(_: &str) -> Result<()> { Ok(()) }
    /// # async fn remove_bucket(_: &str) -> Result<()> { Ok(()) }
    /// use evenkeel_runtime::finalizer::Phase;
    ///
    /// async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    ///     let bucket = format!("bucket-of-{}", map.metadata.name.as_deref().unwrap_or_default());
    ///     let action = ctx.finalizer(&map, "example.com/bucket", async |phase| -> Result<Action> {
    ///         match phase {
    ///             Phase::Apply => make_bucket(&bucket).await?,
    ///             Phase::Cleanup => remove_bucket(&bucket).await?,
    ///         }
    ///         Ok(Action::await_change())
    ///     });
    ///     Ok(action.await?)
    /// }
    /// ```
    pub async fn finalizer<O, M, F, E>(
        &self,
        object: &O,
        finalizer: &str,
        work: F,
    ) -> Result<Action, FinalizerError>
    where
        O: AsObject<M>,
        F: AsyncFnOnce(Phase) -> Result<Action, E>,
        E: Into<BoxError>,
    {
        self.of::<O::Kind>().finalizer(object.as_object(), finalizer, work).await
    }
}

impl<K: Object> Objects<'_, K> {
    /// See [`Ctx::finalizer`].
    pub async fn finalizer<F, E>(
        &self,
        object: &K,
        finalizer: &str,
        work: F,
    ) -> Result<Action, FinalizerError>
    where
        F: AsyncFnOnce(Phase) -> Result<Action, E>,
        E: Into<BoxError>,
    {
        let held = object.finalizers().iter().any(|name| name == finalizer);
        let apply_failed =
            |error: E| FinalizerError::Apply { finalizer: finalizer.to_owned(), source: error.into() };
        let cleanup_failed = |error: E| {
            let source: BoxError = error.into();
            self.warning(object, "CleanupFailed", format!("finalizer {finalizer}: {}", chain(&*source)));
            FinalizerError::Cleanup { finalizer: finalizer.to_owned(), source }
        };
        match (object.meta().deletion_timestamp.is_some(), held) {
            (false, true) => work(Phase::Apply).await.map_err(apply_failed),
            (false, false) => {
                // An object that is gone by now would leave its side effects without a cleanup.
                match self.patch_finalizers(object, add(object, finalizer)).await? {
                    true => work(Phase::Apply).await.map_err(apply_failed),
                    false => Ok(Action::await_change()),
                }
            }
            (true, true) => {
                let action = work(Phase::Cleanup).await.map_err(cleanup_failed)?;
                self.patch_finalizers(object, remove(object, finalizer)).await?;
                Ok(action)
            }
            (true, false) => Ok(Action::await_change()),
        }
    }

    /// Patches the finalizers. Returns `false` if the object is gone.
    async fn patch_finalizers(&self, object: &K, patch: Value) -> Result<bool, FinalizerError> {
        match self.patch_json(&Request::of(object), &patch).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            // The test of the patch failed; the next attempt reads the newer object.
            Err(error) if is_race(&error) => {
                let changed = FinalizersChanged::new(Request::of(object).to_string(), error);
                Err(FinalizerError::Changed(changed))
            }
            Err(error) => Err(FinalizerError::Patch(error)),
        }
    }
}

/// Whether the API server refused the patch because the object changed. An invalid name of a finalizer is refused with
/// the same code, and no retry helps.
fn is_race(error: &ContextError) -> bool {
    error.status().is_some_and(|status| {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        status.code == 422 && !causes.into_iter().any(|cause| cause.reason == "FieldValueInvalid")
    })
}

/// A patch that adds the finalizer if the list is still the one that was read.
fn add<K: Object>(object: &K, finalizer: &str) -> Value {
    let uid = json!({ "op": "test", "path": "/metadata/uid", "value": object.uid() });
    let finalizers = object.finalizers();
    if finalizers.is_empty() {
        let path = "/metadata/finalizers";
        return json!([
            uid,
            { "op": "test", "path": path, "value": null },
            { "op": "add", "path": path, "value": [finalizer] },
        ]);
    }
    json!([
        uid,
        { "op": "test", "path": "/metadata/finalizers", "value": finalizers },
        { "op": "add", "path": "/metadata/finalizers/-", "value": finalizer },
    ])
}

/// A patch that removes the finalizer if it is still where it was read.
fn remove<K: Object>(object: &K, finalizer: &str) -> Value {
    let finalizers = object.finalizers();
    let at = finalizers.iter().position(|name| name == finalizer).unwrap_or_default();
    let path = format!("/metadata/finalizers/{at}");
    json!([
        { "op": "test", "path": "/metadata/uid", "value": object.uid() },
        { "op": "test", "path": path, "value": finalizer },
        { "op": "remove", "path": path },
    ])
}

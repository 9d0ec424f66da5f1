//! Finalizers: cleanup that must happen before an object goes.

use std::future::Future;

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::error::{BoxError, ContextError, Error, Result};
use crate::{Action, Context, Object, Objects, Request};

/// Which way an object goes; [`Context::finalizer`] tells.
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
    /// It is wanted, and the finalizer is in place: side effects may happen.
    Apply,
    /// It is being deleted: undo the side effects.
    Cleanup,
}

/// Somebody else changed the finalizers since the object was read: the reconcile is tried again.
///
/// ```
/// use evenkeel_runtime::finalizer::FinalizersChanged;
///
/// /// Whether an error is no more than a race that the next attempt wins.
/// fn is_race(error: &(dyn std::error::Error + 'static)) -> bool {
///     error.downcast_ref::<FinalizersChanged>().is_some()
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[error("change the finalizers of {object}: somebody else was faster")]
#[non_exhaustive]
pub struct FinalizersChanged {
    /// The object.
    pub object: String,
    /// What the server said.
    pub source: ContextError,
}

impl<S: Send + Sync> Context<S> {
    /// Runs `work` under a finalizer.
    ///
    /// The finalizer is added before `work` is first called with [`Phase::Apply`], so that no side effect is ever
    /// without one. When the object is being deleted, `work` is called with [`Phase::Cleanup`] until it succeeds,
    /// then the finalizer is removed; foreign finalizers are left as they are. While it fails the object stays, and a
    /// Warning event `CleanupFailed` on it says why. Each write holds only for the object
    /// as it was read (a JSON patch that tests), so that a crash at any point or another writer costs one more
    /// attempt, never a lost or doubled finalizer.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use evenkeel_runtime::{Action, Context, Error, Result};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// use evenkeel_runtime::finalizer::Phase;
    ///
    /// async fn reconcile(map: Arc<ConfigMap>, ctx: Context) -> Result<Action> {
    ///     ctx.finalizer(&*map, "example.com/bucket", |phase| async move {
    ///         match phase {
    ///             Phase::Apply => println!("make the bucket"),
    ///             Phase::Cleanup => println!("remove the bucket"),
    ///         }
    ///         Ok::<_, Error>(Action::done())
    ///     })
    ///     .await
    /// }
    /// ```
    pub async fn finalizer<K, F, Fut, E>(&self, object: &K, finalizer: &str, work: F) -> Result<Action>
    where
        K: Object<DynamicType: Default>,
        F: FnOnce(Phase) -> Fut,
        Fut: Future<Output = Result<Action, E>>,
        E: Into<BoxError>,
    {
        self.objects::<K>(K::DynamicType::default()).finalizer(object, finalizer, work).await
    }
}

impl<K: Object> Objects<'_, K> {
    /// See [`Context::finalizer`].
    pub async fn finalizer<F, Fut, E>(&self, object: &K, finalizer: &str, work: F) -> Result<Action>
    where
        F: FnOnce(Phase) -> Fut,
        Fut: Future<Output = Result<Action, E>>,
        E: Into<BoxError>,
    {
        let held = object.finalizers().iter().any(|name| name == finalizer);
        let failed = |error: E| Error::from_boxed(error.into());
        match (object.meta().deletion_timestamp.is_some(), held) {
            (false, true) => work(Phase::Apply).await.map_err(failed),
            (false, false) => {
                // What is gone by now has nobody left to clean up after its side effects.
                match self.patch_finalizers(object, add(object, finalizer)).await? {
                    true => work(Phase::Apply).await.map_err(failed),
                    false => Ok(Action::done()),
                }
            }
            (true, true) => {
                let action = work(Phase::Cleanup).await.map_err(failed).inspect_err(|error| {
                    let note = format!("finalizer {finalizer}: {error:?}");
                    self.warning(object, "CleanupFailed", note);
                })?;
                self.patch_finalizers(object, remove(object, finalizer)).await?;
                Ok(action)
            }
            (true, false) => Ok(Action::done()),
        }
    }

    async fn patch_finalizers(&self, object: &K, patch: Value) -> Result<bool> {
        match self.patch_json(&Request::of(object), &patch).await {
            Ok(_) => Ok(true),
            // Whoever removed the last finalizer was first.
            Err(error) if error.is_not_found() => Ok(false),
            // The test of the patch failed; the next attempt reads what is there now.
            Err(error) if is_race(&error) => {
                Err(FinalizersChanged { object: Request::of(object).to_string(), source: error }.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the server refused the patch for what the object has become; a finalizer whose name is wrong will be wrong
/// the next time too.
fn is_race(error: &ContextError) -> bool {
    error.status().is_some_and(|status| {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        status.code == 422 && !causes.into_iter().any(|cause| cause.reason == "FieldValueInvalid")
    })
}

/// The patch holds only if nobody touched the list since it was read.
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

//! Writes of a context: owned, under the controller's field manager, and remembered.

use kube::core::params::{DeleteParams, Patch};
use serde::Serialize;

use super::{Ctx, Objects};
use crate::error::ContextError;
use crate::object::AsObject;
use crate::{Object, Request};

/// What [`Ctx::create_or_update`] did.
///
/// ```
/// use evenkeel_runtime::{Ctx, ContextError, Ensured};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// async fn ensure(settings: ConfigMap, ctx: &Ctx) -> Result<bool, ContextError> {
///     let (_, did) = ctx.create_or_update(settings, |map| map.immutable = Some(true)).await?;
///     Ok(did != Ensured::Unchanged)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensured {
    /// It was missing.
    Created,
    /// It differed.
    Updated,
    /// It was as it should be, and nothing was written.
    Unchanged,
}

impl<S> Ctx<S> {
    /// Server-side apply, forced, under the controller's field manager. The reconciled object becomes the
    /// controller of `object`, which is placed in its namespace unless it names one.
    ///
    /// It is sent each time: only the server knows what defaults, webhooks and other managers make of it. Where that
    /// changes nothing, the server writes nothing, the resource version stays and no event follows.
    pub async fn apply<K: Object<DynamicType: Default>>(&self, object: K) -> Result<K, ContextError> {
        self.of::<K>().apply(object).await
    }

    /// Server-side apply without an owner: for objects in other namespaces or of wider scope.
    pub async fn apply_unowned<K: Object<DynamicType: Default>>(&self, object: K) -> Result<K, ContextError> {
        self.of::<K>().apply_unowned(object).await
    }

    /// Creates an object that the reconciled object controls.
    pub async fn create<K: Object<DynamicType: Default>>(&self, object: K) -> Result<K, ContextError> {
        self.of::<K>().create(object).await
    }

    /// Creates an object without an owner.
    pub async fn create_unowned<K: Object<DynamicType: Default>>(
        &self,
        object: K,
    ) -> Result<K, ContextError> {
        self.of::<K>().create_unowned(object).await
    }

    /// Replaces an object; where it carries a resource version, only if that is still the newest.
    pub async fn update<O: AsObject<M>, M>(&self, object: &O) -> Result<O::Kind, ContextError> {
        self.of::<O::Kind>().update(object.as_object()).await
    }

    /// Replaces the status of an object, under the same condition.
    pub async fn update_status<O: AsObject<M>, M>(&self, object: &O) -> Result<O::Kind, ContextError> {
        self.of::<O::Kind>().update_status(object.as_object()).await
    }

    /// Patches an object.
    pub async fn patch<O: AsObject<M>, M>(
        &self,
        object: &O,
        patch: &Patch<impl Serialize>,
    ) -> Result<O::Kind, ContextError> {
        self.of::<O::Kind>().patch(&Request::of(object.as_object()), patch).await
    }

    /// Deletes exactly this object, its dependents in the background; one of the same name with another uid is left
    /// alone. Says whether it was there.
    pub async fn delete<O: AsObject<M>, M>(&self, object: &O) -> Result<bool, ContextError> {
        self.of::<O::Kind>().delete(object.as_object()).await
    }

    /// Deletes an object under these parameters. Says whether it was there.
    pub async fn delete_with<O: AsObject<M>, M>(
        &self,
        object: &O,
        params: &DeleteParams,
    ) -> Result<bool, ContextError> {
        self.of::<O::Kind>().delete_with(&Request::of(object.as_object()), params).await
    }

    /// Deletes the children of the reconciled object, of one kind, whose names are not among those to keep; only such
    /// as `prunable` accepts. Says how many. Children are what this object controls; others are left alone.
    pub async fn prune<K: Object<DynamicType: Default>>(
        &self,
        keep: &[&str],
        prunable: impl Fn(&K) -> bool,
    ) -> Result<usize, ContextError> {
        self.of::<K>().prune(keep, prunable).await
    }

    /// The object as it is, or else as given: created by whoever comes first, never changed afterwards.
    pub async fn get_or_create<K: Object<DynamicType: Default>>(&self, object: K) -> Result<K, ContextError> {
        self.of::<K>().get_or_create(object).await
    }

    /// Creates the object if it is missing, updates it if `mutate` changes anything, else leaves it alone; says which.
    pub async fn create_or_update<K: Object<DynamicType: Default>>(
        &self,
        object: K,
        mutate: impl FnOnce(&mut K),
    ) -> Result<(K, Ensured), ContextError> {
        self.of::<K>().create_or_update(object, mutate).await
    }
}

impl<K: Object> Objects<'_, K> {
    /// See [`Ctx::prune`].
    pub async fn prune(&self, keep: &[&str], prunable: impl Fn(&K) -> bool) -> Result<usize, ContextError> {
        let Some(owner) = &*self.inner.owner else { return Ok(0) };
        let uid = &owner.reference.uid;
        let mut pruned = 0;
        for child in self.children()? {
            let ours = crate::owner::controller_of(&*child).is_some_and(|owner| owner.uid == *uid);
            let kept = child.meta().name.as_deref().is_some_and(|name| keep.contains(&name));
            let going = child.meta().deletion_timestamp.is_some();
            if ours && !kept && !going && prunable(&child) && self.delete(&child).await? {
                pruned += 1;
            }
        }
        Ok(pruned)
    }
}

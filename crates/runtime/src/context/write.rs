//! Writes of a context: with an owner and the controller's field manager, and remembered.

use kube::core::params::{DeleteParams, Patch};
use serde::Serialize;

use super::{Ctx, Objects};
use crate::error::ContextError;
use crate::kinds::Owns;
use crate::object::AsObject;
use crate::{Object, Request};

/// The effect of [`Ctx::create_or_update`].
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
    /// The object was missing and was created.
    Created,
    /// The object differed and was updated.
    Updated,
    /// The object was as it should be, and nothing was written.
    Unchanged,
}

impl<S, D> Ctx<S, D> {
    /// Applies `object` by forced server-side apply, with the controller's field manager. The reconciled object becomes
    /// the controller of `object`, which gets its namespace unless it has one.
    ///
    /// The apply is sent each time, because only the server knows the effect of defaults, webhooks and other field
    /// managers. If nothing changes, the server writes nothing: the resource version stays, and no event follows.
    pub async fn apply<K: Object<DynamicType: Default>>(&self, object: K) -> Result<K, ContextError>
    where
        D: Owns<K>,
    {
        self.of::<K>().apply(object).await
    }

    /// Applies `object` without an owner: for objects in other namespaces or of wider scope.
    pub async fn apply_unowned<K: Object<DynamicType: Default>>(&self, object: K) -> Result<K, ContextError> {
        self.of::<K>().apply_unowned(object).await
    }

    /// Creates an object. The reconciled object becomes its controller.
    pub async fn create<K: Object<DynamicType: Default>>(&self, object: K) -> Result<K, ContextError>
    where
        D: Owns<K>,
    {
        self.of::<K>().create(object).await
    }

    /// Creates an object without an owner.
    pub async fn create_unowned<K: Object<DynamicType: Default>>(
        &self,
        object: K,
    ) -> Result<K, ContextError> {
        self.of::<K>().create_unowned(object).await
    }

    /// Replaces an object. If the object has a resource version, the server refuses if that is not the newest.
    pub async fn update<O: AsObject<M>, M>(&self, object: &O) -> Result<O::Kind, ContextError> {
        self.of::<O::Kind>().update(object.as_object()).await
    }

    /// Replaces the status of an object. If the object has a resource version, the server refuses if that is not the
    /// newest.
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

    /// Deletes exactly this object, not another one with its name, and its dependents in the background. Returns whether
    /// the object existed.
    pub async fn delete<O: AsObject<M>, M>(&self, object: &O) -> Result<bool, ContextError> {
        self.of::<O::Kind>().delete(object.as_object()).await
    }

    /// Deletes an object with these parameters. Returns whether the object existed.
    pub async fn delete_with<O: AsObject<M>, M>(
        &self,
        object: &O,
        params: &DeleteParams,
    ) -> Result<bool, ContextError> {
        self.of::<O::Kind>().delete_with(&Request::of(object.as_object()), params).await
    }

    /// Deletes objects of one kind that the reconciled object controls, if their name is not in `keep` and `prunable`
    /// returns true for them. Returns how many were deleted.
    pub async fn prune<K: Object<DynamicType: Default>>(
        &self,
        keep: &[&str],
        prunable: impl Fn(&K) -> bool,
    ) -> Result<usize, ContextError>
    where
        D: Owns<K>,
    {
        self.of::<K>().prune(keep, prunable).await
    }

    /// Reads the object, or creates it if it is missing. An existing object is not changed.
    pub async fn get_or_create<K: Object<DynamicType: Default>>(&self, object: K) -> Result<K, ContextError>
    where
        D: Owns<K>,
    {
        self.of::<K>().get_or_create(object).await
    }

    /// Creates the object if it is missing, updates it if `mutate` changes it, and otherwise leaves it alone. Returns
    /// which of these it did.
    pub async fn create_or_update<K: Object<DynamicType: Default>>(
        &self,
        object: K,
        mutate: impl FnOnce(&mut K),
    ) -> Result<(K, Ensured), ContextError>
    where
        D: Owns<K>,
    {
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

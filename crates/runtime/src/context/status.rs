//! Writes of the status, which are sent only if something changes.

use kube::core::params::Patch;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::applied::is_applied;
use super::{Ctx, Objects};
use crate::error::ContextError;
use crate::object::AsObject;
use crate::{Object, Request};

impl<S, D> Ctx<S, D> {
    /// Sets the status of `object`, if it differs from `status`. Returns the written object, or `None` if nothing was
    /// sent.
    ///
    /// The write is a merge patch of the difference, through the status subresource: fields that `status` does not have
    /// are removed, and `metadata` and `spec` are never touched.
    ///
    /// ```no_run
    /// use evenkeel_runtime::conditions::NewCondition;
    /// use evenkeel_runtime::{Ctx, Result};
    /// use k8s_openapi::api::networking::v1::ServiceCIDR;
    ///
    /// async fn tell(range: &ServiceCIDR, ctx: &Ctx) -> Result<()> {
    ///     let mut status = range.status.clone().unwrap_or_default();
    ///     let ready = NewCondition::new("Ready", true, "Checked", "it overlaps with no other").observed(range);
    ///     ctx.set_condition(status.conditions.get_or_insert_default(), ready);
    ///     ctx.status(range, status).await?; // sends nothing where nothing differs
    ///     Ok(())
    /// }
    /// ```
    pub async fn status<O: AsObject<M>, M>(
        &self,
        object: &O,
        status: impl Serialize,
    ) -> Result<Option<O::Kind>, ContextError> {
        self.of::<O::Kind>().status(object.as_object(), status).await
    }

    /// Applies these fields of the status of `object` by forced server-side apply, with the controller's field manager.
    /// Returns the object as the server stored it, or `None` if nothing was sent.
    ///
    /// Unlike [`Ctx::status`], this leaves fields of others in the same status alone, such as their conditions. Fields
    /// that were applied before and are missing now are given up. Nothing is sent if the `managedFields` of `object` show
    /// that the controller owns exactly these fields with these values. A cache without `managedFields`
    /// ([`Manager::strip_managed_fields`](crate::Manager::strip_managed_fields)) cannot show that: then the apply is sent
    /// each time, and the server writes nothing if nothing differs.
    ///
    /// ```no_run
    /// use evenkeel_runtime::{Ctx, Result};
    /// use k8s_openapi::api::apps::v1::Deployment;
    ///
    /// async fn tell(deployment: &Deployment, ctx: &Ctx) -> Result<()> {
    ///     let ours = serde_json::json!({ "conditions": [{ "type": "BackedUp", "status": "True" }] });
    ///     ctx.apply_status(deployment, ours).await?; // the conditions of others stay
    ///     Ok(())
    /// }
    /// ```
    pub async fn apply_status<O: AsObject<M>, M>(
        &self,
        object: &O,
        status: impl Serialize,
    ) -> Result<Option<O::Kind>, ContextError> {
        self.of::<O::Kind>().apply_status(object.as_object(), status).await
    }
}

impl<K: Object> Objects<'_, K> {
    /// See [`Ctx::status`].
    pub async fn status(&self, object: &K, status: impl Serialize) -> Result<Option<K>, ContextError> {
        let encode = |source| ContextError::Encode { kind: "status".into(), source };
        let wanted = serde_json::to_value(status).map_err(encode)?;
        let mut body = self.body(object)?;
        let current = body.get_mut("status").map(Value::take).unwrap_or(Value::Null);
        let Some(difference) = difference(&current, &wanted) else { return Ok(None) };
        let patch = Patch::Merge(json!({ "status": difference }));
        self.patch_subresource("status", &Request::of(object), &patch).await.map(Some)
    }

    /// See [`Ctx::apply_status`].
    pub async fn apply_status(&self, object: &K, status: impl Serialize) -> Result<Option<K>, ContextError> {
        let encode = |source| ContextError::Encode { kind: "status".into(), source };
        let wanted = without_nulls(&serde_json::to_value(status).map_err(encode)?);
        let body = self.body(object)?;
        let current = body.get("status").unwrap_or(&Value::Null);
        if self.owned_status(object).is_some_and(|owned| is_applied(owned, current, &wanted)) {
            return Ok(None);
        }
        let key = Request::of(object);
        let patch = Patch::Apply(json!({
            "apiVersion": body["apiVersion"],
            "kind": body["kind"],
            "metadata": { "name": &*key.name, "namespace": key.namespace() },
            "status": wanted,
        }));
        self.patch_subresource("status", &key, &patch).await.map(Some)
    }

    /// The fields of the status that this controller applied, according to the object's `managedFields`.
    fn owned_status<'o>(&self, object: &'o K) -> Option<&'o Value> {
        let manager = &*self.inner.scope.field_manager;
        let mut entries = object.meta().managed_fields.iter().flatten();
        let ours = entries.find(|entry| {
            entry.manager.as_deref() == Some(manager)
                && entry.operation.as_deref() == Some("Apply")
                && entry.subresource.as_deref() == Some("status")
        });
        ours?.fields_v1.as_ref()?.0.get("f:status")
    }
}

/// The merge patch from `current` to `wanted`; `None` if they are equal. In a merge patch null removes a field, so that
/// null and absent count as equal.
fn difference(current: &Value, wanted: &Value) -> Option<Value> {
    match (current, wanted) {
        (Value::Object(current), Value::Object(wanted)) => {
            let mut patch = Map::new();
            for key in current.keys().filter(|key| wanted.get(*key).is_none_or(Value::is_null)) {
                if !current[key].is_null() {
                    patch.insert(key.clone(), Value::Null);
                }
            }
            for (key, value) in wanted.iter().filter(|(_, value)| !value.is_null()) {
                if let Some(change) = difference(current.get(key).unwrap_or(&Value::Null), value) {
                    patch.insert(key.clone(), change);
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (current, wanted) if current == wanted => None,
        (_, wanted) => Some(without_nulls(wanted)),
    }
}

/// Removes nulls from a value that is new as a whole, where they have no effect.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_the_least_merge_patch() {
        let current = json!({"a": 1, "b": {"c": 2, "d": 3}, "list": [1], "gone": true});
        assert_eq!(difference(&current, &current), None);
        let wanted = json!({"a": 1, "b": {"c": 2, "d": 4}, "list": [1, 2], "none": null});
        let patch = difference(&current, &wanted).unwrap();
        assert_eq!(patch, json!({"b": {"d": 4}, "list": [1, 2], "gone": null}));
        assert_eq!(difference(&Value::Null, &json!({"x": {"y": null}})), Some(json!({"x": {}})));
    }
}

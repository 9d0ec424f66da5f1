//! A small operator for these tests: every ConfigMap with the label `mirror` gets a Secret of its own with the same
//! entries, and the annotation `mirrored` once that is done.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Result, Source};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ObjectMeta, Patch};
use serde_json::json;

pub(crate) const NAME: &str = "mirror";

pub(crate) fn controller() -> Controller<ConfigMap> {
    Controller::new_with(NAME, Source::new().labels("mirror"), reconcile).owns::<Secret>()
}

async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    if map.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let secret = Secret {
        metadata: ObjectMeta { name: map.metadata.name.clone(), ..ObjectMeta::default() },
        string_data: None,
        data: map.data.clone().map(|data| {
            data.into_iter().map(|(key, value)| (key, k8s_openapi::ByteString(value.into_bytes()))).collect()
        }),
        ..Secret::default()
    };
    ctx.apply(secret).await?;
    let mirrored = map.metadata.annotations.as_ref().is_some_and(|all| all.contains_key("mirrored"));
    if !mirrored {
        let patch = json!({"metadata": {"annotations": {"mirrored": "yes"}}});
        ctx.patch(&map, &Patch::Merge(patch)).await?;
    }
    Ok(Action::await_change())
}

pub(crate) fn config(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            labels: Some(BTreeMap::from([("mirror".into(), "yes".into())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("key".into(), value.into())])),
        ..ConfigMap::default()
    }
}

/// The value of the Secret's entry `key`.
pub(crate) fn value(secret: &Secret) -> Option<String> {
    let bytes = secret.data.as_ref()?.get("key")?;
    String::from_utf8(bytes.0.clone()).ok()
}

//! Installs what an operator needs to be tried in a cluster: its custom resource definitions and samples.

use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
#[cfg(feature = "webhook-server")]
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, TypeMeta};
use kube::{Api, Client, ResourceExt as _};
#[cfg(feature = "webhook-server")]
use serde_json::{Value, json};

use crate::yaml;

/// How long the API server may take to serve a new kind. Kubernetes takes about a second.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(10);
/// How often the definition is read while waiting for it.
const POLL: Duration = Duration::from_millis(50);

/// Creates missing custom resource definitions. An existing one is not changed, because another version of the operator
/// may depend on it.
pub(super) async fn missing(client: &Client, crds: &[CustomResourceDefinition]) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds {
        let name = crd.name_any();
        let found =
            api.get_opt(&name).await.with_context(|| format!("cannot look for the definition {name}"))?;
        if found.is_none() {
            api.create(&PostParams::default(), crd).await.with_context(|| format!("cannot create {name}"))?;
            tracing::info!(%name, "created the custom resource definition, which was missing");
        }
        established(&api, &name).await?;
    }
    Ok(())
}

async fn established(api: &Api<CustomResourceDefinition>, name: &str) -> anyhow::Result<()> {
    let end = tokio::time::Instant::now() + ESTABLISHED_WITHIN;
    loop {
        let status = api.get(name).await?.status.unwrap_or_default();
        let mut conditions = status.conditions.iter().flatten();
        if conditions.any(|condition| condition.type_ == "Established" && condition.status == "True") {
            return Ok(());
        }
        if tokio::time::Instant::now() >= end {
            bail!("the definition {name} was not established within {ESTABLISHED_WITHIN:?}");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Registers the webhooks with the API server: applies the configurations of the manifests, and sets the conversions of
/// the CRDs.
#[cfg(feature = "webhook-server")]
pub(super) async fn webhooks(
    client: &Client,
    manager: &str,
    manifests: &crate::Manifests,
) -> anyhow::Result<()> {
    for object in manifests.objects() {
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let conversion = &object["spec"]["conversion"];
        if kind.ends_with("WebhookConfiguration") {
            redirect(client, &object).await.with_context(|| format!("cannot change {kind} {name}"))?;
            let applied = yaml::apply(client, client.default_namespace(), manager, &object.to_string()).await;
            applied.with_context(|| format!("cannot apply {kind} {name}"))?;
        } else if kind == "CustomResourceDefinition" && conversion["strategy"] == "Webhook" {
            let api: Api<CustomResourceDefinition> = Api::all(client.clone());
            let mut conversion = conversion.clone();
            // A chart that is installed already may have set a Service, which a merge would keep beside the URL.
            conversion["webhook"]["clientConfig"]["service"] = Value::Null;
            let patch = Patch::Merge(json!({ "spec": { "conversion": conversion } }));
            let patched = api.patch(name, &PatchParams::default(), &patch).await;
            patched.with_context(|| format!("cannot set the conversion of {name}"))?;
        }
    }
    Ok(())
}

/// Replaces the Services in a stored configuration of webhooks by the URLs of this one. The stored one may come from a chart:
/// an apply would add the URL beside the other field manager's Service, and the API server accepts only one of them.
#[cfg(feature = "webhook-server")]
async fn redirect(client: &Client, wanted: &Value) -> anyhow::Result<()> {
    let text = |name: &str| wanted[name].as_str().unwrap_or_default().to_owned();
    let types = TypeMeta { api_version: text("apiVersion"), kind: text("kind") };
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let Some(stored) = api.get_opt(name).await? else { return Ok(()) };
    if let Some(webhooks) = redirected(&stored.data["webhooks"], &wanted["webhooks"]) {
        let version = stored.metadata.resource_version;
        let patch = json!({ "metadata": { "resourceVersion": version }, "webhooks": webhooks });
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(())
}

/// Returns the stored webhooks with the URLs of the wanted ones of the same names in place of their Services. Returns `None`
/// if there is nothing to replace.
#[cfg(feature = "webhook-server")]
fn redirected(stored: &Value, wanted: &Value) -> Option<Value> {
    let mut webhooks = stored.as_array()?.clone();
    let mut changed = false;
    for webhook in &mut webhooks {
        let named = wanted.as_array()?.iter().find(|wanted| wanted["name"] == webhook["name"]);
        let url = named.map_or(Value::Null, |wanted| wanted["clientConfig"]["url"].clone());
        let Some(config) = webhook["clientConfig"].as_object_mut() else { continue };
        if url.is_string() && config.remove("service").is_some() {
            config.insert("url".to_owned(), url);
            changed = true;
        }
    }
    changed.then(|| webhooks.into())
}

/// Applies every document of these YAML texts with this field manager.
pub(super) async fn apply(client: &Client, manager: &str, samples: &[&str]) -> anyhow::Result<()> {
    for yaml in samples {
        for object in yaml::apply(client, client.default_namespace(), manager, yaml).await? {
            let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
            tracing::info!(kind, name = object.name_any(), "applied a sample");
        }
    }
    Ok(())
}

#[cfg(all(test, feature = "webhook-server"))]
mod tests {
    use super::*;

    fn webhook(name: &str, config: Value) -> Value {
        json!({ "name": name, "clientConfig": config })
    }

    #[test]
    fn services_of_webhooks_that_have_a_url_now_are_replaced() {
        let service = json!({ "service": { "name": "shop" }, "caBundle": "Y2E=" });
        let stored = json!([webhook("a", service.clone()), webhook("b", service.clone())]);
        let wanted = json!([webhook("b", json!({ "url": "https://192.0.2.1/b" }))]);
        let redirected_b = webhook("b", json!({ "url": "https://192.0.2.1/b", "caBundle": "Y2E=" }));
        assert_eq!(redirected(&stored, &wanted), Some(json!([webhook("a", service), redirected_b.clone()])));
        assert_eq!(redirected(&json!([redirected_b]), &wanted), None, "it has a URL already");
        assert_eq!(redirected(&stored, &json!([webhook("b", json!({ "service": {} }))])), None);
        assert_eq!(redirected(&Value::Null, &wanted), None);
    }
}

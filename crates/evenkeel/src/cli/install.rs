//! Installs what an operator needs to be tried in a cluster: its custom resource definitions and samples.

use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
#[cfg(feature = "webhook-server")]
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};

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
            let applied = yaml::apply(client, client.default_namespace(), manager, &object.to_string()).await;
            applied.with_context(|| format!("cannot apply {kind} {name}"))?;
        } else if kind == "CustomResourceDefinition" && conversion["strategy"] == "Webhook" {
            let api: Api<CustomResourceDefinition> = Api::all(client.clone());
            let patch = Patch::Merge(serde_json::json!({ "spec": { "conversion": conversion } }));
            let patched = api.patch(name, &PatchParams::default(), &patch).await;
            patched.with_context(|| format!("cannot set the conversion of {name}"))?;
        }
    }
    Ok(())
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

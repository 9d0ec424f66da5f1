//! What an operator needs in a cluster before it can be tried there: its kinds, and something of them.

use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client, ResourceExt as _};

/// How long a new kind may take until it is served. Kubernetes takes about a second.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(10);
/// How often that is looked at.
const POLL: Duration = Duration::from_millis(50);

/// Creates the definitions that are not there. One that is there is left as it is: another version of the operator
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

/// Applies every document of a YAML text, as this field manager.
pub(super) async fn apply(client: &Client, manager: &str, yaml: &str) -> anyhow::Result<()> {
    let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(yaml).context("cannot read the samples")?;
    for object in objects {
        let name = object.name_any();
        let types = object.types.clone().unwrap_or_default();
        apply_one(client, manager, &types, object)
            .await
            .with_context(|| format!("cannot apply {} {name}", types.kind))?;
        tracing::info!(kind = %types.kind, %name, "applied a sample");
    }
    Ok(())
}

async fn apply_one(
    client: &Client,
    manager: &str,
    types: &TypeMeta,
    object: DynamicObject,
) -> anyhow::Result<()> {
    let gvk = GroupVersionKind::try_from(types)?;
    let (resource, capabilities) = pinned_kind(client, &gvk).await?;
    let namespace = object.namespace();
    let api: Api<DynamicObject> = match (capabilities.scope, namespace) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), &namespace, &resource),
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
    };
    let params = PatchParams::apply(manager).force();
    api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await?;
    Ok(())
}

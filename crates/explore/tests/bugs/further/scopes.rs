//! A cluster-scoped resource whose children are cluster-scoped, or in another namespace: none of them has an owner, and a
//! finalizer cleans up.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::finalizer::Phase;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::Patch;
use kube::{CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const FINALIZER: &str = "example.com/tenant";

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Tenant", status = "TenantStatus")]
pub(crate) struct TenantSpec {
    verbs: Vec<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
pub(crate) struct TenantStatus {
    #[serde(default)]
    made: bool,
}

fn role(tenant: &Tenant) -> ClusterRole {
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": tenant.spec.verbs}]);
    let name = format!("tenant-{}", tenant.name_any());
    serde_json::from_value(json!({"metadata": {"name": name}, "rules": rules})).unwrap()
}

/// An entry of the tenant in the registry, which is in another namespace.
fn entry(tenant: &Tenant) -> ConfigMap {
    let mut map = ConfigMap {
        data: Some(BTreeMap::from([("verbs".to_owned(), tenant.spec.verbs.join(" "))])),
        ..ConfigMap::default()
    };
    map.metadata.name = Some(tenant.name_any());
    map.metadata.namespace = Some("registry".into());
    map
}

/// Adds the finalizer after the children were made.
async fn guards_late(tenant: Arc<Tenant>, ctx: Ctx) -> Result<Action> {
    if tenant.metadata.deletion_timestamp.is_some() {
        ctx.delete(&role(&tenant)).await?;
        ctx.delete(&entry(&tenant)).await?;
        let none = json!({"metadata": {"finalizers": null}});
        ctx.patch(&*tenant, &Patch::Merge(none)).await?;
        return Ok(Action::await_change());
    }
    ctx.apply_unowned(role(&tenant)).await?;
    ctx.apply_unowned(entry(&tenant)).await?;
    if tenant.finalizers().is_empty() {
        ctx.patch(&*tenant, &Patch::Merge(json!({"metadata": {"finalizers": [FINALIZER]}}))).await?;
    }
    Ok(Action::await_change())
}

/// Cleans up only what the status says was made.
async fn trusts_status(tenant: Arc<Tenant>, ctx: Ctx) -> Result<Action> {
    let made = tenant.status.as_ref().is_some_and(|status| status.made);
    let action = ctx.finalizer(&tenant, FINALIZER, async |phase| -> Result<Action> {
        match phase {
            Phase::Apply => {
                ctx.apply_unowned(role(&tenant)).await?;
                ctx.apply_unowned(entry(&tenant)).await?;
                ctx.status(&tenant, json!({"made": true})).await?;
            }
            Phase::Cleanup if made => {
                ctx.delete(&role(&tenant)).await?;
                ctx.delete(&entry(&tenant)).await?;
            }
            Phase::Cleanup => {}
        }
        Ok(Action::await_change())
    });
    Ok(action.await?)
}

async fn cleans_up(tenant: Arc<Tenant>, ctx: Ctx) -> Result<Action> {
    let action = ctx.finalizer(&tenant, FINALIZER, async |phase| -> Result<Action> {
        match phase {
            Phase::Apply => {
                ctx.apply_unowned(role(&tenant)).await?;
                ctx.apply_unowned(entry(&tenant)).await?;
                ctx.status(&tenant, json!({"made": true})).await?;
            }
            Phase::Cleanup => {
                ctx.delete(&role(&tenant)).await?;
                ctx.delete(&entry(&tenant)).await?;
            }
        }
        Ok(Action::await_change())
    });
    Ok(action.await?)
}

/// Makes the cluster-scoped child only with the namespaced one: a crash in between leaves it out for ever.
async fn half(tenant: Arc<Tenant>, ctx: Ctx) -> Result<Action> {
    let action = ctx.finalizer(&tenant, FINALIZER, async |phase| -> Result<Action> {
        match phase {
            Phase::Apply => {
                let kept = ctx
                    .fetch_at::<ConfigMap>(&evenkeel_runtime::Request::namespaced(
                        "registry",
                        tenant.name_any(),
                    ))
                    .await?;
                if kept.and_then(|kept| kept.data) != entry(&tenant).data {
                    ctx.apply_unowned(entry(&tenant)).await?;
                    ctx.apply_unowned(role(&tenant)).await?;
                }
            }
            Phase::Cleanup => {
                ctx.delete(&role(&tenant)).await?;
                ctx.delete(&entry(&tenant)).await?;
            }
        }
        Ok(Action::await_change())
    });
    Ok(action.await?)
}

async fn life(cluster: Cluster, controller: fn() -> Controller<Tenant>) -> kube::Result<()> {
    cluster.apply(Tenant::crd()).await?;
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("registry".into());
    cluster.apply(namespace).await?;
    cluster.settled().await;
    cluster.run(controller);
    cluster.apply(Tenant::new("blue", TenantSpec { verbs: vec!["get".into()] })).await?;
    cluster.settled().await;
    cluster.patch::<Tenant>("blue", json!({"spec": {"verbs": ["get", "list"]}})).await?;
    cluster.settled().await;
    cluster.delete::<Tenant>("blue").await?;
    cluster.settled().await;
    Ok(())
}

#[test]
fn a_finalizer_that_is_added_late_is_found() {
    crate::finds("tenant_late", &[Oracle::SameEnd], |cluster| {
        life(cluster, || Controller::new("tenant", guards_late))
    });
}

#[test]
fn a_cleanup_by_status_is_found() {
    crate::finds("tenant_status", &[Oracle::SameEnd, Oracle::Left], |cluster| {
        life(cluster, || Controller::new("tenant", trusts_status))
    });
}

#[test]
fn a_cluster_scoped_child_that_is_left_out_is_found() {
    crate::finds("tenant_half", &[Oracle::SameEnd], |cluster| {
        life(cluster, || Controller::new("tenant", half))
    });
}

#[test]
fn a_finalizer_that_cleans_up_everything_passes() {
    crate::passes_shortly("tenant_clean", |cluster| life(cluster, || Controller::new("tenant", cleans_up)));
}

//! A child with a finalizer of its own, which removes a Secret that nobody owns.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::finalizer::Phase;
use evenkeel_runtime::{Action, Controller, Ctx, Request, Result, Trigger};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, delete, prepare};
use crate::{map, secret};

const GUARD: &str = "example.com/key";

async fn plans(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(map("plan", &ensemble.spec.config)).await?;
    Ok(Action::await_change())
}

/// Makes a Secret for a plan, and removes it with the plan.
async fn keys(plan: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    if plan.name_any() != "plan" {
        return Ok(Action::await_change());
    }
    let mut key = secret("key", &format!("{:?}", plan.data));
    key.metadata.namespace = plan.namespace();
    let action = ctx.finalizer(&plan, GUARD, async |phase| -> Result<Action> {
        match phase {
            Phase::Apply => drop(ctx.apply_unowned(key.clone()).await?),
            Phase::Cleanup => drop(ctx.delete(&key).await?),
        }
        Ok(Action::await_change())
    });
    Ok(action.await?)
}

/// Makes the Secret anew whenever the plan has changed.
async fn makes_anew(plan: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    if plan.name_any() != "plan" {
        return Ok(Action::await_change());
    }
    let mut key = secret("key", &format!("{:?}", plan.data));
    key.metadata.namespace = plan.namespace();
    let action = ctx.finalizer(&plan, GUARD, async |phase| -> Result<Action> {
        let seen = ctx.get::<Secret>("key")?;
        if matches!(phase, Phase::Cleanup) || seen.is_some_and(|seen| seen.data != key.data) {
            ctx.delete(&key).await?;
        }
        if matches!(phase, Phase::Apply) {
            ctx.apply_unowned(key.clone()).await?;
        }
        Ok(Action::await_change())
    });
    Ok(action.await?)
}

async fn life(cluster: Cluster, controller: fn() -> Controller<ConfigMap>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run_manager("keys", move |manager| {
        let by_name = Trigger::map(|secret: &Secret| {
            let namespace = secret.namespace().unwrap_or_default();
            (secret.name_any() == "key").then(|| Request::namespaced(namespace, "plan"))
        });
        manager
            .controller(Controller::new("plans", plans).owns::<ConfigMap>())
            .controller(controller().watches(by_name))
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await?;
    change(&cluster, json!({"replicas": 2})).await?;
    delete(&cluster).await
}

#[test]
fn a_finalizer_that_removes_an_unowned_secret_passes() {
    crate::passes("keys", |cluster| life(cluster, || Controller::new("keys", keys)));
}

#[test]
fn a_secret_that_is_made_anew_by_an_old_view_is_found() {
    crate::finds("keys_anew", &[Oracle::Kept, Oracle::Rest], |cluster| {
        life(cluster, || Controller::new("keys", makes_anew))
    });
}

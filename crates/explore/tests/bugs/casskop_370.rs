//! After casskop 370: an operation that ended while the operator was away is waited for without end.
//!
//! To take a server away, the operator marks its pod, scales down, and then waits until it sees the marked pod terminate.
//! If it crashes and the pod is gone when it returns, it looks again and again, and notes each look in the status.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result, Trigger};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, prepare, stateful_set};

/// How long the operator waits between two looks at an operation.
const LOOK: Duration = Duration::from_secs(5);

async fn reconcile(ensemble: Arc<Ensemble>, ctx: Ctx, is_fixed: bool) -> Result<Action> {
    let name = ensemble.name_any();
    let status = ensemble.status.clone().unwrap_or_default();
    if status.phase.as_deref() == Some("Decommission") {
        let leaving = ctx.get::<Pod>(&format!("{name}-{}", ensemble.spec.replicas))?;
        let ends = match &leaving {
            Some(pod) => pod.metadata.deletion_timestamp.is_some(),
            None => is_fixed,
        };
        ctx.apply(stateful_set(&ensemble)).await?;
        if ends {
            ctx.status(&ensemble, json!({"phase": "Running", "replicas": ensemble.spec.replicas})).await?;
            return Ok(Action::await_change());
        }
        let looks = status.replicas.unwrap_or_default() + if is_fixed { 0 } else { 1000 };
        ctx.status(&ensemble, json!({"phase": "Decommission", "replicas": looks})).await?;
        return Ok(Action::requeue(LOOK));
    }
    let set = ctx.get::<StatefulSet>(&name)?;
    let running = set.and_then(|set| set.spec.as_ref()?.replicas).unwrap_or_default();
    if running > ensemble.spec.replicas {
        ctx.status(&ensemble, json!({"phase": "Decommission", "replicas": running})).await?;
        return Ok(Action::await_change());
    }
    ctx.apply(stateful_set(&ensemble)).await?;
    ctx.status(&ensemble, json!({"phase": "Running", "replicas": ensemble.spec.replicas})).await?;
    Ok(Action::await_change())
}

async fn buggy(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    reconcile(ensemble, ctx, false).await
}

async fn fixed(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    reconcile(ensemble, ctx, true).await
}

async fn life(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || {
        let controller = match is_fixed {
            true => Controller::new("casskop", fixed),
            false => Controller::new("casskop", buggy),
        };
        let by_label = Trigger::map(|pod: &Pod| {
            let namespace = pod.namespace().unwrap_or_default();
            pod.labels()
                .get("app")
                .map(|name| evenkeel_runtime::Request::namespaced(namespace, name.as_str()))
        });
        controller.owns::<StatefulSet>().watches(by_label)
    });
    create(&cluster, 2).await?;
    change(&cluster, json!({"replicas": 1})).await
}

#[test]
fn casskop_370_is_found() {
    crate::finds("casskop_370", &[Oracle::Rest], |cluster| life(cluster, false));
}

#[test]
fn casskop_370_fixed_passes() {
    crate::passes("casskop_370_fixed", |cluster| life(cluster, true));
}

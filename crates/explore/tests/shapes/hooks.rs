//! Operators with admission webhooks, which are away when the operator is.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::webhook::{Admission, FailurePolicy, FieldErrors, Verdict, Webhook};
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::ensemble::{Ensemble, create, delete, ensemble, prepare};
use crate::map;

/// An empty configuration stands for the default.
async fn defaults(mut ensemble: Ensemble, _: Admission<Ensemble>) -> Result<Ensemble> {
    if ensemble.spec.config.is_empty() {
        ensemble.spec.config = "default".into();
    }
    Ok(ensemble)
}

async fn no_blue(ensemble: Arc<Ensemble>, _: Admission<Ensemble>) -> Result<Verdict> {
    let mut errors = FieldErrors::default();
    if ensemble.spec.config == "blue" {
        errors.invalid("spec.config", "blue", "is out of stock");
    }
    Ok(errors.into())
}

/// Applies the default where the webhook has not.
async fn copies(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let config = if ensemble.spec.config.is_empty() { "default" } else { &ensemble.spec.config };
    ctx.apply(map("config", config)).await?;
    Ok(Action::await_change())
}

/// Relies on the webhook.
async fn relies(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    assert!(!ensemble.spec.config.is_empty(), "the webhook fills it");
    copies(ensemble, ctx).await
}

async fn life(cluster: Cluster, policy: FailurePolicy, is_right: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run_manager("hooked", move |manager| {
        let controller =
            if is_right { Controller::new("hooked", copies) } else { Controller::new("hooked", relies) };
        manager
            .controller(controller.owns::<ConfigMap>())
            .webhook(Webhook::mutate(defaults).failure_policy(policy))
            .webhook(Webhook::validate(no_blue).failure_policy(policy))
    });
    create(&cluster, 1).await?;
    for config in ["two", ""] {
        let mut changed = ensemble(1);
        changed.spec.config = config.into();
        cluster.apply(changed).await?;
        cluster.settled().await;
    }
    let mut blue = ensemble(1);
    blue.spec.config = "blue".into();
    assert!(cluster.apply(blue).await.is_err(), "it is out of stock");
    cluster.settled().await;
    cluster.patch::<Ensemble>("zoo", json!({"spec": {"replicas": 2}})).await?;
    cluster.settled().await;
    delete(&cluster).await
}

#[test]
fn webhooks_that_must_be_asked_pass() {
    crate::passes("hooked", |cluster| life(cluster, FailurePolicy::Fail, true));
}

#[test]
fn webhooks_that_need_not_be_asked_pass() {
    crate::passes("hooked_ignored", |cluster| life(cluster, FailurePolicy::Ignore, true));
}

#[test]
fn a_default_of_a_webhook_that_was_away_is_found() {
    crate::finds("hooked_relies", &[Oracle::Panic], |cluster| life(cluster, FailurePolicy::Ignore, false));
}

//! A namespace for each tenant, with what belongs into it.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Request, Result, Trigger};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::secret;

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Team")]
pub(crate) struct TeamSpec {
    token: String,
}

const TEAM: &str = "example.com/team";

fn namespace(team: &Team) -> Namespace {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(format!("team-{}", team.name_any()));
    namespace.metadata.labels = Some(BTreeMap::from([(TEAM.to_owned(), team.name_any())]));
    namespace
}

fn token(team: &Team) -> Secret {
    let mut secret = secret("token", &team.spec.token);
    secret.metadata.namespace = Some(format!("team-{}", team.name_any()));
    secret.metadata.labels = Some(BTreeMap::from([(TEAM.to_owned(), team.name_any())]));
    secret
}

/// Makes the namespace and what is in it, each time.
async fn applies(team: Arc<Team>, ctx: Ctx) -> Result<Action> {
    if team.metadata.deletion_timestamp.is_none() {
        ctx.apply(namespace(&team)).await?;
        ctx.apply_unowned(token(&team)).await?;
    }
    Ok(Action::await_change())
}

/// Fills the namespace when it makes it.
async fn fills_a_new_one(team: Arc<Team>, ctx: Ctx) -> Result<Action> {
    if team.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    match ctx.create(namespace(&team)).await {
        Err(error) if error.is_already_exists() => return Ok(Action::await_change()),
        created => drop(created?),
    }
    ctx.apply_unowned(token(&team)).await?;
    Ok(Action::await_change())
}

fn watched(controller: Controller<Team>) -> Controller<Team> {
    let by_label =
        Trigger::map(|secret: &Secret| secret.labels().get(TEAM).map(|team| Request::cluster(team.as_str())));
    controller.owns::<Namespace>().watches(by_label)
}

async fn life(cluster: Cluster, controller: fn() -> Controller<Team>) -> kube::Result<()> {
    cluster.apply(Team::crd()).await?;
    cluster.settled().await;
    cluster.run(move || watched(controller()));
    cluster.apply(Team::new("blue", TeamSpec { token: "one".into() })).await?;
    cluster.settled().await;
    cluster.apply(Team::new("red", TeamSpec { token: "one".into() })).await?;
    cluster.settled().await;
    cluster.patch::<Team>("blue", json!({"spec": {"token": "two"}})).await?;
    cluster.settled().await;
    cluster.delete::<Team>("blue").await?;
    cluster.settled().await;
    Ok(())
}

#[test]
fn a_namespace_that_is_filled_each_time_passes() {
    crate::passes("namespace_applied", |cluster| life(cluster, || Controller::new("teams", applies)));
}

#[test]
fn a_namespace_that_is_filled_once_is_found() {
    crate::finds("namespace_once", &[Oracle::SameEnd], |cluster| {
        life(cluster, || Controller::new("teams", fills_a_new_one))
    });
}

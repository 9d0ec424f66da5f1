//! The list of kinds owns no Secrets.
//~ is not owned in the list of kinds `PageKinds`: the controller would not notice changes of this object
//~ Secret` to `PageKinds` in its `kinds!`
//~ use `apply_unowned` or `create_unowned`

use std::sync::Arc;

use evenkeel::Result;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::prelude::*;

evenkeel::kinds! {
    /// The kinds of the controller.
    pub struct PageKinds for ConfigMap {
        owns Deployment,
        reads Secret,
    }
}

async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx<(), PageKinds>) -> Result<Action> {
    let mut secret = Secret::default();
    secret.metadata.name = map.metadata.name.clone();
    ctx.apply(Deployment::default()).await?;
    ctx.apply(secret).await?;
    Ok(Action::await_change())
}

pub fn controller() -> Controller<ConfigMap> {
    Controller::new("pages", reconcile)
}

//! The list of kinds has no Secrets.
//~ Secret` is not in the list of kinds `PageKinds`: the controller has no cache of it
//~ Secret` to `PageKinds` in its `kinds!`; or `owns
//~ `ctx.fetch` reads from the server, and needs no cache

use std::sync::Arc;

use evenkeel::Result;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::prelude::*;

evenkeel::kinds! {
    /// The kinds of the controller.
    pub struct PageKinds for ConfigMap {
        owns Deployment,
    }
}

async fn reconcile(_: Arc<ConfigMap>, ctx: Ctx<(), PageKinds>) -> Result<Action> {
    if ctx.get::<Secret>("password")?.is_some() {
        println!("{} pages, {} servers", ctx.list::<ConfigMap>()?.len(), ctx.children::<Deployment>()?.len());
    }
    Ok(Action::await_change())
}

pub fn controller() -> Controller<ConfigMap> {
    Controller::new("pages", reconcile)
}

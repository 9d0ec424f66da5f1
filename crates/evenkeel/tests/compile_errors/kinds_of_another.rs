//! The list of kinds is that of a controller of ConfigMaps.
//~ `PageKinds` is not a list of kinds for a controller of
//~ the kind after `for` is the first argument of the reconcile function

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

async fn reconcile(_: Arc<Secret>, _: Ctx<(), PageKinds>) -> Result<Action> {
    Ok(Action::await_change())
}

pub fn controller() -> Controller<Secret> {
    Controller::new("pages", reconcile)
}

//! A reconcile over a `Ctx<S>` needs its state.
//~ this controller has no state yet, which its reconcile function asks for
//~ call `.state(…)` on this controller first

use std::sync::Arc;

use evenkeel::Result;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;

pub struct Settings;

async fn reconcile(_: Arc<ConfigMap>, _: Ctx<Settings>) -> Result<Action> {
    Ok(Action::await_change())
}

pub fn manager(manager: Manager) -> Manager {
    manager.controller(Controller::new("example", reconcile))
}

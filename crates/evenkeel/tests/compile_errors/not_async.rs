//! A reconcile is async.
//~ is not a reconcile function
//~ expected `async fn(Arc<K>, Ctx<S>) -> Result<Action, E>`

use std::sync::Arc;

use evenkeel::Result;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;

fn reconcile(_: Arc<ConfigMap>, _: Ctx) -> Result<Action> {
    Ok(Action::await_change())
}

pub fn controller() -> Controller<ConfigMap> {
    Controller::new("example", reconcile)
}

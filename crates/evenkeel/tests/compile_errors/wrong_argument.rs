//! The object comes in an `Arc`.
//~ is not a reconcile function
//~ expected `async fn(Arc<K>, Ctx<S>) -> Result<Action, E>`

use evenkeel::Result;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;

async fn reconcile(_: ConfigMap, _: Ctx) -> Result<Action> {
    Ok(Action::await_change())
}

pub fn controller() -> Controller<ConfigMap> {
    Controller::new("example", reconcile)
}

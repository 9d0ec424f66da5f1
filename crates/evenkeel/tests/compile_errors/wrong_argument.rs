//! The object comes in an `Arc`.
//~ expected function signature `fn(Arc<_>, evenkeel::Ctx<_, _>) -> _`

use evenkeel::Result;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;

async fn reconcile(_: ConfigMap, _: Ctx) -> Result<Action> {
    Ok(Action::await_change())
}

pub fn controller() -> Controller<ConfigMap> {
    Controller::new("example", reconcile)
}

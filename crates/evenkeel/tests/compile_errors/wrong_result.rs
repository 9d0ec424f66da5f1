//! A reconcile says by an `Action` when it shall be called again.
//~ is not a reconcile function
//~ the result is `Result<Action, E>`

use std::sync::Arc;

use evenkeel::Result;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;

async fn reconcile(_: Arc<ConfigMap>, _: Ctx) -> Result<()> {
    Ok(())
}

pub fn controller() -> Controller<ConfigMap> {
    Controller::new("example", reconcile)
}

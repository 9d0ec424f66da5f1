//! The kind is `Site`, not `SiteSpec`.
//~ `SiteSpec` is not a Kubernetes object
//~ the kind that `#[derive(CustomResource)]` makes

use std::sync::Arc;

use evenkeel::Result;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;

#[evenkeel::api]
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
pub struct SiteSpec {
    pub html: String,
}

async fn reconcile(_: Arc<ConfigMap>, _: Ctx) -> Result<Action> {
    Ok(Action::await_change())
}

pub fn controller() -> Controller<ConfigMap> {
    Controller::new("example", reconcile).owns::<SiteSpec>()
}

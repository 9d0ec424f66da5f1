//! The kind is `Site`, not `SiteSpec`.
//~ `SiteSpec` is not a Kubernetes object
//~ the kind that `#[derive(CustomResource)]` makes

use evenkeel::prelude::*;

#[evenkeel::api]
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
pub struct SiteSpec {
    pub html: String,
}

pub fn manager(manager: Manager) -> Manager {
    manager.transform(|spec: &mut SiteSpec| spec.html.clear())
}

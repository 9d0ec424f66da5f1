//! The custom resource.

use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use evenkeel::prelude::*;

/// The desired state: a site that lists its visitors.
#[evenkeel::api]
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "VisitorsApp",
    namespaced,
    status = "VisitorsAppStatus",
    printcolumn = r#"{"name":"Size","type":"integer","jsonPath":".spec.size"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct VisitorsAppSpec {
    /// The number of backends.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 20))]
    pub size: i32,
    /// The title of the page.
    #[schemars(length(min = 1, max = 100))]
    pub title: String,
}

fn one() -> i32 {
    1
}

/// The observed state.
#[evenkeel::api]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VisitorsAppStatus {
    /// The image of the backends, once there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_image: Option<String>,
    /// The image of the frontend, once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frontend_image: Option<String>,
    /// The generation of the resource that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `DatabaseReady`, `BackendReady`, `FrontendReady`, `Ready` for all of them, and `CleanedUp` during the deletion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "evenkeel::conditions::schema")]
    pub conditions: Vec<Condition>,
}

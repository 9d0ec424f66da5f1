//! The custom resource.

use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use evenkeel::prelude::*;

/// The desired state: a Secret for each service in the source Secret.
#[evenkeel::api]
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "VcapServicesConverter",
    namespaced,
    shortname = "vcap",
    status = "VcapServicesConverterStatus",
    printcolumn = r#"{"name":"Secret","type":"string","jsonPath":".spec.secretName"}"#,
    printcolumn = r#"{"name":"Converted","type":"string","jsonPath":".status.conditions[?(@.type==\"Converted\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Converted\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VcapServicesConverterSpec {
    /// The Secret that holds the JSON, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: String,
    /// The key of the JSON in that Secret.
    #[serde(default = "vcap_services")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn vcap_services() -> String {
    "VCAP_SERVICES".to_owned()
}

/// The observed state.
#[evenkeel::api]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VcapServicesConverterStatus {
    /// The Secrets that the operator has created, one for each service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// The generation of the resource that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Converted`: whether the Secrets match the source, and if not, why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "evenkeel::conditions::schema")]
    pub conditions: Vec<Condition>,
}

//! The custom resource, in its first version. [`v2`](crate::v2) is the second one.
//!
//! The schema checks single fields by patterns, limits and CEL rules, so that the API server refuses a bad spec at once
//! without a webhook. Checks that need the previous spec, such as whether storage would shrink, are made by a webhook
//! (see the module `admission`), and again by the operator, which shows them in a condition: see
//! [`Rejection`](crate::Rejection).

use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use evenkeel::prelude::*;

/// The desired state: PostgreSQL servers with their storage.
#[evenkeel::api]
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Database",
    namespaced,
    shortname = "db",
    status = "DatabaseStatus",
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".spec.version"}"#,
    printcolumn = r#"{"name":"Storage","type":"string","jsonPath":".spec.storage"}"#,
    printcolumn = r#"{"name":"Ready","type":"integer","jsonPath":".status.readyReplicas"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Endpoint","type":"string","jsonPath":".status.endpoint","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSpec {
    /// The major version of PostgreSQL.
    #[schemars(regex(pattern = r"^[1-9][0-9]*$"))]
    pub version: String,
    /// The storage of each server, such as 10Gi. It can grow, but not shrink.
    #[serde(default = "one_gib")]
    #[schemars(regex(pattern = r"^[1-9][0-9]*(Mi|Gi|Ti)$"))]
    pub storage: String,
    /// The StorageClass; the cluster's default unless set. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// The number of servers. The first one is the primary.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: i32,
    /// The name of the database that is created at the first start. It cannot be changed.
    #[serde(default = "app")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z_][a-z0-9_]*$"))]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!(self in ['postgres', 'template0', 'template1']) && !self.startsWith('pg_')",
        "message": "PostgreSQL keeps this name for itself",
    }]))]
    pub database_name: String,
}

pub(crate) fn one_gib() -> String {
    "1Gi".to_owned()
}

pub(crate) fn one() -> i32 {
    1
}

pub(crate) fn app() -> String {
    "app".to_owned()
}

/// The observed state.
#[evenkeel::api]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// The progress of the database.
    pub phase: Phase,
    /// The number of ready servers.
    #[serde(default)]
    pub ready_replicas: i32,
    /// The address that clients connect to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The generation of the resource that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Accepted`: whether the spec can be fulfilled. `Ready`: whether it is fulfilled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "evenkeel::conditions::schema")]
    pub conditions: Vec<Condition>,
}

/// The progress of a database.
#[evenkeel::api]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not all servers are ready and up to date.
    #[default]
    Creating,
    /// The storage is growing. The servers keep running.
    Growing,
    /// All servers are ready and up to date.
    Running,
    /// The spec cannot be fulfilled; the condition `Accepted` shows why. The servers keep running.
    Rejected,
}

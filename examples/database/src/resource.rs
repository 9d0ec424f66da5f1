//! The custom resource.

use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use evenkeel::kube::CustomResource;
use evenkeel::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

/// What the user asks for: a PostgreSQL server with its storage.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Database",
    namespaced,
    shortname = "db",
    status = "DatabaseStatus",
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".spec.version"}"#,
    printcolumn = r#"{"name":"Ready","type":"integer","jsonPath":".status.readyReplicas"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    crates(
        kube_core = "evenkeel::kube::core",
        k8s_openapi = "evenkeel::k8s_openapi",
        schemars = "evenkeel::schemars",
        serde = "serde",
        serde_json = "serde_json"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSpec {
    /// The major version of PostgreSQL.
    pub version: String,
    /// How many servers; the first is the primary.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: i32,
    /// The database that is made at the first start.
    #[serde(default = "app")]
    #[schemars(length(min = 1, max = 63))]
    pub database_name: String,
}

fn one() -> i32 {
    1
}

fn app() -> String {
    "app".to_owned()
}

/// What the operator saw.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// How far it is.
    pub phase: Phase,
    /// How many servers are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Where clients connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The generation of the resource that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Accepted`: whether the spec can be carried out at all. `Ready`: whether it has been.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "evenkeel::conditions::schema")]
    pub conditions: Vec<Condition>,
}

/// How far a database is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not all servers are ready yet.
    #[default]
    Creating,
    /// Every server runs what was asked for.
    Running,
    /// The spec cannot be carried out; the condition `Accepted` says why.
    Rejected,
}

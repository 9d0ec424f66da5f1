//! The custom resource.
//!
//! What can be said of a field alone stands in its schema, as a pattern, a bound or a CEL rule: the API server refuses
//! a bad spec at once, and no webhook has to run. What needs more than that, such as whether storage would shrink, the
//! operator finds out, and says in a condition: see [`Rejection`](crate::Rejection).

use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use evenkeel::prelude::*;

/// What the user asks for: PostgreSQL servers with their storage.
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
    /// How much storage each server has, such as 10Gi. It can grow.
    #[serde(default = "one_gib")]
    #[schemars(regex(pattern = r"^[1-9][0-9]*(Mi|Gi|Ti)$"))]
    pub storage: String,
    /// The class of the storage; the cluster's default unless set. It cannot change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// How many servers; the first is the primary.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: i32,
    /// The database that is made at the first start. It cannot change.
    #[serde(default = "app")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z_][a-z0-9_]*$"))]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!(self in ['postgres', 'template0', 'template1']) && !self.startsWith('pg_')",
        "message": "PostgreSQL keeps this name for itself",
    }]))]
    pub database_name: String,
}

fn one_gib() -> String {
    "1Gi".to_owned()
}

fn one() -> i32 {
    1
}

fn app() -> String {
    "app".to_owned()
}

/// What the operator saw.
#[evenkeel::api]
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
#[evenkeel::api]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not all servers run what was asked for yet.
    #[default]
    Creating,
    /// The storage grows; the servers go on running.
    Growing,
    /// Every server runs what was asked for.
    Running,
    /// The spec cannot be carried out; the condition `Accepted` says why. What runs goes on running.
    Rejected,
}

//! The second version of the custom resource: storage is one field, with its size and its class.
//!
//! The operator works with the first version, which is also stored. That makes the first version the hub, and lets a
//! release with both versions be rolled back to one that knows the first only.

use evenkeel::prelude::*;
use evenkeel::webhook::{Conversion, Convertible};
use evenkeel::{Result, k8s_openapi};

use crate::DatabaseStatus;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The desired state: PostgreSQL servers with their storage.
#[evenkeel::api]
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[kube(
    group = "example.com",
    version = "v2",
    kind = "Database",
    namespaced,
    shortname = "db",
    status = "DatabaseStatus",
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".spec.version"}"#,
    printcolumn = r#"{"name":"Storage","type":"string","jsonPath":".spec.storage.size"}"#,
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
    /// The storage of each server.
    #[serde(default)]
    pub storage: Storage,
    /// The number of servers. The first one is the primary.
    #[serde(default = "crate::resource::one")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: i32,
    /// The name of the database that is created at the first start. It cannot be changed.
    #[serde(default = "crate::resource::app")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z_][a-z0-9_]*$"))]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!(self in ['postgres', 'template0', 'template1']) && !self.startsWith('pg_')",
        "message": "PostgreSQL keeps this name for itself",
    }]))]
    pub database_name: String,
}

/// The storage of a server.
#[evenkeel::api]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Storage {
    /// The size, such as 10Gi. It can grow, but not shrink.
    #[serde(default = "crate::resource::one_gib")]
    #[schemars(regex(pattern = r"^[1-9][0-9]*(Mi|Gi|Ti)$"))]
    pub size: String,
    /// The StorageClass; the cluster's default unless set. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

impl Default for Storage {
    fn default() -> Self {
        Self { size: crate::resource::one_gib(), class: None }
    }
}

impl Convertible for Database {
    type Hub = crate::Database;

    fn into_hub(self) -> Result<crate::Database> {
        let DatabaseSpec { version, storage, replicas, database_name } = self.spec;
        let Storage { size, class } = storage;
        let spec =
            crate::DatabaseSpec { version, storage: size, storage_class: class, replicas, database_name };
        Ok(crate::Database { metadata: self.metadata, spec, status: self.status })
    }

    fn from_hub(hub: crate::Database) -> Result<Self> {
        let crate::DatabaseSpec { version, storage, storage_class, replicas, database_name } = hub.spec;
        let storage = Storage { size: storage, class: storage_class };
        let spec = DatabaseSpec { version, storage, replicas, database_name };
        Ok(Self { metadata: hub.metadata, spec, status: hub.status })
    }
}

/// The versions of a database.
pub fn conversion() -> Conversion<crate::Database> {
    Conversion::new().spoke::<Database>()
}

/// The definition with both versions.
pub fn definition() -> CustomResourceDefinition {
    merged(&conversion())
}

/// The versions of a database in the next release, which stores the second version, and rewrites the databases that are
/// stored in the first. Only then, when no replica is left that knows the first version alone, is that safe.
pub fn migration() -> Conversion<crate::Database> {
    conversion().stored("v2").migrate_storage()
}

/// The definition of the next release.
pub fn next_definition() -> CustomResourceDefinition {
    merged(&migration())
}

fn merged(conversion: &Conversion<crate::Database>) -> CustomResourceDefinition {
    conversion.crd().expect("both versions have the same names and scope")
}

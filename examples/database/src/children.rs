//! The child objects of a database, with only the fields that this operator manages.

use std::collections::BTreeMap;

use evenkeel::k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use evenkeel::k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PodSpec, PodTemplateSpec, Secret, SecretKeySelector, Service, ServicePort, ServiceSpec, VolumeMount,
    VolumeResourceRequirements,
};
use evenkeel::k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use evenkeel::kube::ResourceExt;

use crate::{Database, Rejection};

/// The port on which PostgreSQL listens.
const PORT: i32 = 5432;

/// The port on which the exporter answers with metrics, which say whether PostgreSQL is up.
const EXPORTER_PORT: i32 = 9187;

/// The image of the exporter.
const EXPORTER_IMAGE: &str = "quay.io/prometheuscommunity/postgres-exporter:v0.19.1";

/// The name of the container with PostgreSQL.
pub(crate) const SERVER: &str = "postgres";

/// The key of the password in the Secret.
pub const PASSWORD: &str = "password";

/// The key of the database's name in the Secret.
pub(crate) const DATABASE_NAME: &str = "database";

/// The label of everything that belongs to a database; its value is the database's name.
pub(crate) const LABEL: &str = "example.com/database";

/// The name of the volume with the data.
const DATA: &str = "data";

/// The versions that this operator knows how to run.
pub(crate) const VERSIONS: [&str; 3] = ["16", "17", "18"];

/// The image of the requested version.
pub(crate) fn image(database: &Database) -> Result<String, Rejection> {
    let version = database.spec.version.as_str();
    if VERSIONS.contains(&version) {
        return Ok(format!("postgres:{version}"));
    }
    Err(Rejection::Version { version: version.to_owned(), known: VERSIONS.join(", ") })
}

/// The address that clients of the database connect to.
pub(crate) fn endpoint(database: &Database) -> String {
    format!("{}.{}.svc:{PORT}", database.name_any(), database.namespace().unwrap_or_default())
}

/// The URL that tells the health of the servers.
pub(crate) fn health(database: &Database) -> String {
    let (name, namespace) = (database.name_any(), database.namespace().unwrap_or_default());
    format!("http://{name}.{namespace}.svc:{EXPORTER_PORT}/metrics")
}

/// The pod of the first server, which is the primary.
pub(crate) fn first_server(database: &Database) -> String {
    format!("{}-0", database.name_any())
}

/// The Secret with the password and the name of the database. It is immutable: both take effect only at the first
/// start, and with another password the data would no longer be accessible.
pub(crate) fn secret(database: &Database, password: &str) -> Secret {
    let pairs = [(PASSWORD, password), (DATABASE_NAME, &database.spec.database_name)];
    Secret {
        metadata: metadata(database),
        immutable: Some(true),
        string_data: Some(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        ..Default::default()
    }
}

/// The headless Service that gives each server its name.
pub(crate) fn service(database: &Database) -> Service {
    let port = |name: &str, port| ServicePort { name: Some(name.to_owned()), port, ..Default::default() };
    let ports = vec![port("postgres", PORT), port("metrics", EXPORTER_PORT)];
    Service {
        metadata: metadata(database),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(labels(database)),
            ports: Some(ports),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// The StatefulSet that runs the servers.
pub(crate) fn stateful_set(database: &Database, image: &str) -> StatefulSet {
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels(database)), ..Default::default() }),
        spec: Some(PodSpec {
            containers: vec![container(database, image), exporter(database)],
            ..Default::default()
        }),
    };
    StatefulSet {
        metadata: metadata(database),
        spec: Some(StatefulSetSpec {
            replicas: Some(database.spec.replicas),
            selector: LabelSelector { match_labels: Some(labels(database)), ..Default::default() },
            service_name: Some(database.name_any()),
            template,
            volume_claim_templates: Some(vec![claim(database)]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// The volume claim template of each server. Its label relates the claims that the StatefulSet creates to the database.
fn claim(database: &Database) -> PersistentVolumeClaim {
    let storage = BTreeMap::from([("storage".to_owned(), Quantity(database.spec.storage.clone()))]);
    let metadata =
        ObjectMeta { name: Some(DATA.to_owned()), labels: Some(labels(database)), ..Default::default() };
    PersistentVolumeClaim {
        metadata,
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements { requests: Some(storage), limits: None }),
            storage_class_name: database.spec.storage_class.clone(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// An environment variable with a value of the Secret.
fn from_secret(database: &Database, name: &str, key: &str) -> EnvVar {
    let key = SecretKeySelector { name: database.name_any(), key: key.to_owned(), optional: None };
    let value_from = EnvVarSource { secret_key_ref: Some(key), ..Default::default() };
    EnvVar { name: name.to_owned(), value: None, value_from: Some(value_from) }
}

/// The container that tells the health of the server beside it.
fn exporter(database: &Database) -> Container {
    let value = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    };
    let env = vec![
        value("DATA_SOURCE_URI", "localhost/postgres?sslmode=disable"),
        value("DATA_SOURCE_USER", "postgres"),
        from_secret(database, "DATA_SOURCE_PASS", PASSWORD),
    ];
    Container {
        name: "exporter".to_owned(),
        image: Some(EXPORTER_IMAGE.to_owned()),
        env: Some(env),
        ports: Some(vec![ContainerPort { container_port: EXPORTER_PORT, ..Default::default() }]),
        ..Default::default()
    }
}

fn container(database: &Database, image: &str) -> Container {
    let from_secret = |name, key| from_secret(database, name, key);
    let env = vec![from_secret("POSTGRES_DB", DATABASE_NAME), from_secret("POSTGRES_PASSWORD", PASSWORD)];
    let data = VolumeMount {
        name: DATA.to_owned(),
        mount_path: "/var/lib/postgresql".to_owned(),
        ..Default::default()
    };
    Container {
        name: SERVER.to_owned(),
        image: Some(image.to_owned()),
        env: Some(env),
        ports: Some(vec![ContainerPort { container_port: PORT, ..Default::default() }]),
        volume_mounts: Some(vec![data]),
        ..Default::default()
    }
}

fn metadata(database: &Database) -> ObjectMeta {
    ObjectMeta {
        name: Some(database.name_any()),
        namespace: database.namespace(),
        labels: Some(labels(database)),
        ..Default::default()
    }
}

fn labels(database: &Database) -> BTreeMap<String, String> {
    BTreeMap::from([(LABEL.to_owned(), database.name_any())])
}

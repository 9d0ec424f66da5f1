//! The objects that a database consists of: only the fields that this operator has an opinion on.

use std::collections::BTreeMap;

use evenkeel::k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use evenkeel::k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, PodSpec, PodTemplateSpec, Secret, SecretKeySelector,
    Service, ServicePort, ServiceSpec,
};
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use evenkeel::kube::ResourceExt;

use crate::Database;

/// The port on which PostgreSQL listens.
const PORT: i32 = 5432;

/// The key of the password in the Secret.
pub const PASSWORD: &str = "password";

/// The versions that this operator knows how to run.
const VERSIONS: [&str; 3] = ["16", "17", "18"];

/// A spec that no retry can carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(pub String);

/// The image of the version that is asked for.
pub(crate) fn image(database: &Database) -> Result<String, Unsupported> {
    let version = database.spec.version.as_str();
    if VERSIONS.contains(&version) {
        return Ok(format!("postgres:{version}"));
    }
    Err(Unsupported(format!("version {version:?} is not one of {}", VERSIONS.join(", "))))
}

/// Where clients of the database connect.
pub(crate) fn endpoint(database: &Database) -> String {
    format!("{}.{}.svc:{PORT}", database.name_any(), database.namespace().unwrap_or_default())
}

/// The Secret with the password. It is made once: a password that changed would lock the data away.
pub(crate) fn secret(database: &Database, password: &str) -> Secret {
    Secret {
        metadata: metadata(database),
        string_data: Some(BTreeMap::from([(PASSWORD.to_owned(), password.to_owned())])),
        ..Default::default()
    }
}

/// The headless Service that gives each server its name.
pub(crate) fn service(database: &Database) -> Service {
    let port = ServicePort { name: Some("postgres".to_owned()), port: PORT, ..Default::default() };
    Service {
        metadata: metadata(database),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(labels(database)),
            ports: Some(vec![port]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// The StatefulSet that runs the servers.
pub(crate) fn stateful_set(database: &Database, image: &str) -> StatefulSet {
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels(database)), ..Default::default() }),
        spec: Some(PodSpec { containers: vec![container(database, image)], ..Default::default() }),
    };
    StatefulSet {
        metadata: metadata(database),
        spec: Some(StatefulSetSpec {
            replicas: Some(database.spec.replicas),
            selector: LabelSelector { match_labels: Some(labels(database)), ..Default::default() },
            service_name: Some(database.name_any()),
            template,
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn container(database: &Database, image: &str) -> Container {
    let password = SecretKeySelector { name: database.name_any(), key: PASSWORD.to_owned(), optional: None };
    let from_secret = EnvVarSource { secret_key_ref: Some(password), ..Default::default() };
    let env = vec![
        EnvVar {
            name: "POSTGRES_DB".to_owned(),
            value: Some(database.spec.database_name.clone()),
            value_from: None,
        },
        EnvVar { name: "POSTGRES_PASSWORD".to_owned(), value: None, value_from: Some(from_secret) },
    ];
    Container {
        name: "postgres".to_owned(),
        image: Some(image.to_owned()),
        env: Some(env),
        ports: Some(vec![ContainerPort { container_port: PORT, ..Default::default() }]),
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
    BTreeMap::from([("example.com/database".to_owned(), database.name_any())])
}

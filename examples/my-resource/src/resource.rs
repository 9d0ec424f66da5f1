//! The custom resource, and the Deployment that it asks for.

use evenkeel::k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use evenkeel::k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, ResourceRequirements};
use evenkeel::k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use evenkeel::kube::{CustomResource, ResourceExt};
use evenkeel::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

/// What the user asks for: one container with this image and this much memory.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "MyResource",
    namespaced,
    shortname = "mr",
    status = "MyResourceStatus",
    printcolumn = r#"{"name":"Image","type":"string","jsonPath":".spec.image"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    crates(
        kube_core = "evenkeel::kube::core",
        k8s_openapi = "evenkeel::k8s_openapi",
        schemars = "evenkeel::schemars",
        serde = "serde",
        serde_json = "serde_json"
    )
)]
pub struct MyResourceSpec {
    /// The image to run.
    pub image: String,
    /// The memory that the container may use, as a Kubernetes quantity.
    pub memory: String,
}

/// What the operator saw.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MyResourceStatus {
    /// How far it is.
    pub phase: Phase,
    /// The generation of the resource that this status is about.
    pub observed_generation: Option<i64>,
}

/// How far a resource is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Its Deployment is not ready yet.
    #[default]
    Building,
    /// Its Deployment runs what was asked for.
    Ready,
}

/// The Deployment that `my` asks for: only the fields that this operator has an opinion on.
pub fn deployment_for(my: &MyResource) -> Deployment {
    let labels = std::collections::BTreeMap::from([("app".to_owned(), my.name_any())]);
    let memory = std::collections::BTreeMap::from([("memory".to_owned(), Quantity(my.spec.memory.clone()))]);
    let container = Container {
        name: "main".to_owned(),
        image: Some(my.spec.image.clone()),
        resources: Some(ResourceRequirements { limits: Some(memory), ..Default::default() }),
        ..Default::default()
    };
    Deployment {
        metadata: ObjectMeta { name: Some(my.name_any()), namespace: my.namespace(), ..Default::default() },
        spec: Some(DeploymentSpec {
            selector: LabelSelector { match_labels: Some(labels.clone()), ..Default::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..Default::default() }),
                spec: Some(PodSpec { containers: vec![container], ..Default::default() }),
            },
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// What the Deployment's status says about `my`.
pub fn status_of(my: &MyResource, deployment: &Deployment) -> MyResourceStatus {
    MyResourceStatus {
        phase: if is_ready(deployment) { Phase::Ready } else { Phase::Building },
        observed_generation: my.metadata.generation,
    }
}

/// Ready means that the Deployment controller has seen the newest spec and that all its pods run it.
fn is_ready(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation == deployment.metadata.generation
            && status.updated_replicas.unwrap_or(0) == wanted
            && status.available_replicas.unwrap_or(0) == wanted
            && status.replicas.unwrap_or(0) == wanted
    })
}

//! The custom resource, and the Deployment that it leads to.

use std::collections::BTreeMap;

use evenkeel::ContextError;
use evenkeel::k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use evenkeel::k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, ResourceRequirements};
use evenkeel::k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use evenkeel::prelude::*;

/// The desired state: one container with this image and memory limit.
#[evenkeel::api]
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "MyResource",
    namespaced,
    shortname = "mr",
    status = "MyResourceStatus",
    printcolumn = r#"{"name":"Image","type":"string","jsonPath":".spec.image"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#
)]
pub struct MyResourceSpec {
    /// The image to run.
    #[schemars(length(min = 1))]
    pub image: String,
    /// The memory that the container may use, as a Kubernetes quantity such as 64Mi.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"))]
    pub memory: String,
}

/// The observed state.
#[evenkeel::api]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MyResourceStatus {
    /// The progress of the Deployment.
    pub phase: Phase,
    /// The generation of the resource that this status describes.
    pub observed_generation: Option<i64>,
    /// The reason of a problem, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl MyResourceStatus {
    /// The API server refuses the Deployment for this spec.
    pub(crate) fn refused(my: &MyResource, why: &ContextError) -> Self {
        let observed_generation = my.metadata.generation;
        Self { phase: Phase::Building, observed_generation, message: Some(why.to_string()) }
    }
}

/// The progress of a resource.
#[evenkeel::api]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The Deployment is not ready yet.
    #[default]
    Building,
    /// The Deployment is ready and up to date.
    Ready,
}

/// The desired Deployment of `my`, with only the fields that this operator manages.
pub fn deployment_for(my: &MyResource) -> Deployment {
    let labels = BTreeMap::from([("app".to_owned(), my.name_any())]);
    let memory = BTreeMap::from([("memory".to_owned(), Quantity(my.spec.memory.clone()))]);
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

/// The status of `my`, from the status of its Deployment.
pub fn status_of(my: &MyResource, deployment: &Deployment) -> MyResourceStatus {
    MyResourceStatus {
        phase: if deployment.is_rolled_out() { Phase::Ready } else { Phase::Building },
        observed_generation: my.metadata.generation,
        message: None,
    }
}

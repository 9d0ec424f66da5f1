//! The operators of the demo: how to run each, its sample, and the expected result.

use std::sync::Arc;

use evenkeel::Cluster;
use evenkeel::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use evenkeel::kube::CustomResourceExt as _;
use evenkeel::kube::core::{ApiResource, GroupVersionKind};

/// An operator with its sample.
pub(super) struct Example {
    /// The operator's name, as it appears in the record of requests.
    pub(super) name: &'static str,
    /// The definition of its custom resource, if it has one.
    pub(super) crd: Option<fn() -> CustomResourceDefinition>,
    /// Runs the operator in a cluster.
    pub(super) run: fn(&Cluster),
    /// The YAML documents to apply.
    pub(super) sample: &'static str,
    /// The state that the sample must reach.
    pub(super) goal: Goal,
    /// The child that the demo deletes, and that the operator must create again.
    pub(super) child: Object,
    /// How many pods the sample leads to.
    pub(super) pods: usize,
}

/// The state that a sample must reach.
pub(super) struct Goal {
    /// The object whose status shows the state.
    pub(super) object: Object,
    /// What the status must show.
    pub(super) shows: Shows,
}

/// What the status of an object must show.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shows {
    /// This value of `status.phase`.
    Phase(&'static str),
    /// A condition of this type that is true.
    Condition(&'static str),
}

/// An object by its kind and name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    pub(super) name: &'static str,
}

const fn object(group: &'static str, kind: &'static str, name: &'static str) -> Object {
    Object { group, kind, name }
}

impl Object {
    pub(super) fn resource(self) -> ApiResource {
        resource(self.group, self.kind)
    }
}

/// The API resource of a kind in version v1, which all kinds of the demo have.
pub(super) fn resource(group: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind))
}

/// The group of the examples' custom resources.
const EXAMPLES: &str = "example.com";

/// The operators of the demo.
pub(super) static ALL: [Example; 5] = [
    Example {
        name: my_resource::NAME,
        crd: Some(my_resource::MyResource::crd),
        run: |cluster| cluster.run(my_resource::controller),
        sample: my_resource::SAMPLE,
        goal: Goal { object: object(EXAMPLES, "MyResource", "web"), shows: Shows::Phase("Ready") },
        child: object("apps", "Deployment", "web"),
        pods: 1,
    },
    Example {
        name: visitors_app::NAME,
        crd: Some(visitors_app::VisitorsApp::crd),
        run: |cluster| cluster.run(|| visitors_app::controller(Arc::new(visitors_app::NoUploads))),
        sample: visitors_app::SAMPLE,
        goal: Goal { object: object(EXAMPLES, "VisitorsApp", "guestbook"), shows: Shows::Condition("Ready") },
        child: object("apps", "Deployment", "guestbook-backend"),
        pods: 4,
    },
    Example {
        name: database::NAME,
        crd: Some(database::v2::definition),
        run: |cluster| {
            let add = |manager| database::add_to(manager, Arc::new(database::NoBackup));
            cluster.run_manager(database::NAME, add);
        },
        sample: database::SAMPLE,
        goal: Goal { object: object(EXAMPLES, "Database", "orders"), shows: Shows::Phase("Running") },
        child: object("", "Service", "orders"),
        pods: 2,
    },
    Example {
        name: vcap_services_converter::NAME,
        crd: Some(vcap_services_converter::VcapServicesConverter::crd),
        run: |cluster| cluster.run(vcap_services_converter::controller),
        sample: vcap_services_converter::SAMPLE,
        goal: Goal {
            object: object(EXAMPLES, "VcapServicesConverter", "shop"),
            shows: Shows::Condition("Converted"),
        },
        child: object("", "Secret", "shop-cache"),
        pods: 0,
    },
    Example {
        name: pod_sidecar::NAME,
        crd: None,
        run: |cluster| cluster.run_manager(pod_sidecar::NAME, pod_sidecar::add_to),
        sample: pod_sidecar::SAMPLE,
        goal: Goal { object: object("", "Pod", "web-companion"), shows: Shows::Condition("Ready") },
        child: object("", "Pod", "web-companion"),
        pods: 2,
    },
];

/// The names of the operators.
pub(super) fn names() -> [&'static str; 5] {
    ALL.each_ref().map(|example| example.name)
}

/// The built-in kinds of which no object may be left when the samples are deleted.
pub(super) const BUILT_IN: [(&str, &str); 6] = [
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("", "Secret"),
    ("", "Service"),
    ("", "Pod"),
];

/// The name of the API server's own Service, which always exists.
pub(super) const KUBERNETES: &str = "kubernetes";

//! The operators of the demo: how each is run, what is applied for it, and what must come of that.

use std::sync::Arc;

use evenkeel::Cluster;
use evenkeel::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use evenkeel::kube::CustomResourceExt as _;
use evenkeel::kube::core::{ApiResource, GroupVersionKind};

/// An operator with its sample.
pub(super) struct Example {
    /// The operator's name, under which its requests are known.
    pub(super) name: &'static str,
    /// Its custom resource.
    pub(super) crd: Option<fn() -> CustomResourceDefinition>,
    /// Runs it in a cluster.
    pub(super) run: fn(&Cluster),
    /// What is applied: YAML documents.
    pub(super) sample: &'static str,
    /// What must then hold.
    pub(super) goal: Goal,
    /// What is deleted to make it drift, and must come back.
    pub(super) child: Object,
    /// How many pods the sample comes to.
    pub(super) pods: usize,
}

/// When a sample is as declared.
pub(super) struct Goal {
    /// The object that shows it.
    pub(super) object: Object,
    /// What it must show.
    pub(super) shows: Shows,
}

/// What an object shows in its status.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shows {
    /// `status.phase`.
    Phase(&'static str),
    /// A condition that is true.
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

/// A kind of version v1, which all kinds of the demo have.
pub(super) fn resource(group: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind))
}

/// The group of the examples' custom resources.
const EXAMPLES: &str = "example.com";

/// All of them.
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
        crd: Some(database::Database::crd),
        run: |cluster| cluster.run(|| database::controller(Arc::new(database::NoBackup))),
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

/// The kinds of which nothing may be left when the samples are gone, besides the custom ones.
pub(super) const BUILT_IN: [(&str, &str); 6] = [
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("", "Secret"),
    ("", "Service"),
    ("", "Pod"),
];

/// The Service of the API server itself.
pub(super) const KUBERNETES: &str = "kubernetes";

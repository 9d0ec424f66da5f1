//! The EndpointSlices of a Service: at most a hundred addresses in each, all with the same ports.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_tree::{Tree, tree};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::backends::{Backend, HEADLESS, is_headless};
use crate::kinds::{EndpointSlice, Service};

/// How many addresses one slice holds: Kubernetes' default.
const SIZE: usize = 100;

/// The label of a slice with the controller that manages it.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The value of the label [`MANAGED_BY`] for this controller.
const CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// The label of a slice with the name of its Service.
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The writes that bring the slices up to date.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) update: Vec<EndpointSlice>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
}

/// Whether this controller created the slice.
pub(super) fn is_ours(slice: &EndpointSlice) -> bool {
    slice.label(MANAGED_BY) == Some(CONTROLLER)
}

/// Computes the writes after which the slices hold these backends.
pub(super) fn plan(service: &Service, backends: &[Backend], mut present: Vec<Arc<EndpointSlice>>) -> Plan {
    let family = service.str("spec/ipFamilies/0").unwrap_or("IPv4");
    let labels = labels(service);
    let mut plan = Plan::default();
    for (ports, endpoints) in wanted(backends) {
        // A slice with the same ports is kept, so that its watchers see as few changes as possible.
        let same =
            |slice: &Arc<EndpointSlice>| slice.list("ports") == ports && slice.is("addressType", family);
        let kept = present.iter().position(same).or_else(|| (!present.is_empty()).then_some(0));
        let kept = kept.map(|at| present.remove(at));
        let mut slice = match &kept {
            Some(old) => EndpointSlice::clone(old),
            None => new(service, family),
        };
        slice.set("ports", (!ports.is_empty()).then_some(ports));
        slice.set("endpoints", endpoints);
        slice.metadata.labels = Some(labels.clone());
        let same_lists = |old: &EndpointSlice| {
            ["ports", "endpoints"].iter().all(|list| old.list(list) == slice.list(list))
        };
        match kept {
            Some(old) if same_lists(&old) && old.metadata.labels == slice.metadata.labels => {}
            Some(_) => plan.update.push(slice),
            None => plan.create.push(slice),
        }
    }
    plan.delete = present;
    plan
}

/// Returns an empty slice of a Service.
fn new(service: &Service, family: &str) -> EndpointSlice {
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", service.name())),
        namespace: service.metadata.namespace.clone(),
        ..ObjectMeta::default()
    };
    EndpointSlice::new(metadata, tree!({"addressType": family}))
}

/// Returns ports and endpoints of the slices. Without backends, there is one empty slice.
fn wanted(backends: &[Backend]) -> Vec<(Vec<Tree>, Vec<Tree>)> {
    let mut groups: Vec<(Vec<Tree>, Vec<Tree>)> = Vec::new();
    for backend in backends {
        let ports = ports(backend);
        let open = groups.iter_mut().find(|(of, endpoints)| *of == ports && endpoints.len() < SIZE);
        match open {
            Some((_, endpoints)) => endpoints.push(endpoint(backend)),
            None => groups.push((ports, vec![endpoint(backend)])),
        }
    }
    if groups.is_empty() {
        groups.push((Vec::new(), Vec::new()));
    }
    groups
}

fn ports(backend: &Backend) -> Vec<Tree> {
    let port = |(port, number): &(Tree, i32)| {
        tree!({
            "name": port.str("name").unwrap_or_default(), "port": *number,
            "protocol": port.at("protocol"), "appProtocol": port.at("appProtocol"),
        })
    };
    backend.ports.iter().map(port).collect()
}

fn endpoint(backend: &Backend) -> Tree {
    let conditions = tree!({
        "ready": backend.ready(), "serving": backend.serving, "terminating": backend.terminating,
    });
    tree!({
        "addresses": vec![&backend.address], "conditions": conditions, "hostname": backend.hostname(),
        "nodeName": backend.node(), "targetRef": backend.target(),
    })
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.labels().clone();
    labels.insert(SERVICE_NAME.to_owned(), service.name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

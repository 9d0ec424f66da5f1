//! The EndpointSlices of a Service: at most a hundred addresses in each, all with the same ports.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::backends::{Backend, HEADLESS, is_headless};
use crate::openapi_compat::into_field;

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
    slice.labels().get(MANAGED_BY).map(String::as_str) == Some(CONTROLLER)
}

/// Computes the writes after which the slices hold these backends.
pub(super) fn plan(service: &Service, backends: &[Backend], mut present: Vec<Arc<EndpointSlice>>) -> Plan {
    let family =
        service.spec.as_ref().and_then(|spec| spec.ip_families.as_ref()).and_then(|all| all.first().cloned());
    let family = family.unwrap_or_else(|| "IPv4".to_owned());
    let labels = labels(service);
    let mut plan = Plan::default();
    for (ports, endpoints) in wanted(backends) {
        // A slice with the same ports is kept, so that its watchers see as few changes as possible.
        let same = |slice: &Arc<EndpointSlice>| {
            slice.ports.clone().unwrap_or_default() == ports && slice.address_type == family
        };
        match present.iter().position(same).or_else(|| (!present.is_empty()).then_some(0)) {
            Some(at) => {
                let old = present.remove(at);
                let mut new = EndpointSlice::clone(&old);
                new.ports = Some(ports).filter(|ports| !ports.is_empty());
                new.endpoints = into_field(endpoints);
                new.metadata.labels = Some(labels.clone());
                if new.ports.clone().unwrap_or_default() != old.ports.clone().unwrap_or_default()
                    || held(&new) != held(&old)
                    || new.metadata.labels != old.metadata.labels
                {
                    plan.update.push(new);
                }
            }
            None => plan.create.push(EndpointSlice {
                metadata: ObjectMeta {
                    generate_name: Some(format!("{}-", service.name_any())),
                    namespace: service.namespace(),
                    labels: Some(labels.clone()),
                    ..ObjectMeta::default()
                },
                address_type: family.clone(),
                endpoints: into_field(endpoints),
                ports: Some(ports).filter(|ports| !ports.is_empty()),
            }),
        }
    }
    plan.delete = present;
    plan
}

fn held(slice: &EndpointSlice) -> &[Endpoint] {
    let endpoints: Option<&Vec<Endpoint>> = (&slice.endpoints).into();
    endpoints.map_or(&[], Vec::as_slice)
}

/// Returns ports and endpoints of the slices. Without backends, there is one empty slice.
fn wanted(backends: &[Backend]) -> Vec<(Vec<EndpointPort>, Vec<Endpoint>)> {
    let mut groups: Vec<(Vec<EndpointPort>, Vec<Endpoint>)> = Vec::new();
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

fn ports(backend: &Backend) -> Vec<EndpointPort> {
    let port = |(port, number): &(k8s_openapi::api::core::v1::ServicePort, i32)| EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(*number),
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    };
    backend.ports.iter().map(port).collect()
}

fn endpoint(backend: &Backend) -> Endpoint {
    Endpoint {
        addresses: vec![backend.address.clone()],
        conditions: Some(EndpointConditions {
            ready: Some(backend.ready()),
            serving: Some(backend.serving),
            terminating: Some(backend.terminating),
        }),
        hostname: backend.hostname(),
        node_name: backend.node().map(str::to_owned),
        target_ref: Some(backend.target()),
        ..Endpoint::default()
    }
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.labels().clone();
    labels.insert(SERVICE_NAME.to_owned(), service.name_any());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

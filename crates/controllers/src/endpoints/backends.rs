//! The pods behind a Service, and the ports they listen on.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, ObjectReference, Pod, Service, ServicePort,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::pod;

/// The label of Endpoints with the controller that creates them.
pub(super) const ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// The label of Endpoints and slices of a headless Service.
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";

/// A pod behind a Service, with its ports.
#[derive(Clone, Debug)]
pub(super) struct Backend {
    pub(super) pod: Arc<Pod>,
    pub(super) address: String,
    /// The ports of the Service that the pod has, each with its number in the pod.
    pub(super) ports: Vec<(ServicePort, i32)>,
    /// Whether the pod is ready.
    pub(super) serving: bool,
    /// Whether the pod is being deleted.
    pub(super) terminating: bool,
    hostname: Option<String>,
    publish_not_ready: bool,
}

impl Backend {
    /// Returns the pod as a backend; `None` while it has no address, or if it has finished.
    pub(super) fn of(service: &Service, pod: Arc<Pod>) -> Option<Self> {
        let address = pod.status.as_ref()?.pod_ip.clone().filter(|address| !address.is_empty())?;
        if pod::is_finished(&pod) {
            return None;
        }
        let spec = service.spec.as_ref()?;
        let ports = spec.ports.iter().flatten();
        let ports: Vec<_> = ports.filter_map(|port| Some((port.clone(), number(port, &pod)?))).collect();
        let names = pod.spec.as_ref()?;
        let same_domain = names.subdomain.as_deref() == Some(service.name_any().as_str());
        let hostname = names.hostname.clone().filter(|name| !name.is_empty() && same_domain);
        Some(Self {
            address,
            ports,
            serving: pod::is_ready(&pod),
            terminating: pod::is_deleting(&pod),
            hostname,
            publish_not_ready: spec.publish_not_ready_addresses == Some(true),
            pod,
        })
    }

    pub(super) fn node(&self) -> Option<&str> {
        pod::node_name(&self.pod)
    }

    pub(super) fn hostname(&self) -> Option<String> {
        self.hostname.clone()
    }

    /// Whether clients should use the backend.
    pub(super) fn ready(&self) -> bool {
        self.publish_not_ready || (self.serving && !self.terminating)
    }

    pub(super) fn target(&self) -> ObjectReference {
        ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: self.pod.namespace(),
            name: Some(self.pod.name_any()),
            uid: self.pod.uid(),
            ..ObjectReference::default()
        }
    }

    /// Whether the backend is listed in Endpoints. Terminating pods are not, unless all addresses are published.
    fn in_endpoints(&self) -> bool {
        !self.terminating || self.publish_not_ready
    }
}

/// Returns the number of a Service port in this pod.
fn number(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match port.target_port.as_ref() {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
            let same = |port: &&k8s_openapi::api::core::v1::ContainerPort| {
                port.name.as_ref() == Some(name) && port.protocol.as_deref().unwrap_or("TCP") == protocol
            };
            ports.find(same).map(|port| port.container_port)
        }
    }
}

/// Whether the Service is headless: it has no cluster IP.
pub(super) fn is_headless(service: &Service) -> bool {
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    matches!(address, None | Some("None" | ""))
}

/// Returns the labels of the Endpoints of a Service.
pub(super) fn endpoints_labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.labels().clone();
    labels.insert(ENDPOINTS_MANAGED_BY.to_owned(), "endpoint-controller".to_owned());
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

/// Groups the addresses by their ports.
pub(super) fn subsets(service: &Service, backends: &[Backend]) -> Option<Vec<EndpointSubset>> {
    let portless = service.spec.as_ref().is_none_or(|spec| spec.ports.as_ref().is_none_or(Vec::is_empty));
    let mut subsets: Vec<EndpointSubset> = Vec::new();
    for backend in backends.iter().filter(|backend| backend.in_endpoints()) {
        if backend.ports.is_empty() && !(portless && is_headless(service)) {
            continue;
        }
        let ports = backend.ports.iter().map(|(port, number)| EndpointPort {
            name: port.name.clone().filter(|name| !name.is_empty()),
            port: *number,
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        });
        let ports = Some(ports.collect::<Vec<_>>()).filter(|ports| !ports.is_empty());
        let at = subsets.iter().position(|subset| subset.ports == ports).unwrap_or_else(|| {
            subsets.push(EndpointSubset { ports, ..EndpointSubset::default() });
            subsets.len() - 1
        });
        let address = EndpointAddress {
            ip: backend.address.clone(),
            hostname: backend.hostname(),
            node_name: backend.node().map(str::to_owned),
            target_ref: Some(backend.target()),
        };
        let subset = &mut subsets[at];
        let list = if backend.ready() { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        list.get_or_insert_default().push(address);
    }
    for subset in &mut subsets {
        for list in [&mut subset.addresses, &mut subset.not_ready_addresses].into_iter().flatten() {
            list.sort_by(|a, b| order(&a.ip).cmp(&order(&b.ip)).then_with(|| a.ip.cmp(&b.ip)));
        }
    }
    (!subsets.is_empty()).then_some(subsets)
}

/// The sort key of an address: its number.
fn order(address: &str) -> Option<std::net::IpAddr> {
    address.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn backend(service: &Service, name: &str, address: &str, ready: bool) -> Backend {
        let pod = crate::pod::tests::pod(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8080}]}]},
            "status": {"podIP": address, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
        }));
        Backend::of(service, Arc::new(pod)).unwrap()
    }

    #[test]
    fn ready_and_unready_addresses_stand_apart() {
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": "web"}, "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]},
        }))
        .unwrap();
        let backends = [
            backend(&service, "a", "10.1.0.10", true),
            backend(&service, "b", "10.1.0.9", true),
            backend(&service, "c", "10.1.0.3", false),
        ];
        let subsets = serde_json::to_value(subsets(&service, &backends)).unwrap();
        assert_eq!(subsets.pointer("/0/addresses/0/ip"), Some(&json!("10.1.0.9")));
        assert_eq!(subsets.pointer("/0/notReadyAddresses/0/ip"), Some(&json!("10.1.0.3")));
        assert_eq!(
            subsets.pointer("/0/ports"),
            Some(&json!([{"name": "http", "port": 8080, "protocol": "TCP"}]))
        );
        assert_eq!(subsets.as_array().unwrap().len(), 1);
    }
}

//! The pods behind a Service, and the ports they listen on.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_tree::{Tree, tree};
use kube::ResourceExt;

use crate::kinds::{Pod, Service};
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
    pub(super) ports: Vec<(Tree, i32)>,
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
        let address = pod.str("status/podIP").filter(|address| !address.is_empty())?.to_owned();
        if pod::is_finished(&pod) {
            return None;
        }
        let ports = service.list("spec/ports").iter();
        let ports: Vec<_> = ports.filter_map(|port| Some((port.clone(), number(port, &pod)?))).collect();
        let hostname = pod.str("spec/hostname").filter(|name| !name.is_empty());
        let hostname = hostname.filter(|_| pod.is("spec/subdomain", service.name())).map(str::to_owned);
        Some(Self {
            address,
            ports,
            serving: pod::is_ready(&pod),
            terminating: pod.is_deleting(),
            hostname,
            publish_not_ready: service.is_true("spec/publishNotReadyAddresses"),
            pod,
        })
    }

    pub(super) fn node(&self) -> Option<&str> {
        pod::node_name(&self.pod)
    }

    pub(super) fn hostname(&self) -> Option<&str> {
        self.hostname.as_deref()
    }

    /// Whether clients should use the backend.
    pub(super) fn ready(&self) -> bool {
        self.publish_not_ready || (self.serving && !self.terminating)
    }

    pub(super) fn target(&self) -> Tree {
        let metadata = &self.pod.metadata;
        tree!({
            "kind": "Pod", "namespace": metadata.namespace.clone(), "name": self.pod.name(),
            "uid": metadata.uid.clone(),
        })
    }

    /// Whether the backend is listed in Endpoints. Terminating pods are not, unless all addresses are published.
    fn in_endpoints(&self) -> bool {
        !self.terminating || self.publish_not_ready
    }
}

/// Returns the number of a Service port in this pod.
fn number(port: &Tree, pod: &Pod) -> Option<i32> {
    match port.at("targetPort") {
        Tree::Null | Tree::Integer(0) => port.i32("port"),
        Tree::Integer(number) => i32::try_from(*number).ok(),
        name => {
            let mut ports = pod.list("spec/containers").iter().flat_map(|container| container.list("ports"));
            let found = ports.find(|it| it.at("name") == name && protocol(it) == protocol(port));
            found?.i32("containerPort")
        }
    }
}

fn protocol(port: &Tree) -> &str {
    port.str("protocol").unwrap_or("TCP")
}

/// Whether the Service is headless: it has no cluster IP.
pub(super) fn is_headless(service: &Service) -> bool {
    matches!(service.str("spec/clusterIP"), None | Some("None" | ""))
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
pub(super) fn subsets(service: &Service, backends: &[Backend]) -> Option<Vec<Tree>> {
    let portless = service.list("spec/ports").is_empty();
    let mut subsets: Vec<Subset> = Vec::new();
    for backend in backends.iter().filter(|backend| backend.in_endpoints()) {
        if backend.ports.is_empty() && !(portless && is_headless(service)) {
            continue;
        }
        let port = |(port, number): &(Tree, i32)| {
            tree!({
                "name": port.str("name").filter(|name| !name.is_empty()), "port": *number,
                "protocol": port.at("protocol"), "appProtocol": port.at("appProtocol"),
            })
        };
        let ports: Vec<_> = backend.ports.iter().map(port).collect();
        let at = subsets.iter().position(|subset| subset.ports == ports).unwrap_or_else(|| {
            subsets.push(Subset { ports, ..Subset::default() });
            subsets.len() - 1
        });
        let address = tree!({
            "ip": &backend.address, "hostname": backend.hostname(), "nodeName": backend.node(),
            "targetRef": backend.target(),
        });
        let subset = &mut subsets[at];
        if backend.ready() { &mut subset.ready } else { &mut subset.unready }.push(address);
    }
    (!subsets.is_empty()).then(|| subsets.into_iter().map(Subset::into_tree).collect())
}

/// Addresses that share one set of ports.
#[derive(Default)]
struct Subset {
    ports: Vec<Tree>,
    ready: Vec<Tree>,
    unready: Vec<Tree>,
}

impl Subset {
    fn into_tree(self) -> Tree {
        let sorted = |mut addresses: Vec<Tree>| {
            let ip = |address: &Tree| address.str("ip").unwrap_or_default().to_owned();
            addresses.sort_by_key(|address| (order(&ip(address)), ip(address)));
            (!addresses.is_empty()).then_some(addresses)
        };
        tree!({
            "addresses": sorted(self.ready), "notReadyAddresses": sorted(self.unready),
            "ports": (!self.ports.is_empty()).then_some(self.ports),
        })
    }
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
        let service = crate::object::object(json!({
            "metadata": {"name": "web"}, "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]},
        }));
        let backends = [
            backend(&service, "a", "10.1.0.10", true),
            backend(&service, "b", "10.1.0.9", true),
            backend(&service, "c", "10.1.0.3", false),
        ];
        let subsets = Tree::from(subsets(&service, &backends)).to_value();
        assert_eq!(subsets.pointer("/0/addresses/0/ip"), Some(&json!("10.1.0.9")));
        assert_eq!(subsets.pointer("/0/notReadyAddresses/0/ip"), Some(&json!("10.1.0.3")));
        assert_eq!(
            subsets.pointer("/0/ports"),
            Some(&json!([{"name": "http", "port": 8080, "protocol": "TCP"}]))
        );
        assert_eq!(subsets.as_array().unwrap().len(), 1);
    }
}

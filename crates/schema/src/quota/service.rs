//! Services: their number, their load balancers and their node ports.

use super::number;
use crate::json::Value;
use crate::pod_resources::Amounts;
use crate::read::Read;

pub(super) const TRACKED: [&str; 3] = ["services", "services.nodeports", "services.loadbalancers"];

pub(super) fn usage(service: &Value) -> Amounts {
    let spec = service.at("spec");
    let kind = spec.str("type");
    Amounts::from([
        ("services".to_owned(), number(1)),
        ("services.nodeports".to_owned(), number(node_ports(spec, kind))),
        ("services.loadbalancers".to_owned(), number(usize::from(kind == "LoadBalancer"))),
    ])
}

/// The node ports that a Service has or will be given. A load balancer that wants none has only those that it names.
fn node_ports(spec: Option<&Value>, kind: &str) -> usize {
    let ports = spec.list("ports");
    let unwanted = spec.at("allocateLoadBalancerNodePorts") == Some(&Value::Bool(false));
    match kind {
        "LoadBalancer" if unwanted => {
            ports.iter().filter(|port| port.int("nodePort").is_some_and(|number| number != 0)).count()
        }
        "NodePort" | "LoadBalancer" => ports.len(),
        _ => 0,
    }
}

//! What a node checks before it accepts a pod that is bound to it, as kubelet does. The scheduler does not see a pod that
//! names its node.

use std::collections::BTreeMap;

use evenkeel_schema::pod_resources::{Amounts, add};
use evenkeel_schema::quantity::Quantity;

use crate::kinds::{Node, Pod};
use crate::pod;
use crate::scheduler::affinity;
use crate::scheduler::{PodRequests, allocatable, subtract};

/// The operating system of all nodes.
const OS: &str = "linux";

/// Why a node refuses a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Refusal {
    fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }

    fn predicate(name: &str, why: &str) -> Self {
        Self::new(name, format!("Predicate {name} failed: {why}"))
    }
}

/// What the pods take that a node has accepted.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// By the uid of the pod.
    pods: BTreeMap<String, PodRequests>,
    /// The sum of the pods' requests.
    requested: Amounts,
}

impl Load {
    /// Accepts a pod, or returns why the node refuses it.
    pub(super) fn admit(&mut self, uid: &str, pod: &Pod, node: &Node) -> Option<Refusal> {
        if self.pods.contains_key(uid) {
            return None;
        }
        let requests = PodRequests::of(pod);
        let refusal = self.refusal(pod, &requests, node);
        if refusal.is_none() {
            self.put(uid, requests);
        }
        refusal
    }

    /// Notes what an accepted pod takes now.
    pub(super) fn put(&mut self, uid: &str, requests: PodRequests) {
        self.release(uid);
        add(&mut self.requested, &requests.amounts);
        self.pods.insert(uid.to_owned(), requests);
    }

    /// Removes a pod that has ended.
    pub(super) fn release(&mut self, uid: &str) {
        if let Some(requests) = self.pods.remove(uid) {
            subtract(&mut self.requested, &requests.amounts);
        }
    }

    /// Returns why the node refuses a pod: the first check that fails, in kubelet's order.
    fn refusal(&self, pod: &Pod, requests: &PodRequests, node: &Node) -> Option<Refusal> {
        let spec = pod.at("spec");
        if pod.label("kubernetes.io/os").is_some_and(|os| os != OS) {
            let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
            return Some(Refusal::new("PodOSSelectorNodeLabelDoesNotMatch", message));
        }
        if spec.str("os/name").is_some_and(|os| os != OS) {
            let message = "Failed to admit pod as the OS field doesn't match node OS";
            return Some(Refusal::new("PodOSNotSupported", message));
        }
        if let Some(refusal) = self.lack(requests, &allocatable(node)) {
            return Some(refusal);
        }
        if !affinity::matches(spec, node) {
            let why = "node(s) didn't match Pod's node affinity/selector";
            return Some(Refusal::predicate("NodeAffinity", why));
        }
        if self.pods.values().any(|other| pod::ports_conflict(&requests.host_ports, &other.host_ports)) {
            let why = "node(s) didn't have free ports for the requested pod ports";
            return Some(Refusal::predicate("NodePorts", why));
        }
        affinity::untolerated(spec, node, &["NoExecute"])
            .map(|_| Refusal::predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate"))
    }

    /// Returns the first resource of which the node does not have enough. Extended resources that the node does not have
    /// belong to the cluster.
    fn lack(&self, requests: &PodRequests, offered: &Amounts) -> Option<Refusal> {
        let number = |name: &str, amounts: &Amounts| {
            let whole = |amount: &Quantity| if name == "cpu" { amount.milli_value() } else { amount.value() };
            amounts.get(name).map_or(0, whole)
        };
        let short = |name: &str, requested: i64, used: i64| {
            let capacity = number(name, offered);
            (requested > capacity.saturating_sub(used)).then(|| {
                let message = format!(
                    "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
                );
                Refusal::new(&format!("OutOf{name}"), message)
            })
        };
        let pods = i64::try_from(self.pods.len()).unwrap_or(i64::MAX);
        let is_offered = |name: &str| !is_extended(name) || offered.contains_key(name);
        let first = ["cpu", "memory", "ephemeral-storage"];
        let others = requests.amounts.keys().map(String::as_str).filter(|name| !first.contains(name));
        let mut names = first.into_iter().chain(others).filter(|name| is_offered(name));
        short("pods", 1, pods).or_else(|| {
            names.find_map(|name| {
                let requested = number(name, &requests.amounts);
                if requested == 0 { None } else { short(name, requested, number(name, &self.requested)) }
            })
        })
    }
}

/// Whether a resource is none of Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::object;
    use serde_json::{Value, json};

    fn node() -> Node {
        object(json!({
            "metadata": {"name": "n", "labels": {"zone": "a"}},
            "spec": {"taints": [{"key": "gone", "effect": "NoExecute"}, {"key": "soft", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "2", "memory": "1Ki", "pods": "3"}},
        }))
    }

    fn pod(spec: Value) -> Pod {
        let mut full = json!({"containers": [{"name": "c", "image": "i"}], "tolerations": [{"key": "gone", "operator": "Exists"}]});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        object(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": full}))
    }

    fn requests(amounts: Value) -> Pod {
        pod(json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": amounts}}]}))
    }

    fn reason(load: &mut Load, uid: &str, pod: &Pod) -> Option<String> {
        load.admit(uid, pod, &node()).map(|refusal| refusal.reason)
    }

    /// A pod that named its node became ready there whatever it asked for.
    #[test]
    fn a_node_refuses_what_does_not_fit() {
        let mut load = Load::default();
        assert_eq!(
            reason(&mut load, "a", &requests(json!({"cpu": "1500m", "example.com/of-the-cluster": "1"}))),
            None
        );
        let refusal = load.admit("b", &requests(json!({"cpu": "1", "memory": "2Ki"})), &node()).unwrap();
        assert_eq!(
            (refusal.reason.as_str(), refusal.message.as_str()),
            (
                "OutOfcpu",
                "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"
            )
        );
        assert_eq!(
            reason(&mut load, "b", &requests(json!({"memory": "2Ki"}))).as_deref(),
            Some("OutOfmemory")
        );
        assert_eq!(
            reason(&mut load, "b", &requests(json!({"hugepages-2Mi": "2Mi"}))).as_deref(),
            Some("OutOfhugepages-2Mi")
        );
        for (spec, expected) in [
            (json!({"nodeSelector": {"zone": "b"}}), "NodeAffinity"),
            (json!({"tolerations": []}), "TaintToleration"),
            (json!({"os": {"name": "windows"}}), "PodOSNotSupported"),
        ] {
            assert_eq!(reason(&mut load, "b", &pod(spec)).as_deref(), Some(expected));
        }
        let mut other = pod(json!({}));
        other.metadata.labels = Some([("kubernetes.io/os".to_owned(), "windows".to_owned())].into());
        assert_eq!(reason(&mut load, "b", &other).as_deref(), Some("PodOSSelectorNodeLabelDoesNotMatch"));
        let plain = pod(json!({"nodeSelector": {"zone": "a"}}));
        assert_eq!((reason(&mut load, "b", &plain), reason(&mut load, "c", &plain)), (None, None));
        assert_eq!(reason(&mut load, "d", &plain).as_deref(), Some("OutOfpods"));
        assert_eq!(reason(&mut load, "a", &plain), None, "an accepted pod stays");
    }

    #[test]
    fn a_pod_that_ends_leaves_its_room() {
        let mut load = Load::default();
        let (half, all) = (requests(json!({"cpu": "1"})), requests(json!({"cpu": "2"})));
        assert_eq!(reason(&mut load, "a", &half), None);
        assert_eq!(reason(&mut load, "b", &all).as_deref(), Some("OutOfcpu"));
        load.put("a", PodRequests::of(&requests(json!({"cpu": "100m"}))));
        assert_eq!(
            reason(&mut load, "b", &requests(json!({"cpu": "1900m"}))),
            None,
            "what a resize frees is free"
        );
        load.release("a");
        load.release("b");
        assert_eq!(reason(&mut load, "c", &all), None);
    }
}

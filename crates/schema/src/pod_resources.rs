//! The resources of a whole pod: the sums of the requests and limits of its containers.
//!
//! Containers run together and init containers run before them, one after the other. A restartable init container (a
//! sidecar) keeps running beside everything that starts after it. A pod therefore needs the larger of two amounts: the
//! sum of its containers and sidecars, and the peak while its init containers run. Resources that the pod sets as a
//! whole replace that amount, and the overhead of its runtime class is added at the end.
//!
//! Quotas, LimitRanges, defaulting and the scheduler all take their sums from here.

use std::collections::BTreeMap;

use crate::json::Value;
use crate::quantity::Quantity;
use crate::read::Read;
use crate::resource_names::is_huge_page;

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// One of the two lists in `resources`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `resources.requests`
    Requests,
    /// `resources.limits`
    Limits,
}

impl Part {
    /// The name of the field.
    pub const fn field(self) -> &'static str {
        match self {
            Part::Requests => "requests",
            Part::Limits => "limits",
        }
    }
}

/// The amounts of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Whether the container is a sidecar: an init container that keeps running.
    pub restartable: bool,
    /// The amounts in the spec.
    pub wanted: Amounts,
    /// The amounts in the container's status; `None` if the node reports none.
    pub reported: Option<Reported>,
}

/// The amounts that a node reports for a container while it is being resized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// `resources` of the container's status: the amounts in force.
    pub actual: Amounts,
    /// `allocatedResources` of the container's status: the amounts that the node has promised. Always empty for limits.
    pub allocated: Amounts,
}

/// The amounts that the sums of a pod consist of, for one [`Part`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodResources {
    /// The part that the amounts belong to.
    pub part: Part,
    /// `spec.containers`
    pub containers: Vec<Container>,
    /// `spec.initContainers`, in their order.
    pub init_containers: Vec<Container>,
    /// `spec.resources`: the resources of the pod as a whole.
    pub pod: Amounts,
    /// `spec.overhead`
    pub overhead: Amounts,
    /// Whether the node has refused the pod's resize for good, so that the amounts in the spec do not count.
    pub resize_infeasible: bool,
}

impl PodResources {
    /// Reads the spec of a pod, and ignores its status.
    pub fn of_spec(spec: &Value, part: Part) -> Self {
        let containers = |list: &str| spec.list(list).iter().map(|it| container(it, part)).collect();
        PodResources {
            part,
            containers: containers("containers"),
            init_containers: containers("initContainers"),
            pod: read(spec.at("resources").at(part.field())),
            overhead: read(spec.at("overhead")),
            resize_infeasible: false,
        }
    }

    /// Reads the spec of a pod together with its status.
    pub fn of_pod(pod: &Value, part: Part) -> Self {
        let spec = pod.at("spec").unwrap_or(&Value::Null);
        let mut read = Self::of_spec(spec, part);
        let status = pod.at("status");
        read.resize_infeasible = is_resize_infeasible(status);
        for (list, statuses, all) in [
            ("containers", "containerStatuses", &mut read.containers),
            ("initContainers", "initContainerStatuses", &mut read.init_containers),
        ] {
            for (container, amounts) in spec.list(list).iter().zip(all) {
                let name = container.str("name");
                let status = status.list(statuses).iter().find(|status| status.str("name") == name);
                amounts.reported = reported(status, part);
            }
        }
        read
    }
}

fn container(container: &Value, part: Part) -> Container {
    Container {
        restartable: container.str("restartPolicy") == "Always",
        wanted: read(container.at("resources").at(part.field())),
        reported: None,
    }
}

fn reported(status: Option<&Value>, part: Part) -> Option<Reported> {
    let resources = status.at("resources")?;
    let allocated = match part {
        Part::Requests => read(status.at("allocatedResources")),
        Part::Limits => Amounts::new(),
    };
    Some(Reported { actual: read(resources.at(part.field())), allocated })
}

fn is_resize_infeasible(status: Option<&Value>) -> bool {
    let pending = status.list("conditions").iter().find(|it| it.str("type") == "PodResizePending");
    pending.str("reason") == "Infeasible"
}

/// Reads a resource list, and skips values that are not quantities.
pub fn read(list: Option<&Value>) -> Amounts {
    let members = list.and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.to_string(), Quantity::from_json(value).ok()?))).collect()
}

/// Whether a pod can set this resource as a whole in `spec.resources`.
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}

impl Container {
    /// The amounts that count: the larger of those in the spec and in the status.
    fn effective(&self, resize_infeasible: bool, sidecars_only: bool) -> Amounts {
        let Some(reported) = self.reported.as_ref().filter(|_| !sidecars_only || self.restartable) else {
            return self.wanted.clone();
        };
        let mut amounts = if resize_infeasible { Amounts::new() } else { self.wanted.clone() };
        raise(&mut amounts, &reported.actual);
        raise(&mut amounts, &reported.allocated);
        amounts
    }
}

impl PodResources {
    /// The amounts of all containers together.
    pub fn of_containers(&self) -> Amounts {
        let mut total = Amounts::new();
        for container in &self.containers {
            add(&mut total, &container.effective(self.resize_infeasible, false));
        }
        let (mut peak, mut sidecars) = (Amounts::new(), Amounts::new());
        for container in &self.init_containers {
            // Only sidecars can be resized among the init containers, so only their status counts.
            let own = container.effective(self.resize_infeasible, true);
            if container.restartable {
                add(&mut total, &own);
                add(&mut sidecars, &own);
                raise(&mut peak, &sidecars);
            } else {
                let mut together = own;
                add(&mut together, &sidecars);
                raise(&mut peak, &together);
            }
        }
        raise(&mut total, &peak);
        total
    }

    /// The amounts of the pod without its overhead.
    pub fn without_overhead(&self) -> Amounts {
        let mut total = self.of_containers();
        let own = self.pod.iter().filter(|(name, _)| is_pod_level(name));
        total.extend(own.map(|(name, amount)| (name.clone(), amount.clone())));
        total
    }

    /// The amounts of the pod with its overhead. Overhead is added to a limit only if the limit is above zero.
    pub fn total(&self) -> Amounts {
        let mut total = self.without_overhead();
        match self.part {
            Part::Requests => add(&mut total, &self.overhead),
            Part::Limits => {
                for (name, amount) in &self.overhead {
                    if let Some(limit) = total.get_mut(name).filter(|limit| **limit != Quantity::default()) {
                        *limit = limit.clone() + amount.clone();
                    }
                }
            }
        }
        total
    }
}

/// Adds amounts by their names.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match total.get_mut(name) {
            Some(sum) => *sum = sum.clone() + amount.clone(),
            None => drop(total.insert(name.clone(), amount.clone())),
        }
    }
}

/// Raises each amount to at least the one of the same name.
pub fn raise(total: &mut Amounts, at_least: &Amounts) {
    for (name, amount) in at_least {
        match total.get_mut(name) {
            Some(largest) if amount > largest => *largest = amount.clone(),
            Some(_) => {}
            None => drop(total.insert(name.clone(), amount.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn shown(amounts: &Amounts) -> Value {
        amounts.iter().map(|(name, amount)| (name.clone(), Value::from(amount.to_string()))).collect()
    }

    fn both(pod: &Value) -> Value {
        let total = |part| shown(&PodResources::of_pod(pod, part).total());
        json!({"requests": total(Part::Requests), "limits": total(Part::Limits)})
    }

    fn cpu(amount: &str) -> Value {
        json!({"requests": {"cpu": amount}, "limits": {"cpu": amount}})
    }

    #[test]
    fn the_peak_of_init_containers_counts_beside_the_sidecars_before_them() {
        let pod = json!({"spec": {
            "initContainers": [
                {"name": "a", "resources": cpu("1")},
                {"name": "b", "resources": cpu("100m"), "restartPolicy": "Always"},
                {"name": "c", "resources": cpu("2")},
            ],
            "containers": [{"name": "d", "resources": cpu("500m")}, {"name": "e", "resources": cpu("500m")}],
            "overhead": {"cpu": "10m", "memory": "1Mi"},
        }});
        let expected = json!({"requests": {"cpu": "2110m", "memory": "1Mi"}, "limits": {"cpu": "2110m"}});
        assert_eq!(both(&pod), expected);
    }

    #[test]
    fn a_sidecar_adds_to_the_containers() {
        let pod = json!({"spec": {
            "initContainers": [{"name": "a", "resources": cpu("1"), "restartPolicy": "Always"}],
            "containers": [{"name": "d", "resources": cpu("500m")}],
        }});
        assert_eq!(both(&pod), json!({"requests": {"cpu": "1500m"}, "limits": {"cpu": "1500m"}}));
    }

    #[test]
    fn resources_of_the_pod_replace_only_those_that_a_pod_can_set() {
        let pod = json!({"spec": {
            "resources": {"requests": {"cpu": "3", "ephemeral-storage": "9"}, "limits": {"hugepages-2Mi": "4Mi"}},
            "containers": [{"name": "d", "resources": {"requests": {"cpu": "1", "ephemeral-storage": "2"}}}],
        }});
        let expected =
            json!({"requests": {"cpu": "3", "ephemeral-storage": "2"}, "limits": {"hugepages-2Mi": "4Mi"}});
        assert_eq!(both(&pod), expected);
    }

    #[test]
    fn what_a_node_reports_during_a_resize_counts_where_it_is_more() {
        let pod = |reason: &str| {
            json!({"spec": {"containers": [{"name": "d", "resources": cpu("1")}]}, "status": {
                "conditions": [{"type": "PodResizePending", "reason": reason}],
                "containerStatuses": [{"name": "d", "resources": cpu("500m"), "allocatedResources": {"cpu": "700m"}}],
            }})
        };
        let expected = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
        assert_eq!(both(&pod("Deferred")), expected);
        let expected = json!({"requests": {"cpu": "700m"}, "limits": {"cpu": "500m"}});
        assert_eq!(both(&pod("Infeasible")), expected);
    }
}

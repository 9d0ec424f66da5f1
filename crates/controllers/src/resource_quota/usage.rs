//! The usage of a quota, counted from the objects of its namespace.

use std::sync::Arc;

use evenkeel_schema::pod_resources::{Amounts, add, read};
use evenkeel_schema::quantity::{Format, Quantity};
use evenkeel_schema::quota::{GroupResource, matches, tracks, usage};
use evenkeel_tree::value::{Value, to_value};
use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;

use crate::kinds::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use crate::object::Object;

/// The objects of a namespace whose usage depends on their content.
pub(super) struct NamespaceObjects {
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) services: Vec<Arc<Service>>,
    pub(super) claims: Vec<Arc<PersistentVolumeClaim>>,
}

/// Counts the objects of a resource; `None` if the resource is not watched.
type Count<'a> = &'a dyn Fn(GroupResource<'_>) -> Option<usize>;

/// Computes the status of a quota. A resource that cannot be counted keeps its last usage.
pub(super) fn status(
    quota: &ResourceQuota,
    content: &NamespaceObjects,
    count: Count<'_>,
    now: Timestamp,
) -> Tree {
    let hard = quota.at("spec/hard");
    let names = || hard.members().map(|(name, _)| name);
    let counting = Counting { quota: &value(quota), now };
    let mut used = read(Some(&quota.at("status/used").into()));
    used.retain(|name, _| hard.as_map().is_some_and(|hard| hard.get(name).is_some()));
    for (resource, objects) in [
        (GroupResource::PODS, &content.pods),
        (GroupResource::SERVICES, &content.services),
        (GroupResource::CLAIMS, &content.claims),
    ] {
        let sum = counting.sum(resource, objects);
        for name in names().filter(|name| tracks(resource, name)) {
            used.insert(name.to_owned(), sum.get(name).cloned().unwrap_or_default());
        }
    }
    for name in names() {
        let counted = GroupResource::counted_by(name).filter(|resource| !is_measured(*resource));
        used.extend(counted.and_then(count).map(|number| (name.to_owned(), counting.objects(number))));
    }
    let used = used.into_iter().map(|(name, amount)| (name.as_str().into(), amount.to_string().into()));
    let hard = if hard.is_null() { tree!({}) } else { hard.clone() };
    tree!({"hard": hard, "used": Tree::map(used.collect())})
}

/// Returns an object in the form that the quota functions read.
pub(super) fn value(object: &Object) -> Value {
    let mut value = Value::from(&**object);
    value["metadata"] = to_value(&object.metadata).unwrap_or_default();
    value
}

fn is_measured(resource: GroupResource<'_>) -> bool {
    [GroupResource::PODS, GroupResource::SERVICES, GroupResource::CLAIMS].contains(&resource)
}

struct Counting<'a> {
    quota: &'a Value,
    now: Timestamp,
}

impl Counting<'_> {
    /// Sums the usage of the objects that match the quota; empty if the quota does not limit this resource.
    fn sum(&self, resource: GroupResource<'_>, objects: &[Arc<Object>]) -> Amounts {
        let mut sum = Amounts::new();
        let hard = self.quota["spec"]["hard"].as_object();
        if !hard.is_some_and(|hard| hard.keys().any(|name| tracks(resource, name))) {
            return sum;
        }
        for object in objects {
            let object = value(object);
            if matches(self.quota, resource, &object) {
                add(&mut sum, &usage(resource, &object, self.now));
            }
        }
        sum
    }

    /// Returns the number of objects of a resource that is only counted. Quota scopes do not match such objects.
    fn objects(&self, number: usize) -> Quantity {
        let other = GroupResource { group: "", plural: "" };
        let number = if matches(self.quota, other, &Value::Null) { number } else { 0 };
        Quantity::new(i64::try_from(number).unwrap_or(i64::MAX), Format::DecimalSi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn used(quota: Value) -> Value {
        let quota = crate::pod::tests::pod(quota);
        let pod = crate::pod::tests::pod(json!({"spec": {"containers": [{"name": "c", "resources": {
            "requests": {"cpu": "250m"}, "limits": {"memory": "256Mi"}}}]}}));
        let done = crate::pod::tests::pod(json!({"status": {"phase": "Succeeded"}}));
        let content = NamespaceObjects {
            pods: vec![Arc::new(pod), Arc::new(done)],
            services: Vec::new(),
            claims: Vec::new(),
        };
        let count = |resource: GroupResource<'_>| match resource {
            GroupResource { group: "apps", plural: "deployments" } => Some(1),
            GroupResource { group: "", plural: "secrets" } => Some(2),
            _ => None,
        };
        status(&quota, &content, &count, Timestamp::UNIX_EPOCH).at("used").to_value()
    }

    #[test]
    fn pods_and_counts_are_used() {
        let hard = json!({"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi", "count/deployments.apps": "1",
            "secrets": "3", "services": "4"});
        let expected = json!({"pods": "1", "requests.cpu": "250m", "limits.memory": "256Mi",
            "count/deployments.apps": "1", "secrets": "2", "services": "0"});
        assert_eq!(used(json!({"spec": {"hard": hard}})), expected);
    }

    #[test]
    fn what_nobody_can_count_keeps_its_usage_or_has_none() {
        let hard = json!({"count/widgets.example.com": "2", "count/gadgets.example.com": "2"});
        let status = json!({"used": {"count/widgets.example.com": "1", "secrets": "5"}});
        assert_eq!(
            used(json!({"spec": {"hard": hard}, "status": status})),
            json!({"count/widgets.example.com": "1"})
        );
    }

    #[test]
    fn a_scope_counts_no_other_objects() {
        let spec = json!({"hard": {"secrets": "3", "pods": "1"}, "scopes": ["NotBestEffort"]});
        assert_eq!(used(json!({"spec": spec})), json!({"secrets": "0", "pods": "1"}));
    }
}

//! ResourceQuotas: the usage of an object, under the names that quotas limit, and the quotas that it counts for.
//!
//! Admission charges quotas by these functions, and the quota controller recounts a namespace by them, so that both agree on
//! every object. Pods, Services and PersistentVolumeClaims are measured by their content; objects of all other resources
//! are counted.

mod claim;
mod pod;
mod scope;
mod service;

use jiff::Timestamp;

use crate::json::Value;
use crate::pod_resources::Amounts;
use crate::quantity::{Format, Quantity};

pub use scope::matches;

/// Resources of the core group that quotas also count under their plain name.
const PLAIN_COUNTS: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// A resource with its group, without a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupResource<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The plural name.
    pub plural: &'a str,
}

impl<'a> GroupResource<'a> {
    /// Pods.
    pub const PODS: GroupResource<'static> = GroupResource { group: "", plural: "pods" };
    /// Services.
    pub const SERVICES: GroupResource<'static> = GroupResource { group: "", plural: "services" };
    /// PersistentVolumeClaims.
    pub const CLAIMS: GroupResource<'static> = GroupResource { group: "", plural: "persistentvolumeclaims" };

    /// The resource whose objects a quota counts under `name`; `None` if the name is not a count of objects.
    pub fn counted_by(name: &'a str) -> Option<Self> {
        if PLAIN_COUNTS.contains(&name) {
            return Some(GroupResource { group: "", plural: name });
        }
        let (plural, group) = match name.strip_prefix("count/")?.split_once('.') {
            Some((plural, group)) => (plural, group),
            None => (name.strip_prefix("count/")?, ""),
        };
        Some(GroupResource { group, plural })
    }

    /// The name under which quotas count objects of this resource.
    fn count_name(self) -> String {
        match self.group {
            "" => format!("count/{}", self.plural),
            group => format!("count/{}.{group}", self.plural),
        }
    }

    fn measured(self) -> Measured {
        match self {
            Self::PODS => Measured::Pod,
            Self::SERVICES => Measured::Service,
            Self::CLAIMS => Measured::Claim,
            _ => Measured::Count,
        }
    }
}

/// How objects of a resource are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measured {
    Pod,
    Service,
    Claim,
    Count,
}

fn number(count: usize) -> Quantity {
    Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi)
}

/// Whether objects of a resource can use what a quota limits under this name.
pub fn tracks(resource: GroupResource<'_>, name: &str) -> bool {
    if name == resource.count_name() {
        return true;
    }
    match resource.measured() {
        Measured::Pod => pod::tracks(name),
        Measured::Service => service::TRACKED.contains(&name),
        Measured::Claim => claim::tracks(name),
        Measured::Count => {
            resource.group.is_empty() && PLAIN_COUNTS.contains(&name) && name == resource.plural
        }
    }
}

/// The amounts that an object uses. A pod that has ended, or whose grace period is over at `now`, uses nothing but one
/// stored object (`count/pods`).
///
/// ```
/// use evenkeel_schema::quota::{GroupResource, usage};
/// let service = evenkeel_schema::json::json!({"spec": {"type": "NodePort", "ports": [{"port": 80}, {"port": 443}]}});
/// let used = usage(GroupResource::SERVICES, &service, jiff::Timestamp::UNIX_EPOCH);
/// assert_eq!(used["services.nodeports"].to_string(), "2");
/// ```
pub fn usage(resource: GroupResource<'_>, object: &Value, now: Timestamp) -> Amounts {
    let mut used = Amounts::from([(resource.count_name(), number(1))]);
    match resource.measured() {
        Measured::Pod => used.extend(pod::usage(object, now)),
        Measured::Service => used.extend(service::usage(object)),
        Measured::Claim => used.extend(claim::usage(object)),
        Measured::Count if tracks(resource, resource.plural) => {
            used.insert(resource.plural.to_owned(), number(1));
        }
        Measured::Count => {}
    }
    used
}

/// The error of a quota that limits these names, if some containers of a pod do not specify them.
pub fn unspecified<'a>(
    resource: GroupResource<'_>,
    object: &Value,
    limited: impl Iterator<Item = &'a str>,
) -> Option<String> {
    match resource.measured() {
        Measured::Pod => pod::unspecified(object, limited),
        _ => None,
    }
}

/// Whether an update moves an object to other quotas, or changes its usage other than by its requests. A pod moves if it gets
/// or loses a deadline, a claim if its allocated storage or its VolumeAttributesClasses change.
pub fn moves(resource: GroupResource<'_>, old: &Value, new: &Value) -> bool {
    match resource.measured() {
        Measured::Pod => scope::has_deadline(old) != scope::has_deadline(new),
        Measured::Claim => claim::moves(old, new),
        Measured::Service | Measured::Count => false,
    }
}

/// Whether an update reduces usage that a quota was charged with. Then the controller must recount, because admission only
/// adds.
pub fn releases(resource: GroupResource<'_>, old: &Value, new: &Value, now: Timestamp) -> bool {
    let after = usage(resource, new, now);
    let less = |(name, before): (&String, &Quantity)| after.get(name).is_none_or(|amount| amount < before);
    moves(resource, old, new) || usage(resource, old, now).iter().any(less)
}

#[cfg(test)]
mod tests;

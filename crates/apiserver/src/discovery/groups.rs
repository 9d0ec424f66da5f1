//! The served resources by group and version, in the order in which clients should prefer them.

use std::cmp::Ordering;
use std::sync::Arc;

use evenkeel_schema::api_resources;

use crate::registry::{Registry, ResourceInfo};

/// An API group.
#[derive(Debug)]
pub(crate) struct Group {
    /// The group's name; empty for the core group.
    pub(crate) name: String,
    /// The versions, the preferred one first.
    pub(crate) versions: Vec<Version>,
    /// Whether the group exists only because of CRDs.
    pub(crate) custom: bool,
}

/// A version of a group, with its resources sorted by name.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) resources: Vec<Arc<ResourceInfo>>,
}

/// Returns every group: the built-in ones in Kubernetes' order, then those of custom resources by name.
pub(crate) fn groups(registry: &Registry) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for info in registry.all() {
        let at = match groups.iter().position(|group| group.name == info.group) {
            Some(at) => at,
            None => {
                let custom = rank(&info.group).is_none();
                groups.push(Group { name: info.group.clone(), versions: Vec::new(), custom });
                groups.len() - 1
            }
        };
        groups[at].add(info);
    }
    for group in &mut groups {
        group.versions.sort_by(|a, b| prefer(&a.name, &b.name));
    }
    groups.sort_by_cached_key(|group| (rank(&group.name).unwrap_or(usize::MAX), group.name.clone()));
    groups
}

impl Group {
    fn add(&mut self, info: Arc<ResourceInfo>) {
        match self.versions.iter_mut().find(|version| version.name == info.version) {
            Some(version) => version.resources.push(info),
            None => self.versions.push(Version { name: info.version.clone(), resources: vec![info] }),
        }
    }

    /// Whether the group contains a custom resource.
    pub(super) fn serves_custom(&self) -> bool {
        self.versions.iter().flat_map(|version| &version.resources).any(|info| info.is_custom())
    }

    /// Returns `group/version`, or only the version in the core group.
    pub(crate) fn group_version(&self, version: &str) -> String {
        api_resources::api_version(&self.name, version)
    }
}

/// The position of a built-in group in Kubernetes' order; `None` for other groups.
fn rank(group: &str) -> Option<usize> {
    api_resources::resources().iter().position(|resource| resource.group == group)
}

/// Kubernetes' order of versions: stable before beta before alpha, higher numbers first; versions of any
/// other form come last, in alphabetical order.
pub(crate) fn prefer(a: &str, b: &str) -> Ordering {
    match (stage(a), stage(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Parses versions such as `v2`, `v1beta3` and `v1alpha1` into stability, major and minor number.
fn stage(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..digits].parse().ok()?;
    let (stability, minor) = match &rest[digits..] {
        "" => return Some((2, major, 0)),
        rest => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => (1, minor),
            (_, Some(minor)) => (0, minor),
            _ => return None,
        },
    };
    Some((stability, major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_then_number() {
        let mut versions =
            ["v1alpha1", "v1", "foo1", "v11beta2", "v10beta3", "v2", "v3beta1", "v12alpha1", "foo10", "v10"];
        versions.sort_by(|a, b| prefer(a, b));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v1alpha1", "foo1", "foo10"]
        );
    }
}

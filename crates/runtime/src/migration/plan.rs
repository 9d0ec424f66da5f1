//! Decides from a CustomResourceDefinition what has to be migrated.

use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ApiResource;

/// The annotation for the progress of a migration: the version, and the namespace and name of the last rewritten
/// object.
pub(super) const PROGRESS: &str = "webhooks.evenkeel.dev/storage-migration";

/// A migration that has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// The storage version, which all objects will be stored in.
    pub(super) target: String,
    /// The resource in a version that is served.
    pub(super) resource: ApiResource,
    /// The progress of an earlier attempt to migrate to this version.
    pub(super) progress: Option<Progress>,
}

/// The namespace and name of an object, in the order in which objects are rewritten.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl Key {
    pub(super) fn new(namespace: Option<String>, name: String) -> Self {
        Self { namespace, name }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace.as_deref().unwrap_or_default(), self.name)
    }
}

/// How far a migration has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) target: String,
    /// The last object that was rewritten. All objects before it are done.
    pub(super) last: Key,
}

impl Progress {
    fn parse(text: &str) -> Option<Self> {
        let (target, key) = text.split_once(' ')?;
        let (namespace, name) = key.split_once('/')?;
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        Some(Self { target: target.to_owned(), last: Key::new(namespace, name.to_owned()) })
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.target, self.last)
    }
}

/// Returns the migration that a definition needs, or `None` if its objects are stored only in the storage version.
pub(super) fn task(definition: &CustomResourceDefinition) -> Option<Task> {
    let spec = &definition.spec;
    let target = &spec.versions.iter().find(|version| version.storage)?.name;
    let stored = definition.status.as_ref()?.stored_versions.as_ref()?;
    if stored.iter().all(|version| version == target) {
        return None;
    }
    let mut served = spec.versions.iter().filter(|version| version.served);
    let version = served.clone().find(|version| version.name == *target).or_else(|| served.next())?;
    let progress = definition.metadata.annotations.as_ref().and_then(|all| all.get(PROGRESS));
    Some(Task {
        target: target.clone(),
        resource: ApiResource {
            group: spec.group.clone(),
            version: version.name.clone(),
            api_version: format!("{}/{}", spec.group, version.name),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
        },
        progress: progress.and_then(|text| Progress::parse(text)).filter(|it| it.target == *target),
    })
}

pub(super) fn has_progress(definition: &CustomResourceDefinition) -> bool {
    definition.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(PROGRESS))
}

/// Returns the objects that are not rewritten yet, in order. Objects created since the start are stored in the new
/// version already.
pub(super) fn left(mut keys: Vec<Key>, progress: Option<&Progress>) -> Vec<Key> {
    keys.retain(|key| progress.is_none_or(|progress| *key > progress.last));
    keys.sort();
    keys
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(stored: &[&str], served: &[&str], annotation: Option<&str>) -> CustomResourceDefinition {
        let version =
            |name: &str| json!({ "name": name, "served": served.contains(&name), "storage": name == "v2" });
        serde_json::from_value(json!({
            "metadata": { "name": "sites.example.com", "annotations": { PROGRESS: annotation.unwrap_or("") } },
            "spec": {
                "group": "example.com", "scope": "Namespaced", "versions": [version("v1"), version("v2")],
                "names": { "kind": "Site", "plural": "sites" },
            },
            "status": {
                "storedVersions": stored, "conditions": [],
                "acceptedNames": { "kind": "Site", "plural": "sites" },
            },
        }))
        .unwrap()
    }

    #[test]
    fn only_other_stored_versions_need_a_migration() {
        assert_eq!(task(&definition(&["v2"], &["v1", "v2"], None)), None);
        let found = task(&definition(&["v1", "v2"], &["v1", "v2"], None)).unwrap();
        assert_eq!((found.target.as_str(), found.resource.version.as_str()), ("v2", "v2"));
        let found = task(&definition(&["v1", "v2"], &["v1"], None)).unwrap();
        assert_eq!(found.resource.version, "v1", "any version that is served will do");
    }

    #[test]
    fn a_migration_goes_on_after_the_last_object() {
        let progress = |text| task(&definition(&["v1", "v2"], &["v2"], Some(text))).unwrap().progress;
        assert_eq!((progress(""), progress("v1 a/b"), progress("nonsense")), (None, None, None));
        let found = progress("v2 b/y").unwrap();
        assert_eq!(found.to_string(), "v2 b/y");
        let key = |namespace: &str, name: &str| Key::new(Some(namespace.into()), name.into());
        let keys = vec![key("b", "z"), key("b", "y"), key("a", "z"), key("c", "a")];
        assert_eq!(left(keys.clone(), Some(&found)), [key("b", "z"), key("c", "a")]);
        assert_eq!(left(keys, None).len(), 4);
        let cluster_scoped = progress("v2 /x").unwrap();
        assert_eq!(cluster_scoped.last, Key::new(None, "x".into()));
    }
}

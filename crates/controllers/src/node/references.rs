//! The objects that a pod refers to, and how a node reports missing ones.
//!
//! As on a real node, a missing object behind a volume keeps the whole pod in `ContainerCreating`, one behind an
//! environment variable keeps its container in `CreateContainerConfigError`, and a missing image pull secret only
//! causes a warning.

use evenkeel_tree::Tree;

use crate::kinds::Pod;

/// The kinds of objects that a pod refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Referent {
    ConfigMap,
    Secret,
    Claim,
    ServiceAccount,
}

impl Referent {
    /// Whether other controllers watch this kind as whole objects, so that a watch of its metadata would be a second
    /// one. Pods refer to no keys within these kinds.
    pub(super) fn is_watched_whole(self) -> bool {
        matches!(self, Self::Claim | Self::ServiceAccount)
    }

    /// Returns the resource as error messages of the API server name it.
    fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
            Self::Claim => "persistentvolumeclaim",
            Self::ServiceAccount => "serviceaccount",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Claim => "PersistentVolumeClaim",
            Self::ServiceAccount => "ServiceAccount",
        }
    }
}

/// Where in its spec a pod refers to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the volume of this name.
    Volume(String),
    /// In the environment of the container of this name.
    Environment(String),
    /// In the list of image pull secrets.
    ImagePull,
}

/// A reference from a pod to an object in its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) referent: Referent,
    pub(crate) name: String,
    /// The keys that the object must have.
    pub(crate) keys: Vec<String>,
    pub(crate) place: Place,
}

/// The result of looking up a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The object exists, with all its keys.
    All,
    /// The object does not exist.
    Nothing,
    /// The object exists without this key.
    NotKey(String),
    /// The object is a claim that is not bound to a volume.
    NotBound,
}

/// What is missing for a pod, in kubelet's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The message for each volume that cannot be mounted.
    pub(crate) volumes: Vec<String>,
    /// The containers whose environment cannot be built, and why.
    pub(crate) environments: Vec<(String, String)>,
    /// The names of missing image pull secrets.
    pub(crate) pull_secrets: Vec<String>,
}

impl Missing {
    /// Adds the result of looking up a reference.
    pub(crate) fn note(&mut self, pod: &Pod, reference: &Reference, found: &Found) {
        let (resource, name) = (reference.referent.resource(), &reference.name);
        match (&reference.place, found) {
            (_, Found::All) => {}
            (Place::ImagePull, _) => self.pull_secrets.push(name.clone()),
            (Place::Volume(volume), found) => {
                let why = match (reference.referent, found) {
                    (Referent::Claim, found) => {
                        let why = match found {
                            Found::NotBound => "PVC is not bound".to_owned(),
                            _ => format!(
                                "failed to fetch PVC from API server: persistentvolumeclaims {name:?} not found"
                            ),
                        };
                        let namespace = pod.in_namespace();
                        self.volumes.push(format!(
                            "Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[], failed \
                             to process volumes=[{volume}]: error processing PVC {namespace}/{name}: {why}"
                        ));
                        return;
                    }
                    (Referent::ServiceAccount, _) => {
                        format!("failed to fetch token: serviceaccounts {name:?} not found")
                    }
                    (Referent::ConfigMap | Referent::Secret, Found::NotKey(key)) => {
                        let prefix = if reference.referent == Referent::Secret { "" } else { "configmap " };
                        format!("{prefix}references non-existent {}key: {key}", key_word(reference.referent))
                    }
                    _ => format!("{resource} {name:?} not found"),
                };
                self.volumes.push(format!("MountVolume.SetUp failed for volume {volume:?} : {why}"));
            }
            (Place::Environment(container), found) => {
                let why = match found {
                    Found::NotKey(key) => {
                        let kind = reference.referent.kind();
                        format!("couldn't find key {key} in {kind} {}/{name}", pod.in_namespace())
                    }
                    _ => format!("{resource} {name:?} not found"),
                };
                if self.environments.iter().all(|(known, _)| known != container) {
                    self.environments.push((container.clone(), why));
                }
            }
        }
    }
}

fn key_word(referent: Referent) -> &'static str {
    match referent {
        Referent::Secret => "secret ",
        _ => "config ",
    }
}

/// Returns the references of a pod, without optional ones.
pub(crate) fn of(pod: &Pod) -> Vec<Reference> {
    let mut all = Vec::new();
    for volume in pod.list("spec/volumes") {
        of_volume(pod, volume, &mut all);
    }
    for list in ["spec/initContainers", "spec/containers", "spec/ephemeralContainers"] {
        pod.list(list).iter().for_each(|container| of_container(container, &mut all));
    }
    for secret in pod.list("spec/imagePullSecrets") {
        all.extend(reference(Referent::Secret, secret, "name", Vec::new(), &Place::ImagePull));
    }
    all
}

/// Returns the reference that a source makes, unless it is optional.
fn reference(
    referent: Referent,
    source: &Tree,
    name: &str,
    keys: Vec<String>,
    place: &Place,
) -> Option<Reference> {
    let name = source.str(name).filter(|name| !name.is_empty() && !source.is_true("optional"))?;
    Some(Reference { referent, name: name.to_owned(), keys, place: place.clone() })
}

fn of_volume(pod: &Pod, volume: &Tree, all: &mut Vec<Reference>) {
    let name = volume.str("name").unwrap_or_default();
    let place = Place::Volume(name.to_owned());
    let items = |source: &Tree| {
        source.list("items").iter().filter_map(|item| item.str("key")).map(str::to_owned).collect()
    };
    let (map, secret) = (volume.at("configMap"), volume.at("secret"));
    all.extend(reference(Referent::ConfigMap, map, "name", items(map), &place));
    all.extend(reference(Referent::Secret, secret, "secretName", items(secret), &place));
    let claim = volume.at("persistentVolumeClaim");
    all.extend(reference(Referent::Claim, claim, "claimName", Vec::new(), &place));
    for source in volume.list("projected/sources") {
        let (map, secret) = (source.at("configMap"), source.at("secret"));
        all.extend(reference(Referent::ConfigMap, map, "name", items(map), &place));
        all.extend(reference(Referent::Secret, secret, "name", items(secret), &place));
        if source.has("serviceAccountToken") {
            let spec = pod.at("spec");
            all.extend(reference(Referent::ServiceAccount, spec, "serviceAccountName", Vec::new(), &place));
        }
    }
}

fn of_container(container: &Tree, all: &mut Vec<Reference>) {
    let place = Place::Environment(container.str("name").unwrap_or_default().to_owned());
    for source in container.list("envFrom") {
        all.extend(reference(Referent::ConfigMap, source.at("configMapRef"), "name", Vec::new(), &place));
        all.extend(reference(Referent::Secret, source.at("secretRef"), "name", Vec::new(), &place));
    }
    for variable in container.list("env") {
        for (path, referent) in
            [("valueFrom/configMapKeyRef", Referent::ConfigMap), ("valueFrom/secretKeyRef", Referent::Secret)]
        {
            let source = variable.at(path);
            let keys = source.str("key").map(str::to_owned).into_iter().collect();
            all.extend(reference(referent, source, "name", keys, &place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::tests::pod;
    use serde_json::json;

    fn missing(spec: serde_json::Value, found: &Found) -> Missing {
        let pod = pod(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}));
        let mut missing = Missing::default();
        of(&pod).iter().for_each(|reference| missing.note(&pod, reference, found));
        missing
    }

    #[test]
    fn every_place_of_a_reference_is_known() {
        let spec = json!({
            "serviceAccountName": "a",
            "imagePullSecrets": [{"name": "pull"}],
            "volumes": [
                {"name": "v1", "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}},
                {"name": "v2", "secret": {"secretName": "s"}},
                {"name": "v3", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "v4", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "v5", "projected": {"sources": [
                    {"configMap": {"name": "m2"}}, {"secret": {"name": "s2"}}, {"serviceAccountToken": {"path": "t"}}]}},
                {"name": "v6", "secret": {"secretName": "s3", "optional": true}},
                {"name": "v7", "emptyDir": {}},
            ],
            "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "m3"}}, {"secretRef": {"name": "s4", "optional": true}}]}],
            "containers": [{"name": "c", "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m4", "key": "k"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s5", "key": "k", "optional": true}}},
                {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
        });
        let nothing = missing(spec.clone(), &Found::Nothing);
        assert_eq!(
            nothing.volumes,
            [
                "MountVolume.SetUp failed for volume \"v1\" : configmap \"m\" not found",
                "MountVolume.SetUp failed for volume \"v2\" : secret \"s\" not found",
                "Unable to attach or mount volumes: unmounted volumes=[v3], unattached volumes=[], failed to process \
                 volumes=[v3]: error processing PVC n/c: failed to fetch PVC from API server: persistentvolumeclaims \
                 \"c\" not found",
                "MountVolume.SetUp failed for volume \"v5\" : configmap \"m2\" not found",
                "MountVolume.SetUp failed for volume \"v5\" : secret \"s2\" not found",
                "MountVolume.SetUp failed for volume \"v5\" : failed to fetch token: serviceaccounts \"a\" not found",
            ]
        );
        assert_eq!(
            nothing.environments,
            [
                ("i".to_owned(), "configmap \"m3\" not found".to_owned()),
                ("c".to_owned(), "configmap \"m4\" not found".to_owned())
            ]
        );
        assert_eq!(nothing.pull_secrets, ["pull"]);
        assert_eq!(missing(spec, &Found::All), Missing::default());
    }

    #[test]
    fn a_missing_key_is_named() {
        let spec = json!({
            "volumes": [{"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}}],
            "containers": [{"name": "c", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}],
        });
        let missing = missing(spec, &Found::NotKey("k".to_owned()));
        assert_eq!(
            missing.volumes,
            ["MountVolume.SetUp failed for volume \"v\" : configmap references non-existent config key: k"]
        );
        assert_eq!(missing.environments[0].1, "couldn't find key k in Secret n/s");
    }
}

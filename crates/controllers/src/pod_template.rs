//! Pod templates: their hash, and the pod that a controller creates from one.

use evenkeel_tree::{Tree, tree};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::kinds::Pod;
use crate::object::Fields;

/// The characters of a hash: those of generated names.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The path of a template's hash label, by which a Deployment distinguishes its ReplicaSets.
pub(crate) const TEMPLATE_HASH: &str = "metadata/labels/pod-template-hash";

/// Hashes an object. The hash is the same in every process and for every order of map entries.
///
/// Another `collisions` yields another hash, for when a name with the first hash is taken.
pub(crate) fn hash(object: &Tree, collisions: Option<i32>) -> String {
    // The maps of a tree are sorted, so equal objects have equal texts.
    let canonical = object.to_string();
    let mut state = fnv1a(0x811c_9dc5, canonical.as_bytes());
    if let Some(collisions) = collisions {
        state = fnv1a(state, &u32::to_le_bytes(collisions.unsigned_abs()));
    }
    encode(state)
}

fn fnv1a(state: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(state, |state, byte| (state ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn encode(hash: u32) -> String {
    hash.to_string().bytes().map(|digit| ALPHABET[usize::from(digit) % ALPHABET.len()] as char).collect()
}

/// Whether two templates are equal, apart from the label with the hash.
pub(crate) fn equal_but_for_hash(a: &Tree, b: &Tree) -> bool {
    without_hash(a) == without_hash(b)
}

/// Returns the template without the label that the controller adds.
pub(crate) fn without_hash(template: &Tree) -> Tree {
    let mut template = template.clone();
    template.set(TEMPLATE_HASH, Tree::Null);
    template.set("metadata/creationTimestamp", Tree::Null);
    // An empty map and a missing one mean the same.
    for map in ["metadata/labels", "metadata/annotations", "metadata"] {
        if template.at(map).is_empty() {
            template.set(map, Tree::Null);
        }
    }
    template
}

/// Returns a pod with this template and controller. The API server generates its name.
pub(crate) fn pod(template: &Tree, namespace: &str, owner: OwnerReference) -> Pod {
    let texts = |path: &str| template.has(path).then(|| template.text_map(path));
    let finalizers: Vec<_> = template.texts("metadata/finalizers").map(str::to_owned).collect();
    let metadata = ObjectMeta {
        generate_name: Some(generate_name(&owner.name)),
        namespace: Some(namespace.to_owned()),
        labels: texts("metadata/labels"),
        annotations: texts("metadata/annotations"),
        finalizers: (!finalizers.is_empty()).then_some(finalizers),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    Pod::new(metadata, tree!({"spec": template.at("spec")}))
}

/// Returns the prefix of the pod names of a controller.
///
/// The dash is left out if the prefix would become too long for a name.
fn generate_name(owner: &str) -> String {
    const NAME_MAX: usize = 253;
    if owner.len() < NAME_MAX { format!("{owner}-") } else { owner.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(value: serde_json::Value) -> Tree {
        value.into()
    }

    #[test]
    fn the_hash_is_stable_across_releases() {
        // The hashes are part of object names in users' data directories, so that they must never change.
        let one = template(
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        );
        assert_eq!(hash(&one, None), hash(&one.clone(), None));
        assert_ne!(hash(&one, None), hash(&one, Some(1)));
        assert_eq!(encode(0), "4");
        assert_eq!(encode(u32::MAX), encode(4_294_967_295));
        assert_eq!(fnv1a(0x811c_9dc5, b"a"), 0xe40c_292c);
    }

    /// The names of ReplicaSets in existing data directories contain hashes that were computed from the types of
    /// `k8s-openapi`, so the hash must not change.
    #[test]
    fn a_template_with_defaults_hashes_as_its_typed_form_does() {
        let value = json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{
                    "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent", "command": [],
                    "resources": {"requests": {"cpu": "100m"}}, "securityContext": {},
                    "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}],
                    "livenessProbe": {"httpGet": {"path": "/", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30,
                "volumes": [{"name": "tmp", "emptyDir": {}}],
            },
        });
        let typed: k8s_openapi::api::core::v1::PodTemplateSpec =
            serde_json::from_value(value.clone()).unwrap();
        let typed = Tree::from(serde_json::to_value(typed).unwrap());
        assert_eq!(template(value.clone()).to_string(), typed.to_string());
        assert_eq!(hash(&template(value), None), "55db76b768");
    }

    #[test]
    fn templates_are_compared_without_their_hash() {
        let plain = template(json!({"metadata": {"labels": {"app": "web"}}}));
        let hashed = template(
            json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "x"}, "creationTimestamp": null}}),
        );
        let other = template(json!({"metadata": {"labels": {"app": "api"}}}));
        assert!(equal_but_for_hash(&plain, &hashed));
        assert!(!equal_but_for_hash(&plain, &other));
    }
}

//! The state of a cluster without what differs between equivalent runs: uids, revisions, times, generated names, and
//! the bookkeeping of the built-in controllers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_cluster::StoredObject;
use evenkeel_env::HashMap;
use serde_json::{Map, Value};

/// Kinds that built-in controllers derive from other objects. Comparing them would add nothing.
const DERIVED: [&str; 6] =
    ["endpoints", "endpointslices", "controllerrevisions", "events", "leases", "podmetrics"];
/// Namespaces of the cluster itself. Only the objects in them that were written after the scenario began are compared.
const SYSTEM_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
/// Cluster-scoped kinds that are not compared: what the cluster itself keeps, and what follows from other objects.
const LEFT_OUT: [&str; 9] = [
    "nodes",
    "csinodes",
    "volumeattachments",
    "persistentvolumes",
    "customresourcedefinitions",
    "apiservices",
    "certificatesigningrequests",
    "flowschemas",
    "prioritylevelconfigurations",
];
/// Metadata fields that differ between equivalent objects.
const VOLATILE_METADATA: [&str; 6] =
    ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"];
/// Labels and annotations that depend on how a state was reached, not on the state itself.
const VOLATILE_LABELS: [&str; 4] = [
    "deployment.kubernetes.io/revision",
    "deployment.kubernetes.io/revision-history",
    "pod-template-hash",
    "controller-revision-hash",
];
/// The fields of a built-in kind's status that are compared. The rest are conditions, addresses and times.
const BUILT_IN_STATUS: [&str; 8] = [
    "phase",
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "updatedReplicas",
    "succeeded",
    "failed",
    "capacity",
];
/// The fields of a built-in kind's spec that the cluster assigns.
const ASSIGNED_SPEC: [&str; 6] =
    ["nodeName", "clusterIP", "clusterIPs", "volumeName", "healthCheckNodePort", "claimRef"];
/// Kinds whose objects built-in controllers make with generated names. Nobody promises how long a reference to one holds.
const MADE_BY_THE_CLUSTER: [&str; 2] = ["pods", "replicasets"];
/// The letters of generated names.
const GENERATED: &str = "bcdfghjklmnpqrstvwxz2456789";
/// How many letters the API server adds to `generateName`.
const GENERATED_LENGTH: usize = 5;

/// How many normalized objects a thread keeps. Runs of one scenario have most objects in common; the largest scenarios have
/// some thousand versions of objects.
const MOST_KEPT: usize = 16 * 1024;

/// The normalized state of a cluster: objects by key. Objects with generated names are numbered instead.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct World {
    pub(crate) objects: BTreeMap<String, Arc<Value>>,
}

/// A normalized object.
#[derive(Clone)]
struct Normalized {
    key: Arc<str>,
    /// If the name is generated: the key prefix, the `generateName`, and the content as text, by which objects with one
    /// prefix are sorted.
    generated: Option<(Arc<str>, Arc<str>)>,
    value: Arc<Value>,
}

/// Normalized objects by key and bytes, or `None` for objects that are not compared.
type NormalizedObjects = HashMap<(Arc<str>, Bytes), Option<Normalized>>;

thread_local! {
    /// The objects that this thread has normalized, by key and content; `None` for those that are not compared.
    static KEPT: RefCell<NormalizedObjects> = RefCell::default();
}

impl World {
    pub(crate) fn of(stored: &[StoredObject]) -> Self {
        let mut named = BTreeMap::new();
        let mut generated = Vec::new();
        let mut names = BTreeMap::new();
        for object in stored.iter().filter(|object| is_compared(&object.key)) {
            let Some(Normalized { key, generated: prefix, value }) = kept(object) else { continue };
            match prefix {
                Some((prefix, text)) => {
                    let parts = KeyParts::of(&object.key);
                    if !MADE_BY_THE_CLUSTER.contains(&parts.plural) {
                        names.insert(parts.name.to_owned(), format!("(one of {prefix})"));
                    }
                    generated.push((prefix, text, value));
                }
                None => {
                    named.insert(key.to_string(), value);
                }
            }
        }
        // Equivalent objects are interchangeable, so they are numbered in the order of their content.
        generated.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        let mut counts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for (prefix, _, value) in generated {
            let count = counts.entry(prefix.clone()).or_default();
            *count += 1;
            named.insert(format!("{prefix}#{count}"), value);
        }
        if !names.is_empty() {
            named.values_mut().for_each(|object| resolve(object, &names));
        }
        Self { objects: named }
    }
}

/// Replaces references to objects with generated names, so that they are equal in all runs in which such an object exists. A
/// reference to an object that is gone keeps the name, and differs.
fn resolve(object: &mut Arc<Value>, names: &BTreeMap<String, String>) {
    fn refers(value: &Value, names: &BTreeMap<String, String>) -> bool {
        match value {
            Value::Object(map) => map.values().any(|value| refers(value, names)),
            Value::Array(items) => items.iter().any(|value| refers(value, names)),
            Value::String(text) => names.contains_key(text),
            _ => false,
        }
    }
    fn replace(value: &mut Value, names: &BTreeMap<String, String>) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|value| replace(value, names)),
            Value::Array(items) => items.iter_mut().for_each(|value| replace(value, names)),
            Value::String(text) => {
                if let Some(name) = names.get(text) {
                    text.clone_from(name);
                }
            }
            _ => {}
        }
    }
    if refers(object, names) {
        replace(Arc::make_mut(object), names);
    }
}

fn kept(object: &StoredObject) -> Option<Normalized> {
    KEPT.with_borrow_mut(|kept| {
        let known = (object.key.clone(), object.json.clone());
        if let Some(normalized) = kept.get(&known) {
            return normalized.clone();
        }
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        let normalized = normalize(object);
        // Views of services outside the cluster are normalized anew each time.
        kept.insert(known, normalized.clone());
        normalized
    })
}

fn normalize(object: &StoredObject) -> Option<Normalized> {
    let value = serde_json::from_slice::<Value>(&object.json).ok()?;
    let (key, value) = without_template_hash(&object.key, value);
    if is_idle_replica_set(&key, &value) {
        return None;
    }
    let prefix = generated_prefix(&value).map(str::to_owned);
    let value = normalized(&key, value);
    let generated = prefix.map(|prefix| {
        let folder = key.rsplit_once('/').map_or("", |(folder, _)| folder);
        (format!("{folder}/{prefix}").into(), value.to_string().into())
    });
    Some(Normalized { key: key.into(), generated, value: Arc::new(value) })
}

/// Removes the hash of the pod template from the names of a Deployment's ReplicaSets and pods. The hash depends on how
/// the state was reached: if a ReplicaSet of a deleted Deployment still exists, the next Deployment gets another hash.
fn without_template_hash(key: &str, object: Value) -> (String, Value) {
    let hash = object["metadata"]["labels"]["pod-template-hash"].as_str().map(|hash| format!("-{hash}"));
    let Some(hash) = hash.filter(|hash| hash.len() > 1) else { return (key.to_owned(), object) };
    let text = object.to_string().replace(&hash, "");
    (key.replace(&hash, ""), serde_json::from_str(&text).unwrap_or(object))
}

/// Returns whether an object is compared.
fn is_compared(key: &str) -> bool {
    let parts = KeyParts::of(key);
    if DERIVED.contains(&parts.plural) || (parts.namespace.is_empty() && LEFT_OUT.contains(&parts.plural)) {
        return false;
    }
    parts.plural != "serviceaccounts" || parts.name != "default"
}

/// Returns whether a key is one of the cluster itself: cluster-scoped and of a built-in kind, or in a system namespace.
/// Such objects are compared only if they were written after the scenario began.
pub(crate) fn is_of_the_cluster(key: &str) -> bool {
    let parts = KeyParts::of(key);
    let is_system = SYSTEM_NAMESPACES.contains(&parts.namespace);
    is_system || (parts.namespace.is_empty() && !is_custom(parts.group))
}

/// Returns whether a group is not one of Kubernetes' own.
pub(crate) fn is_custom(group: &str) -> bool {
    group.contains('.') && !group.ends_with(".k8s.io")
}

/// The parts of a key `/registry/GROUP/PLURAL/[NAMESPACE/]NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyParts<'a> {
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl<'a> KeyParts<'a> {
    pub(crate) fn of(key: &'a str) -> Self {
        let mut parts = key.split('/').skip(2);
        let (group, plural) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let group = if group == "core" { "" } else { group };
        let (first, second) = (parts.next().unwrap_or_default(), parts.next());
        let (namespace, name) = second.map_or(("", first), |second| (first, second));
        Self { group, plural, namespace, name }
    }

    /// The kind, as `GROUP/PLURAL`.
    pub(crate) fn kind(&self) -> String {
        format!("{}/{}", self.group, self.plural)
    }

    /// Returns the short name of the object for messages, such as `secrets/web`.
    pub(crate) fn short(&self) -> String {
        format!("{}/{}", self.plural, self.name)
    }
}

/// Returns the `generateName` of an object whose name the API server generated.
fn generated_prefix(object: &Value) -> Option<&str> {
    let (name, prefix) = (object["metadata"]["name"].as_str()?, object["metadata"]["generateName"].as_str()?);
    let suffix = name.strip_prefix(prefix)?;
    let generated = suffix.len() == GENERATED_LENGTH && suffix.chars().all(|it| GENERATED.contains(it));
    generated.then_some(prefix)
}

/// Returns whether an object is a ReplicaSet without replicas, kept for rollbacks. How many exist depends on how the
/// state was reached.
fn is_idle_replica_set(key: &str, object: &Value) -> bool {
    KeyParts::of(key).plural == "replicasets" && object["spec"]["replicas"] == 0
}

fn normalized(key: &str, mut object: Value) -> Value {
    let built_in = !is_custom(KeyParts::of(key).group);
    let generation = object["metadata"]["generation"].clone();
    let generated = generated_prefix(&object).is_some();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        VOLATILE_METADATA.iter().for_each(|field| drop(metadata.remove(*field)));
        if generated {
            metadata.remove("name");
        }
        for field in ["labels", "annotations"] {
            if let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) {
                map.retain(|key, _| !VOLATILE_LABELS.contains(&&**key) && !is_volume_note(key));
                if map.is_empty() {
                    metadata.remove(field);
                }
            }
        }
    }
    if built_in {
        reduce_built_in(&mut object);
    }
    scrub(&mut object, &generation);
    object
}

/// Returns whether an annotation is one in which the volume controllers record their progress.
fn is_volume_note(key: &str) -> bool {
    key.starts_with("pv.kubernetes.io/")
        || key.starts_with("volume.kubernetes.io/")
        || key.starts_with("volume.beta.kubernetes.io/")
}

fn reduce_built_in(object: &mut Value) {
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|field, value| BUILT_IN_STATUS.contains(&&**field) && *value != 0);
        if status.is_empty() {
            object.as_object_mut().map(|object| object.remove("status"));
        }
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|field, _| !ASSIGNED_SPEC.contains(&&**field));
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
}

/// Replaces times, uids and observed generations, and sorts conditions.
fn scrub(value: &mut Value, generation: &Value) {
    match value {
        Value::Object(map) => scrub_map(map, generation),
        Value::Array(items) => {
            items.iter_mut().for_each(|item| scrub(item, generation));
            if items.iter().all(|item| item["type"].is_string() && item["status"].is_string()) {
                items.sort_by_key(|item| item["type"].to_string());
            }
        }
        Value::String(text) => {
            if let Some(scrubbed) = scrubbed(text) {
                *text = scrubbed;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn scrub_map(map: &mut Map<String, Value>, generation: &Value) {
    VOLATILE_LABELS.iter().for_each(|label| drop(map.remove(*label)));
    for (field, value) in map.iter_mut() {
        if field == "observedGeneration" && !generation.is_null() {
            *value = Value::String(if value == generation { "current" } else { "old" }.into());
        } else if is_generation(field, value) {
            *value = Value::String("(generation)".into());
        } else {
            scrub(value, generation);
        }
    }
}

/// Returns whether a value is the generation of another object, such as the one in `deploymentGeneration`. It depends on how
/// many changes that object has seen.
fn is_generation(field: &str, value: &Value) -> bool {
    let is_number = value.is_u64() || value.as_str().is_some_and(|text| text.parse::<u64>().is_ok());
    is_number
        && (field.ends_with("Generation") || field.ends_with("-generation") || field.ends_with("/generation"))
}

/// Returns the text without times and uids, or `None` if it contains none.
fn scrubbed(text: &str) -> Option<String> {
    if text.len() >= "2000-01-01T00:00:00Z".len() && text.parse::<jiff::Timestamp>().is_ok() {
        return Some("(time)".into());
    }
    let mut out = None;
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(find_uid) {
        let so_far = out.get_or_insert_with(String::new);
        so_far.push_str(&text[at..at + found]);
        so_far.push_str("(uid)");
        at += found + UID_LENGTH;
    }
    if let Some(out) = &mut out {
        out.push_str(&text[at..]);
    }
    let text = out.as_deref().unwrap_or(text);
    // The volume of a service account's token has a generated name.
    match text.split_once("kube-api-access-") {
        Some((before, after))
            if after.len() >= GENERATED_LENGTH && after.is_char_boundary(GENERATED_LENGTH) =>
        {
            Some(format!("{before}kube-api-access{}", &after[GENERATED_LENGTH..]))
        }
        _ => out,
    }
}

/// The length of a uid in its canonical form.
const UID_LENGTH: usize = 36;

/// Returns where the first uid begins.
fn find_uid(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (0..(bytes.len() + 1).saturating_sub(UID_LENGTH))
        .find(|start| is_uid(&bytes[*start..*start + UID_LENGTH]))
}

fn is_uid(bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase(),
    })
}

/// Returns whether an object has a controller among its owner references.
pub(crate) fn has_controller(object: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| owners.iter().any(|owner| owner["controller"] == true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_and_uids_are_scrubbed() {
        assert_eq!(scrubbed("2026-01-01T00:00:00Z").as_deref(), Some("(time)"));
        let uid = "pvc-0f8fad5b-d9cb-469f-a165-70867728950e, bound";
        assert_eq!(scrubbed(uid).as_deref(), Some("pvc-(uid), bound"));
        assert_eq!(scrubbed("web"), None);
    }

    #[test]
    fn generated_names_are_told_from_ordinals() {
        let pod = |name: &str| json!({"metadata": {"name": name, "generateName": "web-"}});
        assert_eq!(generated_prefix(&pod("web-x7k2p")), Some("web-"));
        assert_eq!(generated_prefix(&pod("web-0")), None);
    }

    #[test]
    fn the_hash_of_a_template_is_no_part_of_a_name() {
        let labels = json!({"pod-template-hash": "57dddd656f"});
        let pod = json!({"metadata": {"name": "web-57dddd656f-x7k2p", "generateName": "web-57dddd656f-", "labels": labels}});
        let (key, pod) = without_template_hash("/registry/core/pods/default/web-57dddd656f-x7k2p", pod);
        assert_eq!(key, "/registry/core/pods/default/web-x7k2p");
        assert_eq!(generated_prefix(&pod), Some("web-"));
    }

    #[test]
    fn a_key_has_parts() {
        let parts = KeyParts::of("/registry/apps/statefulsets/default/web");
        assert_eq!(
            (parts.group, parts.plural, parts.namespace, parts.name),
            ("apps", "statefulsets", "default", "web")
        );
        assert_eq!(parts.kind(), "apps/statefulsets");
    }
}

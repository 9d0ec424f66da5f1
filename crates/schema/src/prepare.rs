//! Prepares an object of a built-in kind for storage, between defaulting and validation.
//!
//! This is what Kubernetes' strategies do in `PrepareForCreate` and `PrepareForUpdate`: only the status subresource may
//! change the status, the generation counts changes of the desired state, and some fields follow from others. Uids,
//! addresses and everything else that needs more than the object itself are the API server's task.

mod certificate;
mod claim;
mod gated;
mod job;
mod pod;
mod service;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use crate::api_resources;
use crate::defaults::TEMPLATE_GENERATION;
use crate::json::{Map, Text, Value};
use crate::read::Read;
use crate::time::{self, Precision};

pub use pod::qos_class;

/// A kind with its group and version.
#[derive(Clone, Copy, Debug)]
pub struct GroupVersionKind<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
}

/// Prepares an object for creation. Its name and uid are already set.
pub fn create(group: &str, version: &str, kind: &str, object: &mut Value, now: Timestamp) {
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata(object).remove(field);
    }
    gated::drop_disabled(group, kind, object, None);
    // Other kinds keep the generation that the client sent. A CSIDriver's generation counts only from its first change.
    if has_generation(group, kind) && kind != "CSIDriver" {
        put(metadata(object), "generation", 1.into());
    }
    // The kubelet creates its node together with the status.
    if has_status(group, version, kind) && (group, kind) != ("", "Node") {
        remove(object, "status");
    }
    match (group, kind) {
        ("", "Pod") => pod::create(object, now),
        ("", "Namespace") => namespace(object),
        ("", "Service") => service::create(object),
        ("", "ServiceAccount") => secret_names(object),
        ("", "PersistentVolume") => {
            let now = time::print(now, Precision::Seconds);
            set(object, "status", crate::json::json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
        }
        ("", "PersistentVolumeClaim") => claim::prepare(object, None),
        ("discovery.k8s.io", "EndpointSlice") => drop_topology(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => template_generation(object, 1),
        ("batch", "Job") => job::generate_selector(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => stored_version(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            for field in ["username", "uid", "groups", "extra"] {
                remove(child(object, "spec"), field);
            }
        }
        _ => {}
    }
    settle(group, version, kind, object, None);
}

/// Prepares an object for an update through `subresource`, which is empty for the object itself. `old` is the stored object.
///
/// ```
/// let old = evenkeel_schema::json::json!({"spec": {"replicas": 1}, "metadata": {"generation": 4}});
/// let mut new = evenkeel_schema::json::json!({"spec": {"replicas": 2}, "metadata": {}});
/// let kind = evenkeel_schema::prepare::GroupVersionKind { group: "apps", version: "v1", kind: "ReplicaSet" };
/// evenkeel_schema::prepare::update(kind, &mut new, &old, "", jiff::Timestamp::UNIX_EPOCH);
/// assert_eq!(new["metadata"]["generation"], 5);
/// ```
pub fn update(kind: GroupVersionKind<'_>, new: &mut Value, old: &Value, subresource: &str, now: Timestamp) {
    let GroupVersionKind { group, version, kind } = kind;
    copy(metadata(new), old.at("metadata"), "generation");
    gated::drop_disabled(group, kind, new, Some(old));
    match subresource {
        "" => return update_object(group, version, kind, new, old),
        "status" => update_status(group, kind, new, old, now),
        "ephemeralcontainers" => pod::update_ephemeral_containers(new, old),
        "resize" => pod::update_resize(new, old),
        "finalize" => copy(object_of(new), Some(old), "status"),
        "approval" => certificate::update_approval(new, old, now),
        _ => {}
    }
    settle(group, version, kind, new, Some(old));
}

/// Moves a Secret's `stringData` into its `data`, as Kubernetes' conversion to the stored form does.
pub fn string_data(secret: &mut Value) {
    let Some(Value::Object(texts)) = object_of(secret).remove("stringData") else { return };
    if texts.is_empty() {
        return;
    }
    let data = object_of(child(secret, "data"));
    for (key, text) in texts {
        data.insert(key, Value::from(STANDARD.encode(text.as_str().unwrap_or_default())));
    }
}

/// Reduces the references to Secrets of a ServiceAccount to their names.
fn secret_names(account: &mut Value) {
    let secrets = account.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten().filter_map(Value::as_object_mut) {
        secret.retain(|field, _| field == "name");
    }
}

/// Normalizes and defaults the prepared object, which brings it into its stored form.
fn settle(group: &str, version: &str, kind: &str, object: &mut Value, old: Option<&Value>) {
    crate::normalize::normalize_since(group, version, kind, object, old);
    crate::defaults::apply_since(group, version, kind, object, old);
}

fn update_object(group: &str, version: &str, kind: &str, new: &mut Value, old: &Value) {
    if has_status(group, version, kind) {
        copy(object_of(new), Some(old), "status");
    }
    match (group, kind) {
        ("", "Namespace") => {
            let spec = object_of(child(new, "spec"));
            copy(spec, old.at("spec"), "finalizers");
        }
        ("", "Secret") if new.str("type").is_empty() => copy(object_of(new), Some(old), "type"),
        ("", "Service") => service::update(new, old),
        ("", "ServiceAccount") => secret_names(new),
        ("", "PersistentVolumeClaim") => claim::prepare(new, Some(old)),
        ("discovery.k8s.io", "EndpointSlice") if new.get("endpoints") != old.get("endpoints") => {
            drop_topology(new)
        }
        ("apps", "StatefulSet") => stateful_set(new),
        ("apps", "DaemonSet") => daemon_set(new, old),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => stored_version(new),
        ("certificates.k8s.io", "CertificateSigningRequest") => copy(object_of(new), Some(old), "spec"),
        _ => {}
    }
    // The stored object is normalized and defaulted, so the new one must be before they are compared.
    settle(group, version, kind, new, Some(old));
    if has_generation(group, kind) && is_changed(group, kind, new, old) {
        bump_generation(new, old);
    }
}

fn bump_generation(new: &mut Value, old: &Value) {
    let generation = old.at("metadata").int("generation").unwrap_or_default();
    put(metadata(new), "generation", (generation + 1).into());
}

/// Restores everything but the status and, for most kinds, the metadata.
fn update_status(group: &str, kind: &str, new: &mut Value, old: &Value, now: Timestamp) {
    let fields: Vec<Text> = old.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    for field in fields.iter().filter(|field| !matches!(field.as_str(), "metadata" | "status")) {
        copy(object_of(new), Some(old), field);
    }
    if !fields.iter().any(|field| field == "spec") {
        remove(new, "spec");
    }
    match (group, kind) {
        ("", "Pod") => pod::update_status(new, old),
        ("", "PersistentVolume") => phase_time(new, old, now),
        ("apps", "Deployment") => copy(metadata(new), old.at("metadata"), "labels"),
        ("certificates.k8s.io", "CertificateSigningRequest") => certificate::update_status(new, old, now),
        ("flowcontrol.apiserver.k8s.io", _) => keep_metadata(new, old, &[]),
        ("storage.k8s.io", "VolumeAttachment")
        | ("admissionregistration.k8s.io", _)
        | ("resource.k8s.io", _)
        | ("networking.k8s.io", "ServiceCIDR") => reset_metadata(new, old),
        ("apiregistration.k8s.io", _) => {
            for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
                copy(metadata(new), old.at("metadata"), field);
            }
        }
        _ => {}
    }
}

/// Sets the time at which a PersistentVolume's phase last changed.
fn phase_time(new: &mut Value, old: &Value, now: Timestamp) {
    const TIME: &str = "lastPhaseTransitionTime";
    let (status, before) = (new.at("status").cloned(), old.at("status"));
    let same_time = !status.as_ref().has(TIME) || status.as_ref().at(TIME) == before.at(TIME);
    let time = match status.as_ref().str("phase") == before.str("phase") {
        false if same_time => Some(Value::from(time::print(now, Precision::Seconds))),
        true if !status.as_ref().has(TIME) => before.at(TIME).cloned(),
        _ => None,
    };
    if let Some(time) = time {
        set(child(new, "status"), TIME, time);
    }
}

/// Restores the metadata that a subresource cannot change.
fn reset_metadata(new: &mut Value, old: &Value) {
    for field in ["deletionTimestamp", "generation", "labels", "annotations", "finalizers", "ownerReferences"]
    {
        copy(metadata(new), old.at("metadata"), field);
    }
}

fn keep_metadata(new: &mut Value, old: &Value, except: &[&str]) {
    let managed = metadata(new).remove("managedFields");
    let kept: Vec<(String, Value)> =
        except.iter().filter_map(|field| Some(((*field).to_owned(), metadata(new).remove(field)?))).collect();
    copy(object_of(new), Some(old), "metadata");
    let metadata = metadata(new);
    metadata.remove("managedFields");
    metadata.extend(managed.map(|managed| ("managedFields".to_owned(), managed)));
    metadata.extend(kept);
}

fn namespace(object: &mut Value) {
    set(object, "status", crate::json::json!({"phase": "Active"}));
    let spec = child(object, "spec");
    if !(&*spec).strs("finalizers").contains(&"kubernetes") {
        let mut finalizers = (&*spec).list("finalizers").to_vec();
        finalizers.push("kubernetes".into());
        set(spec, "finalizers", Value::Array(finalizers.into()));
    }
}

/// Updates the annotation in which a DaemonSet counts the changes of its template, for clients older than
/// ControllerRevisions.
fn daemon_set(new: &mut Value, old: &Value) {
    let before = old.at("metadata").at("annotations").str(TEMPLATE_GENERATION).parse().unwrap_or(1);
    let changed = (&*new).at("spec").at("template") != old.at("spec").at("template");
    template_generation(new, if changed { before + 1 } else { before });
}

fn template_generation(object: &mut Value, generation: i64) {
    let annotations = child(child(object, "metadata"), "annotations");
    set(annotations, TEMPLATE_GENERATION, Value::from(generation.to_string()));
}

/// Adds the storage version to `status.storedVersions`, which lists every version that objects were ever stored in.
fn stored_version(definition: &mut Value) {
    let versions = (&*definition).at("spec").list("versions");
    let Some(storage) = versions.iter().find(|version| version.bool("storage")) else { return };
    let name = Value::from(storage.str("name"));
    let mut stored = (&*definition).at("status").list("storedVersions").to_vec();
    if !stored.contains(&name) {
        stored.push(name);
        set(child(definition, "status"), "storedVersions", Value::Array(stored.into()));
    }
}

/// Drops the topology of endpoints, which is a field of `v1beta1` that `v1` only shows.
fn drop_topology(slice: &mut Value) {
    let endpoints = slice.get_mut("endpoints").and_then(Value::as_array_mut);
    for endpoint in endpoints.into_iter().flatten() {
        remove(endpoint, "deprecatedTopology");
    }
}

/// Drops `maxUnavailable` of a rolling update, whose feature gate is off.
fn stateful_set(object: &mut Value) {
    let strategy = child(child(object, "spec"), "updateStrategy");
    if let Some(rolling) = strategy.get_mut("rollingUpdate").filter(|rolling| rolling.is_object()) {
        remove(rolling, "maxUnavailable");
    }
}

/// Whether the desired state differs, so that the generation increases.
fn is_changed(group: &str, kind: &str, new: &Value, old: &Value) -> bool {
    let differs = |field: &str| new.at(field) != old.at(field);
    let metadata_differs = |field: &str| new.at("metadata").at(field) != old.at("metadata").at(field);
    match (group, kind) {
        ("apps", "Deployment") => differs("spec") || metadata_differs("annotations"),
        ("", "PodTemplate") => differs("template"),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => differs("webhooks"),
        ("discovery.k8s.io", "EndpointSlice") => {
            metadata_differs("labels") || ["addressType", "endpoints", "ports"].into_iter().any(differs)
        }
        ("scheduling.k8s.io", "PriorityClass") => false,
        _ => differs("spec"),
    }
}

/// Whether objects of a kind have a generation.
pub fn has_generation(group: &str, kind: &str) -> bool {
    match group {
        "" => matches!(kind, "Pod" | "PodTemplate" | "ReplicationController"),
        "apps" => kind != "ControllerRevision",
        "batch" => true,
        "networking.k8s.io" => matches!(kind, "Ingress" | "IngressClass" | "NetworkPolicy"),
        "discovery.k8s.io" | "flowcontrol.apiserver.k8s.io" | "admissionregistration.k8s.io" => true,
        "policy" => kind == "PodDisruptionBudget",
        "scheduling.k8s.io" => kind == "PriorityClass",
        "resource.k8s.io" => matches!(kind, "ResourceSlice" | "DeviceClass" | "DeviceTaintRule"),
        "storage.k8s.io" => kind == "CSIDriver",
        "apiextensions.k8s.io" => true,
        _ => false,
    }
}

fn has_status(group: &str, version: &str, kind: &str) -> bool {
    api_resources::by_kind(group, version, kind)
        .is_some_and(|resource| resource.subresource("status").is_some())
}

fn object_of(value: &mut Value) -> &mut Map {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made an object above")
}

fn child<'a>(value: &'a mut Value, field: &str) -> &'a mut Value {
    let child = object_of(value).entry(field).or_insert(Value::Null);
    object_of(child);
    child
}

fn metadata(object: &mut Value) -> &mut Map {
    object_of(child(object, "metadata"))
}

fn put(map: &mut Map, field: &str, value: Value) {
    map.insert(field.into(), value);
}

fn set(object: &mut Value, field: &str, value: Value) {
    put(object_of(object), field, value);
}

fn remove(object: &mut Value, field: &str) {
    object_of(object).remove(field);
}

/// Copies a field from `from`, or removes it if it is absent there.
fn copy(map: &mut Map, from: Option<&Value>, field: &str) {
    match from.at(field) {
        // Most fields are unchanged, and comparing costs less than copying one value and freeing the other.
        Some(value) if map.get(field) == Some(value) => {}
        Some(value) => put(map, field, value.clone()),
        None => drop(map.remove(field)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    const DEPLOYMENT: GroupVersionKind<'_> =
        GroupVersionKind { group: "apps", version: "v1", kind: "Deployment" };

    fn created(group: &str, version: &str, kind: &str, mut object: Value) -> Value {
        crate::normalize::normalize(group, version, kind, &mut object);
        crate::defaults::apply(group, version, kind, &mut object);
        create(group, version, kind, &mut object, Timestamp::UNIX_EPOCH);
        object
    }

    #[test]
    fn status_belongs_to_its_endpoint() {
        let claim = json!({"metadata": {"name": "d", "generation": 7}, "spec": {"selector": {}, "template": {}},
            "status": {"replicas": 3}});
        let new = created("apps", "v1", "Deployment", claim);
        assert_eq!(new["metadata"]["generation"], 1);
        assert_eq!(new["status"], json!({}));
        let pod =
            created("", "v1", "Pod", json!({"metadata": {"name": "p"}, "status": {"phase": "Running"}}));
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    }

    #[test]
    fn generation_counts_changes_of_the_spec() {
        let old =
            created("apps", "v1", "Deployment", json!({"metadata": {"name": "d"}, "spec": {"replicas": 1}}));
        let mut same = old.clone();
        update(DEPLOYMENT, &mut same, &old, "", Timestamp::UNIX_EPOCH);
        assert_eq!(same, old);
        let mut scaled = old.clone();
        scaled["spec"]["replicas"] = json!(2);
        scaled["status"] = json!({"replicas": 5});
        update(DEPLOYMENT, &mut scaled, &old, "", Timestamp::UNIX_EPOCH);
        assert_eq!(scaled["metadata"]["generation"], 2);
        assert_eq!(scaled["status"], json!({}));
        let mut status = old.clone();
        status["spec"]["replicas"] = json!(2);
        status["status"] = json!({"replicas": 5});
        update(DEPLOYMENT, &mut status, &old, "status", Timestamp::UNIX_EPOCH);
        assert_eq!(status["spec"], old["spec"]);
        assert_eq!(status["status"], json!({"replicas": 5}));
    }

    #[test]
    fn jobs_select_their_own_pods() {
        let job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {"restartPolicy": "Never"}}}});
        let job = created("batch", "v1", "Job", job);
        let labels = json!({"batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "j",
            "controller-uid": "u", "job-name": "j"});
        assert_eq!(job["metadata"]["labels"], labels);
        assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
        assert_eq!(
            job["spec"]["selector"],
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
        );
    }

    #[test]
    fn text_of_a_secret_becomes_data() {
        let mut secret = json!({"stringData": {"a": "x"}, "data": {"b": "eQ=="}});
        string_data(&mut secret);
        assert_eq!(secret, json!({"data": {"a": "eA==", "b": "eQ=="}}));
    }

    #[test]
    fn namespaces_have_their_finalizer() {
        let namespace = created(
            "",
            "v1",
            "Namespace",
            json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["a/b"]}}),
        );
        assert_eq!(namespace["spec"]["finalizers"], json!(["a/b", "kubernetes"]));
        assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "n"}));
    }
}

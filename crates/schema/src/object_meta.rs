//! Validates `metadata`, on creation and on update.

use std::collections::BTreeSet;

use evenkeel_scalars::go;

use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::read::{Read, print_struct, print_structs};
use crate::{names, selector};

const IMMUTABLE: &str = "field is immutable";
/// The most bytes of all annotations together, keys and values.
const ANNOTATIONS_MAX: usize = 256 * 1024;
const MANAGER_MAX: usize = 128;
const SUBRESOURCE_MAX: usize = 256;
const OWNER_ORDER: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];

/// The finalizers without a domain that Kubernetes allows.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// The format of an object's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain (RFC 1123), as for most kinds.
    Subdomain,
    /// A DNS label (RFC 1123).
    Label,
    /// A DNS label that starts with a letter (RFC 1035).
    Label1035,
    /// Any text that is safe in a URL path, as for RBAC.
    PathSegment,
}

impl NameRule {
    /// Validates a name, or with `prefix` a `generateName`. Returns the error messages.
    pub fn check(self, name: &str, prefix: bool) -> Vec<String> {
        let masked = if prefix { names::mask_trailing_dash(name) } else { name.to_owned() };
        match self {
            NameRule::Subdomain => names::dns1123_subdomain(&masked),
            NameRule::Label => names::dns1123_label(&masked),
            NameRule::Label1035 => names::dns1035_label(&masked),
            NameRule::PathSegment if prefix => names::path_segment_prefix(name),
            NameRule::PathSegment => names::path_segment(name),
        }
    }

    /// The format of the names of a kind.
    pub fn of(group: &str, kind: &str) -> Self {
        match (group, kind) {
            ("", "Namespace") | ("", "Service") | ("apps", "StatefulSet") => NameRule::Label,
            ("rbac.authorization.k8s.io", _) | ("certificates.k8s.io", "CertificateSigningRequest") => {
                NameRule::PathSegment
            }
            ("apiregistration.k8s.io", "APIService") | ("internal.apiserver.k8s.io", "StorageVersion") => {
                NameRule::PathSegment
            }
            _ => NameRule::Subdomain,
        }
    }
}

/// Validates the metadata of a new object, built-in or custom.
pub fn create(object: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let path = Path::new("metadata");
    object_meta(&path, object.at("metadata").unwrap_or(&Value::Null), namespaced, rule)
}

/// Validates the metadata of a new object of a built-in kind, whose finalizers must be standard or qualified.
pub fn create_builtin(object: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let mut errors = create(object, namespaced, rule);
    kube_finalizers(&Path::new("metadata"), object, &mut errors);
    errors
}

/// Validates an update of the metadata, by the rules that all kinds share.
pub fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    let path = Path::new("metadata");
    let (new, old) = (new.at("metadata").unwrap_or(&Value::Null), old.at("metadata").unwrap_or(&Value::Null));
    let mut errors = Vec::new();
    if old.has("deletionTimestamp") {
        no_new_finalizers(&path.child("finalizers"), new, old, &mut errors);
    }
    if new.str("resourceVersion").is_empty() {
        let detail = "must be specified for an update";
        errors.push(FieldError::invalid(path.child("resourceVersion"), "", detail));
    }
    let generation = new.int("generation").unwrap_or_default();
    if generation < old.int("generation").unwrap_or_default() {
        errors.push(FieldError::invalid(path.child("generation"), generation, "must not be decremented"));
    }
    for name in ["name", "namespace", "uid"] {
        immutable_text(&path.child(name), new.str(name), old.str(name), &mut errors);
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (new, old) = (new.at(name), old.at(name));
        if new != old {
            let value = new.cloned().unwrap_or(Value::Null);
            errors.push(FieldError::invalid(path.child(name), pointer_value(value), IMMUTABLE));
        }
    }
    selector::validate_labels(&path.child("labels"), new.at("labels").unwrap_or(&Value::Null), &mut errors);
    annotations(&path.child("annotations"), new, &mut errors);
    owner_references(&path.child("ownerReferences"), new.list("ownerReferences"), &mut errors);
    managed_fields(&path.child("managedFields"), new.list("managedFields"), &mut errors);
    errors
}

/// Validates an update of the metadata of a built-in kind, whose finalizers must be standard or qualified.
pub fn update_builtin(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = update(new, old);
    kube_finalizers(&Path::new("metadata"), new, &mut errors);
    errors
}

/// Prints the value of a pointer field as JSON, as Kubernetes' messages do.
fn pointer_value(value: Value) -> BadValue {
    match value {
        Value::String(_) => BadValue::Printed(value.to_string()),
        value => BadValue::Value(value),
    }
}

fn immutable_text(path: &Path<'_>, new: &str, old: &str, errors: &mut Vec<FieldError>) {
    if new != old {
        errors.push(FieldError::invalid(path, new, IMMUTABLE));
    }
}

/// Validates the metadata at a path: of an object, a template or an embedded resource.
pub fn object_meta(path: &Path<'_>, meta: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let generate_name = meta.str("generateName");
    if !generate_name.is_empty() {
        for message in rule.check(generate_name, true) {
            errors.push(FieldError::invalid(path.child("generateName"), generate_name, message));
        }
    }
    let name = meta.str("name");
    if name.is_empty() {
        errors.push(FieldError::required(path.child("name"), "name or generateName is required"));
    } else {
        for message in rule.check(name, false) {
            errors.push(FieldError::invalid(path.child("name"), name, message));
        }
    }
    namespace(path, meta.str("namespace"), namespaced, &mut errors);
    let generation = meta.int("generation").unwrap_or_default();
    if generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path.child("generation"), generation, detail));
    }
    selector::validate_labels(&path.child("labels"), meta.at("labels").unwrap_or(&Value::Null), &mut errors);
    annotations(&path.child("annotations"), meta, &mut errors);
    owner_references(&path.child("ownerReferences"), meta.list("ownerReferences"), &mut errors);
    finalizers(&path.child("finalizers"), meta, &mut errors);
    managed_fields(&path.child("managedFields"), meta.list("managedFields"), &mut errors);
    errors
}

fn namespace(path: &Path<'_>, namespace: &str, namespaced: bool, errors: &mut Vec<FieldError>) {
    let path = path.child("namespace");
    match (namespaced, namespace) {
        (true, "") => errors.push(FieldError::required(path, "")),
        (true, _) => {
            for message in NameRule::Label.check(namespace, false) {
                errors.push(FieldError::invalid(path, namespace, message));
            }
        }
        (false, "") => {}
        (false, _) => errors.push(FieldError::forbidden(path, "not allowed on this type")),
    }
}

/// Validates the annotations of `meta`. The prefix of a key may contain upper-case letters.
pub fn annotations(path: &Path<'_>, meta: &Value, errors: &mut Vec<FieldError>) {
    let mut total = 0;
    for (key, value) in meta.pairs("annotations") {
        for message in names::qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid(path, key, message));
        }
        total += key.len() + value.len();
    }
    if total > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX));
    }
}

fn owner_references(path: &Path<'_>, owners: &[Value], errors: &mut Vec<FieldError>) {
    let mut controller: Option<String> = None;
    for owner in owners {
        owner_reference(path, owner, errors);
        if !owner.bool("controller") {
            continue;
        }
        let this = format!("{}/{}", owner.str("kind"), owner.str("name"));
        match &controller {
            None => controller = Some(this),
            Some(first) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                let printed = BadValue::Printed(print_structs(owners, &OWNER_ORDER));
                errors.push(FieldError::invalid(path, printed, detail));
            }
        }
    }
}

fn owner_reference(path: &Path<'_>, owner: &Value, errors: &mut Vec<FieldError>) {
    let api_version = owner.str("apiVersion");
    // Kubernetes parses an `apiVersion` with two slashes as an empty one.
    let version = match api_version.split('/').collect::<Vec<_>>().as_slice() {
        [version] => version,
        [_, version] => version,
        _ => "",
    };
    if version.is_empty() {
        errors.push(FieldError::invalid(path.child("apiVersion"), api_version, "version must not be empty"));
    }
    for field in ["kind", "name", "uid"] {
        if owner.str(field).is_empty() {
            errors.push(FieldError::invalid(path.child(field), "", "must not be empty"));
        }
    }
    if api_version == "v1" && owner.str("kind") == "Event" {
        let printed = BadValue::Printed(print_struct(owner, &OWNER_ORDER));
        errors.push(FieldError::invalid(path, printed, "/v1, Kind=Event is disallowed from being an owner"));
    }
}

/// Validates a finalizer of a built-in kind, which must be standard or have a domain.
pub(crate) fn finalizer(path: &Path<'_>, finalizer: &str, errors: &mut Vec<FieldError>) {
    finalizer_name(path, finalizer, errors);
    standard_or_qualified(path, finalizer, errors);
}

fn finalizer_name(path: &Path<'_>, finalizer: &str, errors: &mut Vec<FieldError>) {
    let wrong = names::qualified_name(finalizer).into_iter();
    errors.extend(wrong.map(|message| FieldError::invalid(path, finalizer, message)));
}

fn standard_or_qualified(path: &Path<'_>, finalizer: &str, errors: &mut Vec<FieldError>) {
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(path, finalizer, detail));
    }
}

fn finalizers(path: &Path<'_>, meta: &Value, errors: &mut Vec<FieldError>) {
    let finalizers = meta.strs("finalizers");
    for finalizer in &finalizers {
        finalizer_name(path, finalizer, errors);
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, Value::from(finalizers), detail));
    }
}

/// Validates the finalizers of a built-in kind, which must be standard or have a domain.
fn kube_finalizers(path: &Path<'_>, object: &Value, errors: &mut Vec<FieldError>) {
    let list = path.child("finalizers");
    for (index, finalizer) in object.at("metadata").strs("finalizers").into_iter().enumerate() {
        standard_or_qualified(&list.index(index), finalizer, errors);
    }
}

fn no_new_finalizers(path: &Path<'_>, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let old: BTreeSet<&str> = old.strs("finalizers").into_iter().collect();
    let new: BTreeSet<&str> = new.strs("finalizers").into_iter().collect();
    let extra: Vec<String> = new.difference(&old).map(|finalizer| go::quote(finalizer)).collect();
    if !extra.is_empty() {
        errors.push(FieldError::forbidden(
            path,
            format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                extra.join(", ")
            ),
        ));
    }
}

fn managed_fields(path: &Path<'_>, entries: &[Value], errors: &mut Vec<FieldError>) {
    for (index, entry) in entries.iter().enumerate() {
        let path = path.index(index);
        let operation = entry.str("operation");
        if !matches!(operation, "Apply" | "Update") {
            let detail = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid(path.child("operation"), operation, detail));
        }
        let fields_type = entry.str("fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.push(FieldError::invalid(path.child("fieldsType"), fields_type, "must be `FieldsV1`"));
        }
        field_manager(&path.child("manager"), entry.str("manager"), errors);
        if entry.str("subresource").len() > SUBRESOURCE_MAX {
            errors.push(FieldError::too_long(path.child("subresource"), SUBRESOURCE_MAX));
        }
    }
}

/// Validates the name of a field manager, which must be short and printable.
pub fn field_manager(path: &Path<'_>, manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > MANAGER_MAX {
        errors.push(FieldError::too_long(path, MANAGER_MAX));
    }
    for (index, c) in manager.char_indices().filter(|(_, c)| !go::is_print(*c)) {
        let detail = format!("invalid character {} (at position {index})", unicode_form(c));
        errors.push(FieldError::invalid(path, manager, detail));
    }
}

/// Prints a character as Go's `%#U` does: the code point, and the character if it is printable.
fn unicode_form(c: char) -> String {
    let code = u32::from(c);
    if go::is_print(c) { format!("U+{code:04X} '{c}'") } else { format!("U+{code:04X}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn owners_are_checked() {
        let object = json!({"metadata": {"name": "c", "namespace": "n", "ownerReferences": [
            {"apiVersion": "", "kind": "", "name": "", "uid": ""},
            {"apiVersion": "a/b/c", "kind": "K", "name": "n", "uid": "u"},
            {"apiVersion": "v1", "kind": "Event", "name": "n", "uid": "u"},
        ]}});
        assert_eq!(
            texts(&create(&object, true, NameRule::Subdomain)),
            [
                "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
                "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences.apiVersion: Invalid value: \"a/b/c\": version must not be empty",
                "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"n\",\"uid\":\"u\"}: /v1, Kind=Event is disallowed from being an owner",
            ]
        );
    }

    #[test]
    fn one_controller_only() {
        let owner = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": true});
        let object =
            json!({"metadata": {"name": "c", "namespace": "n", "ownerReferences": [owner("a"), owner("b")]}});
        assert_eq!(
            texts(&create(&object, true, NameRule::Subdomain)),
            [
                r#"metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"Pod","name":"a","uid":"a","controller":true},{"apiVersion":"v1","kind":"Pod","name":"b","uid":"b","controller":true}]: Only one reference can have Controller set to true. Found "true" in references for Pod/a and Pod/b"#
            ]
        );
    }

    #[test]
    fn finalizers_are_known_or_qualified() {
        let object = json!({"metadata": {"name": "c", "namespace": "n", "finalizers": ["unqualified"]}});
        assert_eq!(
            texts(&create_builtin(&object, true, NameRule::Subdomain)),
            [
                r#"metadata.finalizers[0]: Invalid value: "unqualified": name is neither a standard finalizer name nor is it fully qualified"#
            ]
        );
        let new = json!({"metadata": {"name": "c", "resourceVersion": "2", "finalizers": ["a/one", "a/two"], "deletionTimestamp": "t"}});
        let old = json!({"metadata": {"name": "c", "resourceVersion": "1", "finalizers": ["a/one"], "deletionTimestamp": "t"}});
        assert_eq!(
            texts(&update(&new, &old)),
            [
                r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a/two"}"#
            ]
        );
    }
}

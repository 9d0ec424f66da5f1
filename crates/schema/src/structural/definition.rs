//! Validates a CustomResourceDefinition.
//!
//! Kubernetes validates its internal form of the definition, in which schema, subresources and columns that all versions
//! share stand above `versions`. The paths in its messages are those of the internal form, so the definition is converted
//! to that form first.

mod accepted_names;
mod conversion;
mod defaults;
pub(super) mod field_path;
mod invariants;
mod keywords;
mod print;

mod serving;
mod warnings;

use evenkeel_scalars::go;

use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::read::Read;

pub(crate) use warnings::warnings;

use accepted_names::{check_names, required_names};
use conversion::conversion;
use serving::{columns, selectable_fields, subresources};

const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];
const WARNING_MAX: usize = 256;
/// The keywords allowed at the root of a schema whose status is a subresource, by their names in the Go struct.
const ROOT_FIELDS: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Validates a definition that is created, or updated from `old`.
pub fn validate(definition: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = match old {
        None => own_name(definition),
        Some(old) => object_meta::update(definition, old),
    };
    let spec = shared_form(definition.at("spec").unwrap_or(&Value::Null));
    let schemas = |definition: &Value| -> Vec<Value> {
        let versions = definition.at("spec").list("versions");
        versions.iter().map(|version| version.at("schema").cloned().unwrap_or(Value::Null)).collect()
    };
    // The cost of single rules is not checked again if the schemas do not change.
    let unchanged = old.is_some_and(|old| schemas(old) == schemas(definition));
    let rules = if unchanged { RuleChecks::Compile } else { RuleChecks::All };
    check_spec(&spec, rules, &mut errors);
    if let Some(old) = old {
        immutable(definition, old, &mut errors);
    }
    let status = Path::new("status");
    let accepted = definition.at("status").at("acceptedNames").unwrap_or(&Value::Null);
    check_names(&status.child("acceptedNames"), accepted, &mut errors);
    stored_versions(&status.child("storedVersions"), definition, &mut errors);
    approval(definition, old, &mut errors);
    if definition.at("spec").bool("preserveUnknownFields") && !old.at("spec").bool("preserveUnknownFields") {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    errors
}

/// Validates an update of a definition's status.
pub fn validate_status(definition: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::update(definition, old);
    let accepted = definition.at("status").at("acceptedNames").unwrap_or(&Value::Null);
    check_names(&Path::new("status").child("acceptedNames"), accepted, &mut errors);
    errors
}

/// Validates only the names in a definition that is created: its own name, and those of its group, kinds and versions.
pub fn validate_names(definition: &Value) -> Vec<FieldError> {
    let mut errors = own_name(definition);
    let path = Path::new("spec");
    let spec = definition.at("spec").unwrap_or(&Value::Null);
    group(&path.child("group"), spec.str("group"), &mut errors);
    check_names(&path.child("names"), spec.at("names").unwrap_or(&Value::Null), &mut errors);
    let versions = path.child("versions");
    for (index, version) in spec.list("versions").iter().enumerate() {
        version_name(&versions.index(index), version, &mut errors);
    }
    errors
}

/// Validates a schema at `path`.
pub(super) fn schema_errors(path: &Path<'_>, schema: &Value, rules: RuleChecks) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let structural = !keywords::is_unsupported(schema);
    if structural {
        errors = invariants::validate(path, schema);
        if errors.is_empty() {
            errors = defaults::validate(path, schema, rules != RuleChecks::None);
        }
    }
    // CEL rules are checked only if the schema is structural and has no other errors.
    let rules = if structural && errors.is_empty() { rules } else { RuleChecks::None };
    errors.extend(keywords::validate(path, schema, rules));
    if errors.is_empty() && !structural {
        // All other keywords that make a schema not structural have been reported.
        errors.push(FieldError::invalid(path, "", "OpenAPIV3Schema 'schema' is not supported"));
    }
    errors
}

/// How thoroughly the CEL rules of a schema are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleChecks {
    /// The rules are not checked, because they were checked when the definition was stored.
    None,
    /// The rules must compile, and their total cost must stay within its limit.
    Compile,
    /// The rules must compile, and the cost of each and of all must stay within the limits.
    All,
}

fn own_name(definition: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::create(definition, false, NameRule::Subdomain);
    let spec = definition.at("spec");
    let required = format!("{}.{}", spec.at("names").str("plural"), spec.str("group"));
    let detail = r#"must be spec.names.plural+"."+spec.group"#;
    // The errors about the generated name come first, then those about the name.
    for field in ["generateName", "name"] {
        let name = definition.at("metadata").str(field);
        if !name.is_empty() && name != required {
            let is_before = |error: &&FieldError| {
                error.field == "metadata.generateName" || error.field == format!("metadata.{field}")
            };
            let at = errors.iter().take_while(is_before).count();
            errors.insert(at, FieldError::invalid(format!("metadata.{field}"), name, detail));
        }
    }
    errors
}

/// Converts the spec to the internal form, with whatever all versions share moved above `versions`.
fn shared_form(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(Value::Array(mut versions)) = spec.get("versions").cloned() else { return spec };
    let Some(first) = versions.first().cloned() else { return spec };
    for (field, above) in SHARED {
        if versions.iter().all(|version| version.at(field) == first.at(field)) {
            for version in versions.iter_mut().filter_map(Value::as_object_mut) {
                version.remove(field);
            }
            if let (Some(value), Value::Object(spec)) = (first.at(field), &mut spec) {
                spec.insert(above.into(), value.clone());
            }
        }
    }
    spec["versions"] = Value::Array(versions);
    spec
}

fn check_spec(spec: &Value, rules: RuleChecks, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    group(&path.child("group"), spec.str("group"), errors);
    one_of(&path.child("scope"), spec.str("scope"), &["Cluster", "Namespaced"], errors);
    let versions = path.child("versions");
    if !spec.at("validation").has("openAPIV3Schema") {
        for (index, version) in spec.list("versions").iter().enumerate() {
            if !version.at("schema").has("openAPIV3Schema") {
                let version = versions.index(index);
                let schema = version.child("schema");
                errors.push(FieldError::required(schema.child("openAPIV3Schema"), ""));
            }
        }
    }
    check_versions(&versions, spec, rules, errors);
    // The internal form repeats the name of the first version in `version`.
    let first = spec.list("versions").first().map_or("", |it| it.str("name"));
    let wrong = names::dns1035_label(first);
    if !(first.is_empty() || wrong.is_empty()) {
        errors.push(FieldError::invalid(path.child("version"), first, wrong.join(",")));
    }
    required_names(&path.child("names"), spec, errors);
    check_names(&path.child("names"), spec.at("names").unwrap_or(&Value::Null), errors);
    let status = spec.at("subresources").has("status")
        || spec.list("versions").iter().any(|version| version.at("subresources").has("status"));
    check_schema(&path.child("validation"), spec.at("validation"), status, rules, errors);
    subresources(&path.child("subresources"), spec.at("subresources"), errors);
    columns(&path.child("additionalPrinterColumns"), spec.list("additionalPrinterColumns"), errors);
    let schema = spec.at("validation").at("openAPIV3Schema");
    selectable_fields(&path.child("selectableFields"), spec.list("selectableFields"), schema, errors);
    conversion(&path.child("conversion"), spec.at("conversion"), errors);
}

fn group(path: &Path<'_>, group: &str, errors: &mut Vec<FieldError>) {
    let wrong = names::dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid(path, group, wrong.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(path, group, "should be a domain with at least one dot"));
    }
}

fn one_of(path: &Path<'_>, value: &str, accepted: &[&str], errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !accepted.contains(&value) {
        errors.push(FieldError::not_supported(path, value, accepted));
    }
}

fn version_name(path: &Path<'_>, version: &Value, errors: &mut Vec<FieldError>) {
    let name = version.str("name");
    let wrong = names::dns1035_label(name);
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(path.child("name"), name, wrong.join(",")));
    }
}

fn check_versions(path: &Path<'_>, spec: &Value, rules: RuleChecks, errors: &mut Vec<FieldError>) {
    let versions = spec.list("versions");
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        version_name(&path, version, errors);
        let own = version.at("subresources");
        let status = own.or(spec.at("subresources")).has("status");
        deprecation(&path.child("deprecationWarning"), version, errors);
        check_schema(&path.child("schema"), version.at("schema"), status, rules, errors);
        subresources(&path.child("subresources"), own, errors);
        columns(&path.child("additionalPrinterColumns"), version.list("additionalPrinterColumns"), errors);
        let schema = version.at("schema").at("openAPIV3Schema");
        selectable_fields(&path.child("selectableFields"), version.list("selectableFields"), schema, errors);
    }
    let mut seen: Vec<&str> = versions.iter().map(|version| version.str("name")).collect();
    seen.sort_unstable();
    let all = seen.len();
    seen.dedup();
    if seen.len() != all {
        errors.push(FieldError::invalid(path, print_versions(versions), "must contain unique version names"));
    }
    if versions.iter().filter(|version| version.bool("storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(path, print_versions(versions), detail));
    }
}

/// Prints the versions as Go prints the structs of the internal form.
fn print_versions(versions: &[Value]) -> BadValue {
    if versions.is_empty() {
        return BadValue::Value(Value::Null);
    }
    let field = |version: &Value, name: &str| version.at(name).map_or("null".to_owned(), go::json);
    let items: Vec<String> = versions
        .iter()
        .map(|version| {
            format!(
                r#"{{"Name":{},"Served":{},"Storage":{},"Deprecated":{},"DeprecationWarning":{},"Schema":{},"Subresources":{},"AdditionalPrinterColumns":{},"SelectableFields":{}}}"#,
                go::json(&Value::from(version.str("name"))),
                version.bool("served"),
                version.bool("storage"),
                version.bool("deprecated"),
                field(version, "deprecationWarning"),
                field(version, "schema"),
                field(version, "subresources"),
                field(version, "additionalPrinterColumns"),
                field(version, "selectableFields"),
            )
        })
        .collect();
    BadValue::Printed(format!("[{}]", items.join(",")))
}

fn deprecation(path: &Path<'_>, version: &Value, errors: &mut Vec<FieldError>) {
    let Some(value) = version.at("deprecationWarning") else { return };
    let text = value.as_str().unwrap_or_default();
    let printed = || BadValue::Printed(value.to_string());
    if !version.bool("deprecated") {
        errors.push(FieldError::invalid(path, printed(), "can only be set for deprecated versions"));
        return;
    }
    if text.len() > WARNING_MAX {
        errors.push(FieldError::invalid(path, printed(), "must be <= 256 characters long"));
    }
    if text.is_empty() {
        errors.push(FieldError::invalid(path, printed(), "must not be an empty string"));
    }
    if let Some((index, _)) = text.char_indices().find(|(_, c)| !go::is_print(*c)) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        );
        errors.push(FieldError::invalid(path, printed(), detail));
    }
}

fn check_schema(
    path: &Path<'_>,
    validation: Option<&Value>,
    status: bool,
    rules: RuleChecks,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = validation.at("openAPIV3Schema") else { return };
    let path = path.child("openAPIV3Schema");
    if status {
        status_root(&path, schema, errors);
    }
    if schema.bool("nullable") {
        errors.push(FieldError::forbidden(path.child("nullable"), "nullable cannot be true at the root"));
    }
    errors.extend(schema_errors(&path, schema, rules));
}

/// With the status subresource, the root of the schema may use only some keywords: others could not be applied to the
/// status alone.
fn status_root(path: &Path<'_>, schema: &Value, errors: &mut Vec<FieldError>) {
    let kind = schema.str("type");
    if !matches!(kind, "" | "object") {
        let detail = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
        errors.push(FieldError::invalid(path.child("type"), kind, detail));
    }
    for (name, value) in schema.as_object().into_iter().flatten() {
        let go_name = keywords::go_name(name);
        let is_pointer = ["$ref", "x-kubernetes-list-type", "x-kubernetes-map-type"].contains(&name.as_str());
        let empty = matches!(value, Value::Null | Value::Bool(false)) || value == "" && !is_pointer;
        if !empty && !ROOT_FIELDS.contains(&go_name.as_str()) {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                ROOT_FIELDS.join(" ")
            );
            errors.push(FieldError::invalid(path, BadValue::Printed(print::schema(schema)), detail));
            return;
        }
    }
}

fn immutable(definition: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (new, old_spec) = (definition.at("spec"), old.at("spec"));
    let established = old.at("status").list("conditions").iter();
    let established = established
        .filter(|condition| condition.str("type") == "Established")
        .any(|condition| condition.str("status") == "True");
    let mut check = |path: &str, new: &str, old: &str| {
        if new != old {
            errors.push(FieldError::invalid(path, new, "field is immutable"));
        }
    };
    if established {
        check("spec.scope", new.str("scope"), old_spec.str("scope"));
        check("spec.names.kind", new.at("names").str("kind"), old_spec.at("names").str("kind"));
    }
    check("spec.group", new.str("group"), old_spec.str("group"));
    check("spec.names.plural", new.at("names").str("plural"), old_spec.at("names").str("plural"));
}

fn stored_versions(path: &Path<'_>, definition: &Value, errors: &mut Vec<FieldError>) {
    let stored = definition.at("status").strs("storedVersions");
    if stored.is_empty() {
        errors.push(FieldError::invalid(path, Value::Null, "must have at least one stored version"));
        return;
    }
    let versions = definition.at("spec").list("versions");
    for version in versions.iter().filter(|version| version.bool("storage")) {
        let name = version.str("name");
        if !stored.contains(&name) {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(path, Value::from(stored.clone()), detail));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version.str("name") == *name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(path.index(index), *name, detail));
        }
    }
}

const APPROVAL: &str = "api-approved.kubernetes.io";

/// Groups below `k8s.io` and `kubernetes.io` need an annotation that links to the API review.
fn approval(definition: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let group = definition.at("spec").str("group");
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    let annotation = |object: Option<&Value>| -> Option<String> {
        object.at("metadata").at("annotations").at(APPROVAL)?.as_str().map(str::to_owned)
    };
    let new = annotation(Some(definition));
    if !protected || old.is_some_and(|old| annotation(Some(old)) == new) {
        return;
    }
    let path = format!("metadata.annotations[{APPROVAL}]");
    match new.as_deref() {
        None | Some("") => errors.push(FieldError::required(
            path,
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        )),
        Some(text) if text.starts_with("unapproved") || text.contains("://") => {}
        Some(text) => errors.push(FieldError::invalid(
            path,
            text,
            "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
        )),
    }
}

//! ResourceSlices: the devices that a driver offers.

use evenkeel_scalars::go_regex;

use super::super::field_rules::{IMMUTABLE, label, named, subdomain, supported};
use super::super::{scheduling, volume};
use crate::field::{BadValue, FieldError, Path};
use crate::internal_structs;
use crate::json::Value;
use crate::names;
use crate::read::Read;

const POOL_NAME_MAX: usize = 253;
const DEVICES_MAX: usize = 128;
const DEVICES_WITH_FEATURES_MAX: usize = 64;
const ATTRIBUTES_MAX: usize = 32;
const TEXT_MAX: usize = 64;
const IDENTIFIER_MAX: usize = 32;
const TAINT_EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
const ONE_OF: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
const ONE_OF_DEVICE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
const VERSION: &str = r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-((0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(\+([0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*))?$";

/// Validates the spec of a ResourceSlice; `old` is the stored one.
pub(super) fn spec(path: &Path<'_>, spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    volume::driver_name(&path.child("driver"), spec.str("driver"), errors);
    pool(&path.child("pool"), spec.at("pool"), errors);
    if let Some(old) = old {
        unchanged(path, spec, old, errors);
    }
    let mut set = Vec::new();
    node_name(
        &path.child("nodeName"),
        spec,
        "must be either unset or set to a non-empty string",
        &mut set,
        errors,
    );
    if let Some(selector) = spec.at("nodeSelector") {
        set.push("`nodeSelector`");
        let at = path.child("nodeSelector");
        scheduling::node_selector(&at, selector, errors);
        if selector.list("nodeSelectorTerms").len() != 1 {
            let shown =
                internal_structs::bad_value("[core.NodeSelectorTerm", selector.at("nodeSelectorTerms"));
            let detail = "must have exactly one node selector term";
            errors.push(FieldError::invalid(at.child("nodeSelectorTerms"), shown, detail));
        }
    }
    for (field, name) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        flag(&path.child(field), spec, field, name, &mut set, errors);
    }
    match set.len() {
        0 => errors.push(FieldError::required(path, ONE_OF)),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", set.join(", "));
            errors.push(FieldError::invalid(path, shown, format!("{ONE_OF}, but multiple fields are set")));
        }
    }
    if spec.has("sharedCounters") && spec.has("devices") {
        errors.push(FieldError::invalid(path, "", "only one of `sharedCounters` or `devices` is allowed"));
    }
    devices(&path.child("devices"), spec, errors);
}

fn unchanged(path: &Path<'_>, spec: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (name, before) = (spec.at("pool").str("name"), old.at("pool").str("name"));
    if name != before {
        errors.push(FieldError::invalid(path.child("pool.name"), name, IMMUTABLE));
    }
    if spec.str("driver") != old.str("driver") {
        errors.push(FieldError::invalid(path.child("driver"), spec.str("driver"), IMMUTABLE));
    }
    if spec.at("nodeName") != old.at("nodeName") {
        let shown = spec.at("nodeName").cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(path.child("nodeName"), shown, IMMUTABLE));
    }
}

fn pool(path: &Path<'_>, pool: Option<&Value>, errors: &mut Vec<FieldError>) {
    pool_name(&path.child("name"), pool.str("name"), errors);
    let count = pool.int("resourceSliceCount").unwrap_or_default();
    if count <= 0 {
        errors.push(FieldError::invalid(
            path.child("resourceSliceCount"),
            count,
            "must be greater than zero",
        ));
    }
    if let Some(generation) = pool.int("generation").filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(path.child("generation"), generation, detail));
    }
}

/// Validates the name of a pool: subdomains with slashes between them.
pub(super) fn pool_name(path: &Path<'_>, name: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name.len() > POOL_NAME_MAX {
        errors.push(FieldError::too_long(path, POOL_NAME_MAX));
    }
    name.split('/').for_each(|part| subdomain(path, part, errors));
}

fn node_name(
    path: &Path<'_>,
    object: &Value,
    empty: &str,
    set: &mut Vec<&str>,
    errors: &mut Vec<FieldError>,
) {
    match object.at("nodeName").and_then(Value::as_str) {
        None => {}
        Some("") => errors.push(FieldError::invalid(path, "", empty)),
        Some(name) => {
            set.push("`nodeName`");
            subdomain(path, name, errors);
        }
    }
}

fn flag<'a>(
    path: &Path<'_>,
    object: &Value,
    field: &str,
    name: &'a str,
    set: &mut Vec<&'a str>,
    errors: &mut Vec<FieldError>,
) {
    match object.at(field) {
        None => {}
        Some(Value::Bool(true)) => set.push(name),
        Some(_) => errors.push(FieldError::invalid(path, false, "must be either unset or set to true")),
    }
}

fn devices(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let devices = spec.list("devices");
    let has = |field: &str| devices.iter().any(|device| !device.list(field).is_empty());
    let max = if has("taints") || has("consumesCounters") { DEVICES_WITH_FEATURES_MAX } else { DEVICES_MAX };
    if devices.len() > max {
        errors.push(FieldError::too_many(path, devices.len(), max));
    }
    for (index, device) in devices.iter().enumerate() {
        let at = path.index(index);
        self::device(&at, device, spec.bool("perDeviceNodeSelection"), errors);
        let name = device.str("name");
        if devices[..index].iter().any(|it| it.str("name") == name) {
            errors.push(FieldError::duplicate(at, name));
        }
    }
}

fn device(path: &Path<'_>, device: &Value, selects_nodes: bool, errors: &mut Vec<FieldError>) {
    label(&path.child("name"), device.str("name"), errors);
    let count = |field: &str| device.map(field).map_or(0, |entries| entries.len());
    let total = count("attributes") + count("capacity");
    if total > ATTRIBUTES_MAX {
        let detail =
            format!("the total number of attributes and capacities must not exceed {ATTRIBUTES_MAX}");
        errors.push(FieldError::invalid(path, total, detail));
    }
    let attributes = path.child("attributes");
    for (name, attribute) in device.map("attributes").into_iter().flatten() {
        let at = attributes.key(name);
        qualified_name(&at, name, errors);
        self::attribute(&at, attribute, errors);
    }
    let capacity = path.child("capacity");
    for (name, _) in device.map("capacity").into_iter().flatten() {
        qualified_name(&capacity.key(name), name, errors);
    }
    taints(&path.child("taints"), device.list("taints"), errors);
    nodes_of(path, device, selects_nodes, errors);
}

fn nodes_of(path: &Path<'_>, device: &Value, selects_nodes: bool, errors: &mut Vec<FieldError>) {
    if !selects_nodes {
        if ["nodeName", "nodeSelector", "allNodes"].iter().any(|field| device.has(field)) {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.push(FieldError::invalid(path, Value::Null, detail));
        }
        return;
    }
    let mut set = Vec::new();
    node_name(&path.child("nodeName"), device, "must not be empty", &mut set, errors);
    if let Some(selector) = device.at("nodeSelector") {
        set.push("`nodeSelector`");
        scheduling::node_selector(&path.child("nodeSelector"), selector, errors);
    }
    flag(&path.child("allNodes"), device, "allNodes", "`allNodes`", &mut set, errors);
    match set.len() {
        0 => errors.push(FieldError::required(path, ONE_OF_DEVICE)),
        1 => {}
        _ => errors.push(FieldError::invalid(path, format!("{{{}}}", set.join(", ")), ONE_OF_DEVICE)),
    }
}

fn attribute(path: &Path<'_>, attribute: &Value, errors: &mut Vec<FieldError>) {
    if let Some(text) = attribute.at("string").and_then(Value::as_str)
        && text.len() > TEXT_MAX
    {
        errors.push(FieldError::too_long(path.child("string"), TEXT_MAX));
    }
    if let Some(version) = attribute.at("version").and_then(Value::as_str) {
        let at = path.child("version");
        if !go_regex::is_match(VERSION, version) {
            let detail = "must be a string compatible with semver.org spec 2.0.0";
            errors.push(FieldError::invalid(at, version, detail));
        }
        if version.len() > TEXT_MAX {
            errors.push(FieldError::too_long(at, TEXT_MAX));
        }
    }
    let fields = ["bool", "int", "string", "version", "bools", "ints", "strings", "versions"];
    match fields.iter().filter(|field| attribute.has(field)).count() {
        0 => errors.push(FieldError::invalid(path, "", "exactly one value must be specified")),
        1 => {}
        _ => {
            let shown = internal_structs::bad_value("resource.DeviceAttribute", Some(attribute));
            errors.push(FieldError::invalid(path, shown, "exactly one value must be specified"));
        }
    }
}

fn taints(path: &Path<'_>, taints: &[Value], errors: &mut Vec<FieldError>) {
    for (index, taint) in taints.iter().enumerate() {
        let at = path.index(index);
        named(&at.child("key"), taint.str("key"), names::qualified_name(taint.str("key")), errors);
        label_value(&at.child("value"), taint.str("value"), errors);
        match taint.str("effect") {
            "" => errors.push(FieldError::required(at.child("effect"), "")),
            effect => supported(&at.child("effect"), effect, &TAINT_EFFECTS, errors),
        }
    }
}

fn label_value(path: &Path<'_>, value: &str, errors: &mut Vec<FieldError>) {
    if !value.is_empty() {
        named(path, value, names::label_value(value), errors);
    }
}

/// Validates the tolerations of a request.
pub(super) fn tolerations(path: &Path<'_>, tolerations: &[Value], errors: &mut Vec<FieldError>) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let at = path.index(index);
        let key = toleration.str("key");
        if !key.is_empty() {
            named(&at.child("key"), key, names::qualified_name(key), errors);
        }
        let value = toleration.str("value");
        match toleration.str("operator") {
            "Exists" if !value.is_empty() => {
                let detail = "must be empty for operator `Exists`";
                errors.push(FieldError::invalid(at.child("value"), value, detail));
            }
            "Exists" => {}
            "Equal" => label_value(&at.child("value"), value, errors),
            "" => errors.push(FieldError::required(at.child("operator"), "")),
            other => supported(&at.child("operator"), other, &["Equal", "Exists"], errors),
        }
        let effect = toleration.str("effect");
        if !effect.is_empty() {
            supported(&at.child("effect"), effect, &TAINT_EFFECTS, errors);
        }
    }
}

/// Validates the name of an attribute or a capacity: a C identifier, perhaps with a domain.
pub(super) fn qualified_name(path: &Path<'_>, name: &str, errors: &mut Vec<FieldError>) {
    match name.split('/').collect::<Vec<_>>()[..] {
        [only] => identifier(path, only, errors),
        [domain, rest] => {
            match domain {
                "" => errors.push(FieldError::invalid(path, "", "the domain must not be empty")),
                domain => volume::driver_name(path, domain, errors),
            }
            match rest {
                "" => errors.push(FieldError::invalid(path, "", "the name must not be empty")),
                rest => identifier(path, rest, errors),
            }
        }
        _ => {}
    }
}

fn identifier(path: &Path<'_>, name: &str, errors: &mut Vec<FieldError>) {
    const PATTERN: &str = "[A-Za-z_][A-Za-z0-9_]*";
    if name.len() > IDENTIFIER_MAX {
        errors.push(FieldError::too_long(path, IDENTIFIER_MAX));
    }
    if !go_regex::is_match(&format!("^{PATTERN}$"), name) {
        let rule = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'";
        let detail = names::regex_error(rule, PATTERN, &["my_name", "MY_NAME", "MyName"]);
        errors.push(FieldError::invalid(path, name, detail));
    }
}

/// Validates the raw parameters of a driver, which must be an object.
pub(super) fn parameters(path: &Path<'_>, parameters: Option<&Value>, errors: &mut Vec<FieldError>) {
    match parameters {
        None => errors.push(FieldError::required(path, "")),
        Some(Value::Object(_)) => {}
        Some(_) => {
            errors.push(FieldError::invalid(path, "<value omitted>", "must be a valid JSON object"));
        }
    }
}

/// Returns a device as messages about a claim's status show it.
pub(super) fn shared_id(device: &Value) -> BadValue {
    let text = |field: &str| Value::from(device.str(field)).to_string();
    let [driver, pool, name, share] = ["driver", "pool", "device", "shareID"].map(text);
    BadValue::Printed(format!(r#"{{"Driver":{driver},"Pool":{pool},"Device":{name},"ShareID":{share}}}"#))
}

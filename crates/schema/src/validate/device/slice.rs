//! ResourceSlices: the devices that a driver offers.

use evenkeel_scalars::go_regex;

use super::super::field_rules::{IMMUTABLE, label, named, subdomain, supported};
use super::super::{scheduling, volume};
use super::{binding_conditions, capacity, each, unique};
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
const TAINTS_MAX: usize = 16;
const COUNTER_SETS_MAX: usize = 8;
const COUNTERS_MAX: usize = 32;
const CONSUMPTIONS_MAX: usize = 2;
/// A domain, a slash and an identifier.
const NAME_MAX: usize = 63 + 1 + IDENTIFIER_MAX;
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
    devices(&path.child("devices"), spec, old, errors);
    let (list, sets) = (path.child("sharedCounters"), spec.list("sharedCounters"));
    let fits =
        each(&list, sets, COUNTER_SETS_MAX, errors, |at, set, errors| counters(at, "name", set, errors));
    if fits {
        unique(&list, sets, |set| set.str("name").to_owned(), errors);
    }
}

/// Validates the name of a set of counters, which is in the field `name`, and the names of its counters.
fn counters(path: &Path<'_>, name: &str, set: &Value, errors: &mut Vec<FieldError>) {
    match set.str(name) {
        "" => errors.push(FieldError::required(path.child(name), "")),
        text => label(&path.child(name), text, errors),
    }
    let at = path.child("counters");
    match set.map("counters").filter(|counters| !counters.is_empty()) {
        None => errors.push(FieldError::required(at, "")),
        Some(counters) if counters.len() > COUNTERS_MAX => {
            errors.push(FieldError::too_many(at, counters.len(), COUNTERS_MAX));
        }
        Some(counters) => counters.keys().for_each(|name| label(&at, name, errors)),
    }
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

fn devices(path: &Path<'_>, spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let devices = spec.list("devices");
    let has = |field: &str| devices.iter().any(|device| !device.list(field).is_empty());
    let max = if has("taints") || has("consumesCounters") { DEVICES_WITH_FEATURES_MAX } else { DEVICES_MAX };
    let fits = each(path, devices, max, errors, |at, device, errors| {
        let same_name = |it: &&Value| it.str("name") == device.str("name");
        let before = old.list("devices").iter().find(same_name);
        self::device(at, device, before, spec.bool("perDeviceNodeSelection"), errors);
    });
    if fits {
        unique(path, devices, |device| device.str("name").to_owned(), errors);
    }
}

fn device(
    path: &Path<'_>,
    device: &Value,
    before: Option<&Value>,
    selects_nodes: bool,
    errors: &mut Vec<FieldError>,
) {
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
        qualified_name(&attributes, name, errors);
        self::attribute(&attributes.key(&shortened(name)), attribute, errors);
    }
    let capacities = path.child("capacity");
    for (name, capacity) in device.map("capacity").into_iter().flatten() {
        qualified_name(&capacities, name, errors);
        let is_shared = device.bool("allowMultipleAllocations");
        capacity::check(&capacities.key(&shortened(name)), capacity, is_shared, errors);
    }
    if before.is_none_or(|before| before.list("taints") != device.list("taints")) {
        each(&path.child("taints"), device.list("taints"), TAINTS_MAX, errors, taint);
    }
    let (list, consumed) = (path.child("consumesCounters"), device.list("consumesCounters"));
    let fits = each(&list, consumed, CONSUMPTIONS_MAX, errors, |at, it, errors| {
        counters(at, "counterSet", it, errors);
    });
    if fits {
        unique(&list, consumed, |it| it.str("counterSet").to_owned(), errors);
    }
    nodes_of(path, device, selects_nodes, errors);
    binding_conditions(path, device, errors);
}

/// Returns the name of an attribute as paths show it: the middle of a long one is left out.
fn shortened(name: &str) -> String {
    const ELLIPSIS: &str = "...";
    if name.len() <= NAME_MAX {
        return name.to_owned();
    }
    let kept = NAME_MAX - ELLIPSIS.len();
    let (mut head, mut tail) = (kept.div_ceil(2), name.len() - kept / 2);
    while !name.is_char_boundary(head) {
        head -= 1;
    }
    while !name.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}{ELLIPSIS}{}", &name[..head], &name[tail..])
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
    // The lists belong to a feature that is disabled by default; empty ones were dropped.
    let is_set =
        |field: &&&str| attribute.at(field).is_some_and(|it| it.as_array().is_none_or(|it| !it.is_empty()));
    match fields.iter().filter(is_set).count() {
        0 => errors.push(FieldError::invalid(path, "", "exactly one value must be specified")),
        1 => {}
        _ => {
            let shown = internal_structs::bad_value("resource.DeviceAttribute", Some(attribute));
            errors.push(FieldError::invalid(path, shown, "exactly one value must be specified"));
        }
    }
}

fn taint(path: &Path<'_>, taint: &Value, errors: &mut Vec<FieldError>) {
    named(&path.child("key"), taint.str("key"), names::qualified_name(taint.str("key")), errors);
    label_value(&path.child("value"), taint.str("value"), errors);
    match taint.str("effect") {
        "" => errors.push(FieldError::required(path.child("effect"), "")),
        effect => supported(&path.child("effect"), effect, &TAINT_EFFECTS, errors),
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

/// Returns a device as messages about a claim's status show it.
pub(super) fn shared_id(device: &Value) -> BadValue {
    let text = |field: &str| Value::from(device.str(field)).to_string();
    let [driver, pool, name, share] = ["driver", "pool", "device", "shareID"].map(text);
    BadValue::Printed(format!(r#"{{"Driver":{driver},"Pool":{pool},"Device":{name},"ShareID":{share}}}"#))
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn told(more: Value) -> Vec<String> {
        let mut spec = json!({"driver": "d.example.com", "allNodes": true,
            "pool": {"name": "p", "resourceSliceCount": 1}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut errors = Vec::new();
        self::spec(&Path::new("spec"), &spec, None, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn counters_are_named_and_bounded() {
        let set = |name: &str| json!({"name": name, "counters": {"memory": {"value": "1Gi"}}});
        assert_eq!(told(json!({"sharedCounters": [set("a"), set("b")]})), [""; 0]);
        assert_eq!(
            told(json!({"sharedCounters": [set("a"), {"name": ""}, set("a")]})),
            [
                "spec.sharedCounters[1].name: Required value",
                "spec.sharedCounters[1].counters: Required value",
                r#"spec.sharedCounters[2]: Duplicate value: "a""#
            ]
        );
        let many: Vec<Value> = (0..9).map(|index| set(&format!("s{index}"))).collect();
        assert_eq!(
            told(json!({"sharedCounters": many})),
            ["spec.sharedCounters: Too many: 9: must have at most 8 items"]
        );
        let device = json!({"name": "d", "consumesCounters": [{"counterSet": "a"}]});
        assert_eq!(
            told(json!({"devices": [device]})),
            ["spec.devices[0].consumesCounters[0].counters: Required value"]
        );
    }

    #[test]
    fn a_slice_has_counters_or_devices_even_if_the_list_is_empty() {
        assert_eq!(
            told(json!({"sharedCounters": [], "devices": []})),
            [r#"spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed"#]
        );
    }

    #[test]
    fn binding_conditions_come_in_pairs() {
        let device = |more: Value| {
            let mut device = json!({"name": "d"});
            device.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            told(json!({"devices": [device]}))
        };
        assert_eq!(device(json!({"bindingConditions": ["a"], "bindingFailureConditions": ["b"]})), [""; 0]);
        assert_eq!(
            device(json!({"bindingConditions": ["a", "a"], "bindingFailureConditions": ["a"]})),
            [
                r#"spec.devices[0].bindingConditions[1]: Duplicate value: "a""#,
                r#"spec.devices[0].bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions"#
            ]
        );
        assert_eq!(
            device(json!({"bindingConditions": ["a"]})),
            [
                "spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions"
            ]
        );
    }

    #[test]
    fn long_names_lose_their_middle_in_paths() {
        let name = format!("{}/{}", "d".repeat(80), "i".repeat(40));
        let shown = shortened(&name);
        assert_eq!((shown.len(), &shown[45..50]), (NAME_MAX, "dd..."));
    }
}

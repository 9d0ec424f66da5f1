//! StorageClasses, VolumeAttributesClasses, CSIDrivers, CSINodes and VolumeAttachments.

use evenkeel_scalars::go;

use super::field_rules::{IMMUTABLE, immutable, named, non_negative, qualified, subdomain, supported};
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::object_meta;
use crate::quantity::Quantity;
use crate::read::Read;
use crate::selector;

/// The most parameters of a class.
const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 * 1024;
const DRIVER_NAME_MAX: usize = 63;
const NODE_ID_MAX: usize = 256;
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
const UPDATE_PERIOD_SECONDS_MIN: i64 = 10;

/// Validates an object by the rules that creation and update share.
pub(super) fn check(kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    match kind {
        "StorageClass" => class(object, errors),
        "VolumeAttributesClass" => {
            provisioner("driverName", object, errors);
            parameters(object, false, errors);
        }
        "VolumeAttachment" => attachment(object, errors),
        "CSINode" => node(object, errors),
        "CSIDriver" => driver(object.at("spec").unwrap_or(&Value::Null), errors),
        "CSIStorageCapacity" => capacity(object, errors),
        _ => {}
    }
}

/// Validates an update, metadata included.
pub(super) fn update(kind: &str, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    errors.extend(object_meta::update_builtin(new, old));
    let of_update = |errors: &mut Vec<FieldError>| errors.split_off(before);
    match kind {
        "StorageClass" => {
            let mut rest = of_update(errors);
            errors.extend(object_meta::create_builtin(new, false, object_meta::NameRule::Subdomain));
            class(new, errors);
            errors.append(&mut rest);
            for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
                immutable(&Path::new(field), new.at(field), old.at(field), errors);
            }
        }
        "VolumeAttributesClass" => {
            for field in ["driverName", "parameters"] {
                if new.at(field) != old.at(field) {
                    errors.push(FieldError::forbidden(field, format!("updates to {field} are forbidden.")));
                }
            }
            errors.extend(object_meta::create_builtin(new, false, object_meta::NameRule::Subdomain));
            check(kind, new, errors);
        }
        "VolumeAttachment" => {
            drop(of_update(errors));
            errors.extend(object_meta::create_builtin(new, false, object_meta::NameRule::Subdomain));
            check(kind, new, errors);
            if new.at("spec") != old.at("spec") {
                errors.push(FieldError::invalid("spec", attachment_spec(new.at("spec")), IMMUTABLE));
            }
        }
        "CSINode" => {
            drop(of_update(errors));
            errors.extend(object_meta::create_builtin(new, false, object_meta::NameRule::Subdomain));
            check(kind, new, errors);
            node_update(new, old, errors);
        }
        "CSIDriver" => {
            check(kind, new, errors);
            let (new, old) = (new.at("spec"), old.at("spec"));
            let path = Path::new("spec");
            // Kubernetes' error misspells the name of the first field.
            immutable(
                &path.child("attachedRequired"),
                new.at("attachRequired"),
                old.at("attachRequired"),
                errors,
            );
            let field = "volumeLifecycleModes";
            immutable(&path.child(field), new.at(field), old.at(field), errors);
        }
        "CSIStorageCapacity" => {
            errors.extend(object_meta::create_builtin(new, true, object_meta::NameRule::Subdomain));
            check(kind, new, errors);
            let topology = |object: &Value| object.at("nodeTopology").map(without_empty);
            let (now, before) = (topology(new), topology(old));
            immutable(&Path::new("nodeTopology"), now.as_ref(), before.as_ref(), errors);
            let class = "storageClassName";
            immutable(&Path::new(class), new.at(class), old.at(class), errors);
        }
        _ => {}
    }
}

fn class(object: &Value, errors: &mut Vec<FieldError>) {
    provisioner("provisioner", object, errors);
    parameters(object, true, errors);
    let policy = object.str("reclaimPolicy");
    if !policy.is_empty() {
        supported(&Path::new("reclaimPolicy"), policy, &["Delete", "Retain"], errors);
    }
    let modes = ["Immediate", "WaitForFirstConsumer"];
    match object.at("volumeBindingMode") {
        None => errors.push(FieldError::required("volumeBindingMode", "")),
        Some(_) => {
            supported(&Path::new("volumeBindingMode"), object.str("volumeBindingMode"), &modes, errors)
        }
    }
    topologies(object.list("allowedTopologies"), errors);
}

fn provisioner(field: &str, object: &Value, errors: &mut Vec<FieldError>) {
    match object.str(field) {
        "" => errors.push(FieldError::required(field, "")),
        // Kubernetes shows the name in lower case, as it validates it.
        name => qualified(&Path::new(field), &name.to_lowercase(), errors),
    }
}

fn parameters(object: &Value, may_be_empty: bool, errors: &mut Vec<FieldError>) {
    let parameters = object.pairs("parameters");
    if parameters.len() > PARAMETERS_MAX {
        errors.push(FieldError::too_long("parameters", PARAMETERS_MAX));
        return;
    }
    if parameters.iter().any(|(key, _)| key.is_empty()) {
        errors.push(FieldError::invalid("parameters", "", "field can not be empty."));
    }
    if parameters.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > PARAMETERS_BYTES_MAX {
        errors.push(FieldError::too_long("parameters", PARAMETERS_BYTES_MAX));
    }
    if parameters.is_empty() && !may_be_empty {
        errors.push(FieldError::required("parameters", "must contain at least one key/value pair"));
    }
}

fn topologies(terms: &[Value], errors: &mut Vec<FieldError>) {
    let list = Path::new("allowedTopologies");
    for (index, term) in terms.iter().enumerate() {
        let path = list.index(index);
        let expressions = path.child("matchLabelExpressions");
        for (index, expression) in term.list("matchLabelExpressions").iter().enumerate() {
            let path = expressions.index(index);
            if expression.list("values").is_empty() {
                errors.push(FieldError::required(path.child("values"), ""));
            }
            let key = expression.str("key");
            named(&path.child("key"), key, names::qualified_name(key), errors);
        }
        let same = |other: &&Value| other.list("matchLabelExpressions") == term.list("matchLabelExpressions");
        // Kubernetes compares a term also with as many empty ones as there are terms.
        let empty = if term.list("matchLabelExpressions").is_empty() { terms.len() } else { 0 };
        for _ in 0..terms[..index].iter().filter(same).count() + empty {
            errors.push(FieldError::duplicate(expressions, ""));
        }
    }
}

fn driver_name(path: &Path<'_>, name: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name.len() > DRIVER_NAME_MAX {
        errors.push(FieldError::too_long(path, DRIVER_NAME_MAX));
    }
    named(path, name, names::dns1123_subdomain(&name.to_lowercase()), errors);
}

fn attachment(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = object.at("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    driver_name(&path.child("attacher"), spec.str("attacher"), errors);
    let source = spec.at("source");
    let at = path.child("source");
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let volume = source.at("persistentVolumeName").and_then(Value::as_str);
    match (source.has("inlineVolumeSpec"), volume) {
        (false, None) => errors.push(FieldError::required(at, detail)),
        (true, Some(_)) => errors.push(FieldError::forbidden(at, detail)),
        (false, Some("")) => {
            let detail = "must specify non empty persistentVolumeName";
            errors.push(FieldError::required(at.child("persistentVolumeName"), detail));
        }
        _ => {}
    }
    subdomain(&path.child("nodeName"), spec.str("nodeName"), errors);
    if let Some(name) = volume {
        subdomain(&at.child("persistentVolumeName"), name, errors);
    }
}

/// Prints the spec of a VolumeAttachment as Go does, without an inline volume.
fn attachment_spec(spec: Option<&Value>) -> BadValue {
    let text = |value: Option<&Value>| value.map_or("null".to_owned(), go::json);
    let source = spec.at("source");
    BadValue::Printed(format!(
        "{{\"Attacher\":{},\"Source\":{{\"PersistentVolumeName\":{},\"InlineVolumeSpec\":{}}},\"NodeName\":{}}}",
        go::json(&spec.str("attacher").into()),
        text(source.at("persistentVolumeName")),
        text(source.at("inlineVolumeSpec")),
        go::json(&spec.str("nodeName").into()),
    ))
}

fn node(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = Path::new("spec");
    let list = spec.child("drivers");
    let drivers = object.at("spec").list("drivers");
    for (index, driver) in drivers.iter().enumerate() {
        let path = list.index(index);
        let name = driver.str("name");
        driver_name(&path.child("name"), name, errors);
        let id = driver.str("nodeID");
        if id.is_empty() {
            errors.push(FieldError::required(path.child("nodeID"), ""));
        }
        if id.len() > NODE_ID_MAX {
            let detail = format!("must be {NODE_ID_MAX} characters or less");
            errors.push(FieldError::invalid(path.child("nodeID"), id, detail));
        }
        if let Some(allocatable) = driver.at("allocatable") {
            non_negative(allocatable, &path.child("allocatable"), "count", errors);
        }
        if drivers[..index].iter().any(|other| other.str("name") == name) {
            errors.push(FieldError::duplicate(path.child("name"), name));
        }
        let keys = driver.strs("topologyKeys");
        for (index, key) in keys.iter().enumerate() {
            if key.is_empty() {
                errors.push(FieldError::required(path, ""));
            }
            if keys[..index].contains(key) {
                errors.push(FieldError::duplicate(path, *key));
            }
            qualified(&path, key, errors);
        }
    }
}

/// Validates an update of a CSINode: of a driver, only `allocatable` can change.
fn node_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for before in old.at("spec").list("drivers") {
        for driver in new.at("spec").list("drivers").iter().filter(|it| it.str("name") == before.str("name"))
        {
            if ["nodeID", "topologyKeys"].iter().any(|field| driver.at(field) != before.at(field)) {
                let keys = driver.at("topologyKeys").map_or("null".to_owned(), go::json);
                let printed = format!(
                    "{{\"Name\":{},\"NodeID\":{},\"TopologyKeys\":{keys},\"Allocatable\":null}}",
                    go::json(&driver.str("name").into()),
                    go::json(&driver.str("nodeID").into()),
                );
                errors.push(FieldError::invalid("spec.drivers", BadValue::Printed(printed), IMMUTABLE));
            }
        }
    }
}

fn driver(spec: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    if spec.has("fsGroupPolicy") {
        supported(&path.child("fsGroupPolicy"), spec.str("fsGroupPolicy"), &policies, errors);
    }
    tokens(&path.child("tokenRequests"), spec.list("tokenRequests"), errors);
    let modes = path.child("volumeLifecycleModes");
    for mode in spec.strs("volumeLifecycleModes") {
        if !matches!(mode, "Persistent" | "Ephemeral") {
            errors.push(FieldError::not_supported(modes, mode, &["Persistent", "Ephemeral"]));
        }
    }
    let period = spec.int("nodeAllocatableUpdatePeriodSeconds");
    if let Some(seconds) = period.filter(|seconds| *seconds < UPDATE_PERIOD_SECONDS_MIN) {
        let detail = "must be greater than or equal to 10 seconds";
        errors.push(FieldError::invalid(path.child("nodeAllocatableUpdatePeriodSeconds"), seconds, detail));
    }
    if spec.has("serviceAccountTokenInSecrets") && spec.list("tokenRequests").is_empty() {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        let value = spec.bool("serviceAccountTokenInSecrets");
        errors.push(FieldError::invalid(
            path.child("serviceAccountTokenInSecrets"),
            Value::from(value),
            detail,
        ));
    }
}

fn tokens(list: &Path<'_>, requests: &[Value], errors: &mut Vec<FieldError>) {
    for (index, request) in requests.iter().enumerate() {
        let path = list.index(index);
        let audience = request.str("audience");
        if requests[..index].iter().any(|other| other.str("audience") == audience) {
            errors.push(FieldError::duplicate(path.child("audience"), audience));
            continue;
        }
        let detail = match request.int("expirationSeconds") {
            Some(seconds) if seconds < TOKEN_SECONDS_MIN => "may not specify a duration less than 10 minutes",
            Some(seconds) if seconds > TOKEN_SECONDS_MAX => {
                "may not specify a duration larger than 2^32 seconds"
            }
            _ => continue,
        };
        let seconds = request.int("expirationSeconds").unwrap_or_default();
        errors.push(FieldError::invalid(path.child("expirationSeconds"), seconds, detail));
    }
}

/// Returns a selector without empty fields, as messages show it.
fn without_empty(selector: &Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let fields = selector.as_object().into_iter().flatten().filter(|(_, value)| !is_empty(value));
    fields.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn capacity(object: &Value, errors: &mut Vec<FieldError>) {
    if let Some(topology) = object.at("nodeTopology") {
        errors.extend(selector::validate(&Path::new("nodeTopology"), topology));
    }
    subdomain(&Path::new("storageClassName"), object.str("storageClassName"), errors);
    let quantity = object.at("capacity").and_then(|value| Quantity::from_json(value).ok());
    if let Some(quantity) = quantity.filter(Quantity::is_negative) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("capacity", quantity.to_string(), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn told(check: impl FnOnce(&mut Vec<FieldError>)) -> Vec<String> {
        let mut errors = Vec::new();
        check(&mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_attachment_names_one_source() {
        let attachment = json!({"spec": {"attacher": "", "nodeName": "n", "source": {}}});
        assert_eq!(
            told(|errors| check("VolumeAttachment", &attachment, errors)),
            [
                "spec.attacher: Required value",
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"
            ]
        );
    }

    #[test]
    fn drivers_of_a_node_come_once_and_stay() {
        let spec = |id: &str| json!({"spec": {"drivers": [{"name": "a.b", "nodeID": id}]}});
        assert_eq!(
            told(|errors| node_update(&spec("2"), &spec("1"), errors)),
            [
                r#"spec.drivers: Invalid value: {"Name":"a.b","NodeID":"2","TopologyKeys":null,"Allocatable":null}: field is immutable"#
            ]
        );
        let twice =
            json!({"spec": {"drivers": [{"name": "a.b", "nodeID": "1"}, {"name": "a.b", "nodeID": "1"}]}});
        assert_eq!(
            told(|errors| check("CSINode", &twice, errors)),
            ["spec.drivers[1].name: Duplicate value: \"a.b\""]
        );
    }
}

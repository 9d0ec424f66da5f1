//! Nodes.

use evenkeel_scalars::{formats, go_regex};

use super::field_rules::{named, subdomain};
use super::resources::resource_value;
use super::scheduling;
use super::service::cidr;
use crate::field::{BadValue, FieldError, Path};
use crate::internal_structs;
use crate::json::Value;
use crate::names;
use crate::quantity::Quantity;
use crate::read::Read;

const FEATURE: &str = r"^[A-Z][a-zA-Z0-9]*(\/[a-zA-Z][a-zA-Z0-9]*)*$";
const FEATURE_MAX: usize = 253;

pub(super) fn create(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = object.at("spec");
    // Kubernetes reports taints of the spec under the path `metadata`.
    let path = Path::new("metadata");
    scheduling::taints(&path.child("taints"), spec.list("taints"), errors);
    node_resources(object, errors);
    features(object, errors);
    let path = Path::new("spec");
    let list = path.child("podCIDRs");
    let ranges = pod_ranges(spec);
    for (index, range) in ranges.iter().enumerate() {
        cidr(&list.index(index), range, errors);
    }
    let families = ranges.iter().map(|range| family(range));
    let families: Option<Vec<bool>> = families.collect();
    match families {
        _ if ranges.len() < 2 => {}
        Some(families) if matches!(families[..], [first, second] if first != second) => {}
        _ => {
            let detail = "may specify no more than one CIDR for each IP family";
            errors.push(FieldError::invalid(list, Value::from(ranges), detail));
        }
    }
}

/// Validates the amounts of resources in the status of a Node.
fn node_resources(object: &Value, errors: &mut Vec<FieldError>) {
    let status = Path::new("status");
    for field in ["capacity", "allocatable"] {
        let list = status.child(field);
        for (name, value) in object.at("status").at(field).and_then(Value::as_object).into_iter().flatten() {
            if let Ok(quantity) = Quantity::from_json(value) {
                resource_value(&list.child(name), name, &quantity, errors);
            }
        }
    }
}

/// Whether an address range is IPv4, or `None` if it is malformed.
fn family(range: &str) -> Option<bool> {
    let (address, _) = range.split_once('/').filter(|_| formats::is_cidr(range))?;
    formats::parse_ip(address).map(|address| address.is_ipv4())
}

/// Returns the address ranges of a node's pods. If `podCIDR`, the field of old clients, differs from the first range,
/// it takes precedence.
fn pod_ranges(spec: Option<&Value>) -> Vec<String> {
    let mut ranges: Vec<String> = spec.strs("podCIDRs").into_iter().map(str::to_owned).collect();
    let first = spec.str("podCIDR");
    if !first.is_empty() && ranges.first().is_none_or(|range| range != first) {
        ranges = vec![first.to_owned()];
    }
    ranges
}

/// Validates an update of a Node or of its status. The pod CIDRs and the provider id cannot change once they are set.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    node_resources(new, errors);
    features(new, errors);
    let addresses = new.at("status").list("addresses");
    for (index, address) in
        addresses.iter().enumerate().filter(|(index, it)| addresses[..*index].contains(it))
    {
        let [kind, text] = ["type", "address"].map(|field| Value::from(address.str(field)));
        let printed = BadValue::Printed(format!(r#"{{"Type":{kind},"Address":{text}}}"#));
        errors.push(FieldError::duplicate(Path::new("status").child("addresses").index(index), printed));
    }
    let status = new.at("status");
    let (new, old) = (new.at("spec"), old.at("spec"));
    let (ranges, before) = (pod_ranges(new), pod_ranges(old));
    let changed = match ranges.len() == before.len() {
        true => before.iter().zip(&ranges).filter(|(old, new)| old != new).count(),
        false => usize::from(!before.is_empty()),
    };
    for _ in 0..changed {
        let detail = r#"node updates may not change podCIDR except from "" to valid"#;
        errors.push(FieldError::forbidden("spec.podCIDRs", detail));
    }
    let provider = old.str("providerID");
    if !provider.is_empty() && provider != new.str("providerID") {
        let detail = r#"node updates may not change providerID except from "" to valid"#;
        errors.push(FieldError::forbidden("spec.providerID", detail));
    }
    if new.str("externalID") != old.str("externalID") {
        errors.push(FieldError::forbidden("spec.externalID", "may not be updated"));
    }
    if let Some(source) = new.at("configSource") {
        config_source(&Path::new("spec").child("configSource"), source, false, errors);
    }
    let config = Path::new("status");
    let config = config.child("config");
    for field in ["assigned", "active", "lastKnownGood"] {
        if let Some(source) = status.at("config").at(field) {
            config_source(&config.child(field), source, true, errors);
        }
    }
    scheduling::taints(&Path::new("metadata").child("taints"), new.list("taints"), errors);
}

/// Validates the source of a node's configuration, in the status (`observed`) or in the spec.
fn config_source(path: &Path<'_>, source: &Value, observed: bool, errors: &mut Vec<FieldError>) {
    let Some(map) = source.at("configMap") else {
        let shown = internal_structs::bad_value("core.NodeConfigSource", Some(source));
        errors.push(FieldError::invalid(path, shown, "exactly one reference subfield must be non-nil"));
        return;
    };
    let path = path.child("configMap");
    for field in ["uid", "resourceVersion"] {
        match (observed, map.str(field).is_empty()) {
            (true, true) => errors.push(FieldError::required(path.child(field), "")),
            (false, false) => {
                let detail = format!("{field} must not be set in spec");
                errors.push(FieldError::forbidden(path.child(field), detail));
            }
            _ => {}
        }
    }
    for field in ["namespace", "name", "kubeletConfigKey"] {
        let at = path.child(field);
        match (field, map.str(field)) {
            (_, "") => errors.push(FieldError::required(at, "")),
            ("namespace", text) => named(&at, text, names::dns1123_label(text), errors),
            ("name", text) => subdomain(&at, text, errors),
            (_, text) => named(&at, text, names::config_map_key(text), errors),
        }
    }
}

/// Validates the features that a node declares, which must be sorted and unique.
fn features(object: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("status");
    let path = path.child("declaredFeatures");
    let features = object.at("status").strs("declaredFeatures");
    for (index, feature) in features.iter().enumerate() {
        let shown = evenkeel_scalars::go::quote(feature);
        if feature.len() > FEATURE_MAX {
            let detail =
                format!("invalid feature name {shown}: must be no more than {FEATURE_MAX} characters");
            errors.push(FieldError::invalid(path.index(index), *feature, detail));
        } else if !go_regex::is_match(FEATURE, feature) {
            let detail = format!(
                "invalid feature name {shown}: must start with an UpperCamelCase segment, with subsequent segments separated by \
                 '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            );
            errors.push(FieldError::invalid(path.index(index), *feature, detail));
        }
        match features.get(index + 1) {
            Some(next) if next == feature => errors.push(FieldError::duplicate(path.index(index + 1), *next)),
            Some(next) if feature > next => {
                let detail = "list must be sorted alphabetically";
                errors.push(FieldError::invalid(path.index(index + 1), *next, detail));
            }
            _ => {}
        }
    }
}

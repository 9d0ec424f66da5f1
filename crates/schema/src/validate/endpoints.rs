//! Endpoints and EndpointSlices.

use evenkeel_scalars::formats;

use super::field_rules::{
    Seen, ip, label, named, one_of, port, qualified, required_one_of, subdomain, supported,
};
use super::service::endpoint_ip;
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::read::Read;
use crate::selector;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const ADDRESSES_MAX: usize = 100;
const ENDPOINTS_MAX: usize = 1000;
const PORTS_MAX: usize = 20_000;
const TOPOLOGY_LABELS_MAX: usize = 16;
const HINTS_MAX: usize = 8;

pub(super) fn create(kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(object, true, NameRule::Subdomain);
    rules(kind, object, None, &mut errors);
    errors
}

pub(super) fn update(kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = match kind {
        "EndpointSlice" => Vec::new(),
        _ => object_meta::update_builtin(new, old),
    };
    errors.extend(object_meta::create_builtin(new, true, NameRule::Subdomain));
    rules(kind, new, Some(old), &mut errors);
    if kind == "EndpointSlice" && new.str("addressType") != old.str("addressType") {
        errors.push(FieldError::invalid("addressType", new.str("addressType"), "field is immutable"));
    }
    errors
}

fn rules(kind: &str, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if kind == "EndpointSlice" { slice(object, old, errors) } else { subsets(object, errors) }
}

fn subsets(object: &Value, errors: &mut Vec<FieldError>) {
    let list = Path::new("subsets");
    for (index, subset) in object.list("subsets").iter().enumerate() {
        let path = list.index(index);
        if subset.list("addresses").is_empty() && subset.list("notReadyAddresses").is_empty() {
            errors.push(FieldError::required(path, "must specify `addresses` or `notReadyAddresses`"));
        }
        for field in ["addresses", "notReadyAddresses"] {
            let list = path.child(field);
            for (index, address) in subset.list(field).iter().enumerate() {
                let at = list.index(index);
                ip(&at.child("ip"), address.str("ip"), errors);
                if let Some(node) = address.at("nodeName").and_then(Value::as_str) {
                    subdomain(&at.child("nodeName"), node, errors);
                }
                let hostname = address.str("hostname");
                if !hostname.is_empty() {
                    label(&at.child("hostname"), hostname, errors);
                }
                match formats::parse_ip(address.str("ip")) {
                    Some(_) => endpoint_ip(&at.child("ip"), address.str("ip"), errors),
                    None => {
                        let text = address.str("ip");
                        errors.push(FieldError::invalid(at.child("ip"), text, "must be a valid IP address"));
                    }
                }
            }
        }
        let ports = subset.list("ports");
        let list = path.child("ports");
        for (index, value) in ports.iter().enumerate() {
            let at = list.index(index);
            match value.str("name") {
                "" if ports.len() > 1 => errors.push(FieldError::required(at.child("name"), "")),
                "" => {}
                name => label(&at.child("name"), name, errors),
            }
            port(&at.child("port"), value.int("port").unwrap_or_default(), errors);
            one_of(&at.child("protocol"), value.str("protocol"), &PROTOCOLS, errors);
            if let Some(protocol) = value.at("appProtocol").and_then(Value::as_str) {
                qualified(&at.child("appProtocol"), protocol, errors);
            }
        }
    }
}

fn slice(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let kind = object.str("addressType");
    match kind {
        "" => errors.push(FieldError::required("addressType", "")),
        kind => supported(&Path::new("addressType"), kind, &["FQDN", "IPv4", "IPv6"], errors),
    }
    slice_ports(object, errors);
    // Unchanged endpoints were valid when they were stored.
    if old.is_none_or(|old| old.at("endpoints") != object.at("endpoints")) {
        slice_endpoints(object, kind, errors);
    }
}

fn slice_endpoints(object: &Value, kind: &str, errors: &mut Vec<FieldError>) {
    let list = Path::new("endpoints");
    if object.list("endpoints").len() > ENDPOINTS_MAX {
        errors.push(FieldError::too_many(list, object.list("endpoints").len(), ENDPOINTS_MAX));
        return;
    }
    for (index, endpoint) in object.list("endpoints").iter().enumerate() {
        let path = list.index(index);
        let addresses = path.child("addresses");
        let texts = endpoint.strs("addresses");
        if texts.is_empty() {
            errors.push(FieldError::required(addresses, "must contain at least 1 address"));
        }
        if texts.len() > ADDRESSES_MAX {
            errors.push(FieldError::too_many(addresses, texts.len(), ADDRESSES_MAX));
        }
        for (index, text) in texts.into_iter().enumerate() {
            slice_address(&addresses, &addresses.index(index), kind, text, errors);
        }
        if let Some(node) = endpoint.at("nodeName").and_then(Value::as_str) {
            subdomain(&path.child("nodeName"), node, errors);
        }
        let topology = endpoint.at("deprecatedTopology").unwrap_or(&Value::Null);
        let labels = path.child("deprecatedTopology");
        let count = topology.as_object().map_or(0, crate::json::Map::len);
        if count > TOPOLOGY_LABELS_MAX {
            errors.push(FieldError::too_many(labels, count, TOPOLOGY_LABELS_MAX));
        }
        selector::validate_labels(&labels, topology, errors);
        if let Some(hostname) = endpoint.at("hostname").and_then(Value::as_str) {
            label(&path.child("hostname"), hostname, errors);
        }
        if let Some(hints) = endpoint.at("hints") {
            self::hints(&path.child("hints"), hints, errors);
        }
    }
}

/// Validates the zones and nodes that should use an endpoint.
fn hints(path: &Path<'_>, hints: &Value, errors: &mut Vec<FieldError>) {
    for (field, is_zone) in [("forZones", true), ("forNodes", false)] {
        let list = path.child(field);
        let named_items = hints.list(field);
        if named_items.len() > HINTS_MAX {
            errors.push(FieldError::too_many(list, named_items.len(), HINTS_MAX));
            return;
        }
        let mut seen = Seen::default();
        for (index, item) in named_items.iter().enumerate() {
            let at = list.index(index);
            let at = at.child("name");
            let name = item.str("name");
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(at, name));
            }
            let wrong = if is_zone { names::label_value(name) } else { names::dns1123_subdomain(name) };
            named(&at, name, wrong, errors);
        }
    }
}

fn slice_address(list: &Path<'_>, at: &Path<'_>, kind: &str, text: &str, errors: &mut Vec<FieldError>) {
    match kind {
        "IPv4" | "IPv6" => {
            let before = errors.len();
            ip(at, text, errors);
            if errors.len() > before {
                return;
            }
            if formats::parse_ip(text).is_none_or(|address| address.is_ipv4() != (kind == "IPv4")) {
                let article = if kind == "IPv4" { "an IPv4 address" } else { "an IPv6 address" };
                errors.push(FieldError::invalid(list, text, format!("must be {article}")));
            }
            endpoint_ip(at, text, errors);
        }
        "FQDN" => fully_qualified(at, text, errors),
        _ => {}
    }
}

/// Validates a domain name with at least two labels, with or without a trailing dot.
fn fully_qualified(at: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    if text.is_empty() {
        errors.push(FieldError::required(at, ""));
        return;
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let wrong = names::dns1123_subdomain(name);
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(at, name, wrong.join(",")));
        return;
    }
    if name.split('.').count() < 2 {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(at, name, detail));
        return;
    }
    let wrong = name.split('.').map(|label| (label, names::dns1123_label(label)));
    if let Some((label, wrong)) = wrong.into_iter().find(|(_, wrong)| !wrong.is_empty()) {
        errors.push(FieldError::invalid(at, label, wrong.join(",")));
    }
}

fn slice_ports(object: &Value, errors: &mut Vec<FieldError>) {
    let list = Path::new("ports");
    let ports = object.list("ports");
    if ports.len() > PORTS_MAX {
        errors.push(FieldError::too_many(list, ports.len(), PORTS_MAX));
        return;
    }
    let mut seen = Seen::default();
    for (index, value) in ports.iter().enumerate() {
        let path = list.index(index);
        let name = value.str("name");
        if !name.is_empty() {
            label(&path.child("name"), name, errors);
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(path.child("name"), name));
        }
        required_one_of(value, &path, "protocol", &PROTOCOLS, errors);
        if let Some(protocol) = value.at("appProtocol").and_then(Value::as_str) {
            qualified(&path.child("appProtocol"), protocol, errors);
        }
    }
}

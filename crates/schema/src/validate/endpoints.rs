//! Endpoints and EndpointSlices.

use evenkeel_scalars::formats;

use super::field_rules::{Seen, ip, label, named, one_of, port, supported};
use super::service::endpoint_ip;
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::read::Read;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const ADDRESSES_MAX: usize = 100;
const ENDPOINTS_MAX: usize = 1000;
const PORTS_MAX: usize = 20_000;

pub(super) fn create(kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(object, true, NameRule::Subdomain);
    rules(kind, object, &mut errors);
    errors
}

pub(super) fn update(kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::update_builtin(new, old);
    rules(kind, new, &mut errors);
    if kind == "EndpointSlice" && new.str("addressType") != old.str("addressType") {
        errors.push(FieldError::invalid("addressType", new.str("addressType"), "field is immutable"));
    }
    errors
}

fn rules(kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    if kind == "EndpointSlice" { slice(object, errors) } else { subsets(object, errors) }
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
        }
    }
}

fn slice(object: &Value, errors: &mut Vec<FieldError>) {
    let kind = object.str("addressType");
    match kind {
        "" => errors.push(FieldError::required("addressType", "")),
        kind => supported(&Path::new("addressType"), kind, &["FQDN", "IPv4", "IPv6"], errors),
    }
    slice_ports(object, errors);
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
        if let Some(hostname) = endpoint.at("hostname").and_then(Value::as_str) {
            label(&path.child("hostname"), hostname, errors);
        }
    }
}

fn slice_address(list: &Path<'_>, at: &Path<'_>, kind: &str, text: &str, errors: &mut Vec<FieldError>) {
    let address = formats::parse_ip(text);
    match kind {
        "IPv4" | "IPv6" => {
            if address.is_none_or(|address| address.is_ipv4() != (kind == "IPv4")) {
                let article = if kind == "IPv4" { "an IPv4 address" } else { "an IPv6 address" };
                errors.push(FieldError::invalid(list, text, format!("must be {article}")));
            }
            endpoint_ip(at, text, errors);
        }
        "FQDN" => named(at, text, names::dns1123_subdomain(text), errors),
        _ => {}
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
        one_of(&path.child("protocol"), value.str("protocol"), &PROTOCOLS, errors);
    }
}

//! Ingresses, IngressClasses and NetworkPolicies.

use std::net::IpAddr;

use evenkeel_scalars::formats;

use super::field_rules::{domain_prefixed_path, ip, label, named, port, subdomain, supported};
use super::service::cidr;
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::object_meta::{self, NameRule};
use crate::read::Read;
use crate::{names, selector};

const CONTROLLER_MAX: usize = 250;
const BAD_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const BAD_SUFFIXES: [&str; 2] = ["/..", "/."];

/// The annotation that named the class of an Ingress before it had a field.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(super) fn create(kind: &str, object: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(object, namespaced, NameRule::Subdomain);
    rules(kind, object, &mut errors);
    let annotation = object.at("metadata").at("annotations").at(CLASS_ANNOTATION).and_then(Value::as_str);
    let class = object.at("spec").at("ingressClassName").and_then(Value::as_str);
    if let (Some(annotation), Some(class)) = (annotation, class)
        && kind == "Ingress"
        && annotation != class
    {
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(format!("annotations.{CLASS_ANNOTATION}"), annotation, detail));
    }
    errors
}

pub(super) fn update(kind: &str, new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    let mut errors = object_meta::update_builtin(new, old);
    if subresource == "status" {
        addresses(new, old, &mut errors);
        return errors;
    }
    if kind == "IngressClass" && new.at("spec").str("controller") != old.at("spec").str("controller") {
        let controller = new.at("spec").str("controller");
        errors.push(FieldError::invalid("spec.controller", controller, "field is immutable"));
    }
    if matches!(kind, "Ingress" | "IngressClass") {
        errors.extend(object_meta::create_builtin(new, kind == "Ingress", NameRule::Subdomain));
    }
    rules(kind, new, &mut errors);
    errors
}

/// Validates the load balancer addresses of an Ingress.
fn addresses(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let points = |ingress: &'_ Value| ingress.at("status").at("loadBalancer").list("ingress").to_vec();
    let path = Path::new("status");
    let path = path.child("loadBalancer");
    let list = path.child("ingress");
    let before = points(old);
    for (index, point) in points(new).iter().enumerate() {
        let at = list.index(index);
        let address = point.str("ip");
        if !address.is_empty() && !before.iter().any(|it| it.str("ip") == address) {
            ip(&at.child("ip"), address, errors);
        }
        let host = point.str("hostname");
        if !host.is_empty() {
            subdomain(&at.child("hostname"), host, errors);
            if formats::parse_ip(host).is_some() {
                let detail = "must be a DNS name, not an IP address";
                errors.push(FieldError::invalid(at.child("hostname"), host, detail));
            }
        }
    }
}

fn rules(kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let spec = object.at("spec").unwrap_or(&Value::Null);
    match kind {
        "Ingress" => ingress(&path, spec, errors),
        "IngressClass" => class(&path, spec, errors),
        "NetworkPolicy" => policy(&path, spec, errors),
        _ => {}
    }
}

fn ingress(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    if spec.list("rules").is_empty() && !spec.has("defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        let rules = spec.at("rules").cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(path, rules, detail));
    }
    if let Some(value) = spec.at("defaultBackend") {
        backend(&path.child("defaultBackend"), value, errors);
    }
    let list = path.child("rules");
    for (index, rule) in spec.list("rules").iter().enumerate() {
        let path = list.index(index);
        let host = rule.str("host");
        if !host.is_empty() {
            host_name(&path.child("host"), host, true, errors);
        }
        if let Some(http) = rule.at("http") {
            paths(&path.child("http"), http, errors);
        }
    }
    let list = path.child("tls");
    for (index, tls) in spec.list("tls").iter().enumerate() {
        let path = list.index(index);
        let hosts = path.child("hosts");
        for (index, host) in tls.strs("hosts").into_iter().enumerate() {
            host_name(&hosts.index(index), host, false, errors);
        }
        let secret = tls.str("secretName");
        if !secret.is_empty() {
            subdomain(&path.child("secretName"), secret, errors);
        }
    }
    if let Some(class) = spec.at("ingressClassName").and_then(Value::as_str) {
        subdomain(&path.child("ingressClassName"), class, errors);
    }
}

fn host_name(path: &Path<'_>, host: &str, refuse_ip: bool, errors: &mut Vec<FieldError>) {
    if refuse_ip && formats::parse_ip(host).is_some() {
        errors.push(FieldError::invalid(path, host, "must be a DNS name, not an IP address"));
    }
    let wrong = match host.contains('*') {
        true => names::wildcard_dns1123_subdomain(host),
        false => names::dns1123_subdomain(host),
    };
    named(path, host, wrong, errors);
}

fn paths(path: &Path<'_>, http: &Value, errors: &mut Vec<FieldError>) {
    let list = path.child("paths");
    if http.list("paths").is_empty() {
        errors.push(FieldError::required(list, ""));
    }
    for (index, value) in http.list("paths").iter().enumerate() {
        http_path(&list.index(index), value, errors);
    }
}

fn http_path(path: &Path<'_>, value: &Value, errors: &mut Vec<FieldError>) {
    let (text, at) = (value.str("path"), path.child("path"));
    let absolute = text.starts_with('/');
    match value.at("pathType").and_then(Value::as_str) {
        None => {
            errors.push(FieldError::required(path.child("pathType"), "pathType must be specified"));
            return;
        }
        Some("Exact" | "Prefix") => {
            if !absolute {
                errors.push(FieldError::invalid(at, text, "must be an absolute path"));
            }
            for sequence in BAD_SEQUENCES.iter().filter(|sequence| text.contains(**sequence)) {
                errors.push(FieldError::invalid(at, text, format!("must not contain '{sequence}'")));
            }
            for suffix in BAD_SUFFIXES.iter().filter(|suffix| text.ends_with(**suffix)) {
                errors.push(FieldError::invalid(at, text, format!("cannot end with '{suffix}'")));
            }
        }
        Some("ImplementationSpecific") => {
            if !text.is_empty() && !absolute {
                errors.push(FieldError::invalid(at, text, "must be an absolute path"));
            }
        }
        Some(other) => {
            let types = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(FieldError::not_supported(path.child("pathType"), other, &types));
        }
    }
    backend(&path.child("backend"), value.at("backend").unwrap_or(&Value::Null), errors);
}

fn backend(path: &Path<'_>, backend: &Value, errors: &mut Vec<FieldError>) {
    match (backend.at("resource"), backend.at("service")) {
        (Some(_), Some(_)) => {
            errors.push(FieldError::invalid(path, "", "cannot set both resource and service backends"));
        }
        (Some(resource), None) => reference(&path.child("resource"), resource, errors),
        (None, Some(service)) => {
            let at = path.child("service");
            match service.str("name") {
                "" => errors.push(FieldError::required(at.child("name"), "")),
                name => label(&at.child("name"), name, errors),
            }
            let (name, number) =
                (service.at("port").str("name"), service.at("port").int("number").unwrap_or_default());
            match (name, number) {
                ("", 0) => errors.push(FieldError::required(path, "port name or number is required")),
                ("", number) => port(&at.child("port.number"), number, errors),
                (name, 0) => named(&at.child("port.name"), name, names::port_name(name), errors),
                _ => errors.push(FieldError::invalid(path, "", "cannot set both port name & port number")),
            }
        }
        (None, None) => errors.push(FieldError::invalid(path, "", "resource or service backend is required")),
    }
}

fn reference(path: &Path<'_>, reference: &Value, errors: &mut Vec<FieldError>) {
    if let Some(group) = reference.at("apiGroup").and_then(Value::as_str) {
        subdomain(&path.child("apiGroup"), group, errors);
    }
    for field in ["kind", "name"] {
        match reference.str(field) {
            "" => errors.push(FieldError::required(path.child(field), "")),
            text => named(&path.child(field), text, names::path_segment(text), errors),
        }
    }
}

fn class(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let controller = spec.str("controller");
    let at = path.child("controller");
    if controller.len() > CONTROLLER_MAX {
        errors.push(FieldError::too_long(at, CONTROLLER_MAX));
    }
    domain_prefixed_path(&at, controller, errors);
    let Some(parameters) = spec.at("parameters") else { return };
    let path = path.child("parameters");
    reference(&path, parameters, errors);
    let namespace = parameters.at("namespace").and_then(Value::as_str);
    match (parameters.str("scope"), namespace) {
        ("", _) if !parameters.has("scope") => errors.push(FieldError::required(path.child("scope"), "")),
        ("Namespace", None) => {
            errors.push(FieldError::required(
                path.child("namespace"),
                "`parameters.scope` is set to 'Namespace'",
            ));
        }
        ("Namespace", Some(name)) => label(&path.child("namespace"), name, errors),
        ("Cluster", Some(_)) => {
            errors.push(FieldError::forbidden(
                path.child("namespace"),
                "`parameters.scope` is set to 'Cluster'",
            ));
        }
        ("Cluster", None) => {}
        (other, _) => {
            errors.push(FieldError::not_supported(path.child("scope"), other, &["Cluster", "Namespace"]))
        }
    }
}

fn policy(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let selected = spec.at("podSelector").unwrap_or(&Value::Null);
    errors.extend(selector::validate(&path.child("podSelector"), selected));
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let list = path.child(direction);
        for (index, rule) in spec.list(direction).iter().enumerate() {
            let path = list.index(index);
            let ports = path.child("ports");
            for (index, value) in rule.list("ports").iter().enumerate() {
                policy_port(&ports.index(index), value, errors);
            }
            let list = path.child(peers);
            for (index, value) in rule.list(peers).iter().enumerate() {
                peer(&list.index(index), value, errors);
            }
        }
    }
    let types = spec.strs("policyTypes");
    let at = path.child("policyTypes");
    if types.len() > 2 {
        errors.push(FieldError::invalid(at, Value::from(types), "may not specify more than two policyTypes"));
        return;
    }
    for (index, kind) in types.into_iter().enumerate() {
        supported(&at.index(index), kind, &["Ingress", "Egress"], errors);
    }
}

fn policy_port(path: &Path<'_>, value: &Value, errors: &mut Vec<FieldError>) {
    if let Some(protocol) = value.at("protocol").and_then(Value::as_str) {
        supported(&path.child("protocol"), protocol, &["TCP", "UDP", "SCTP"], errors);
    }
    let end = value.int("endPort");
    let end_path = path.child("endPort");
    match value.at("port") {
        None => {
            if let Some(end) = end {
                errors.push(FieldError::invalid(
                    end_path,
                    end,
                    "may not be specified when `port` is not specified",
                ));
            }
        }
        Some(Value::String(name)) => {
            if let Some(end) = end {
                errors.push(FieldError::invalid(
                    end_path,
                    end,
                    "may not be specified when `port` is non-numeric",
                ));
            }
            named(&path.child("port"), name, names::port_name(name), errors);
        }
        Some(number) => {
            let number = number.as_i64().unwrap_or_default();
            port(&path.child("port"), number, errors);
            if let Some(end) = end {
                if end < number {
                    // Kubernetes shows the lower bound of the range here.
                    errors.push(FieldError::invalid(
                        end_path,
                        number,
                        "must be greater than or equal to `port`",
                    ));
                }
                port(&end_path, end, errors);
            }
        }
    }
}

fn peer(path: &Path<'_>, peer: &Value, errors: &mut Vec<FieldError>) {
    let mut count = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if let Some(value) = peer.at(field) {
            count += 1;
            errors.extend(selector::validate(&path.child(field), value));
        }
    }
    if let Some(block) = peer.at("ipBlock") {
        count += 1;
        ip_block(&path.child("ipBlock"), block, errors);
    }
    if count == 0 {
        errors.push(FieldError::required(path, "must specify a peer"));
    } else if count > 1 && peer.has("ipBlock") {
        errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
    }
}

fn ip_block(path: &Path<'_>, block: &Value, errors: &mut Vec<FieldError>) {
    let range = block.str("cidr");
    if range.is_empty() {
        errors.push(FieldError::required(path.child("cidr"), ""));
        return;
    }
    cidr(&path.child("cidr"), range, errors);
    let Some(outer) = prefix(range) else { return };
    let list = path.child("except");
    for (index, except) in block.strs("except").into_iter().enumerate() {
        let at = list.index(index);
        cidr(&at, except, errors);
        if prefix(except).is_some_and(|inner| !is_strict_subset(inner, outer)) {
            errors.push(FieldError::invalid(at, except, "must be a strict subset of `cidr`"));
        }
    }
}

/// Parses a CIDR: the bits of the address, their number, and the length of the prefix.
fn prefix(text: &str) -> Option<(u128, u32, u32)> {
    let (address, length) = text.split_once('/')?;
    let length: u32 = length.parse().ok()?;
    Some(match formats::parse_ip(address)? {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32, length),
        IpAddr::V6(address) => (address.to_bits(), 128, length),
    })
}

fn is_strict_subset(inner: (u128, u32, u32), outer: (u128, u32, u32)) -> bool {
    let shift = outer.1.saturating_sub(outer.2);
    let top = |bits: u128| bits.checked_shr(shift).unwrap_or_default();
    inner.1 == outer.1 && inner.2 > outer.2 && top(inner.0) == top(outer.0)
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn the_annotation_of_an_ingress_agrees_with_its_class() {
        let ingress = |class: &str| {
            json!({"metadata": {"name": "i", "namespace": "n", "annotations": {CLASS_ANNOTATION: "a"}},
                "spec": {"ingressClassName": class, "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}})
        };
        let told = |class: &str| -> Vec<String> {
            create("Ingress", &ingress(class), true).iter().map(ToString::to_string).collect()
        };
        assert_eq!(told("a"), [""; 0]);
        assert_eq!(
            told("b"),
            [
                r#"annotations.kubernetes.io/ingress.class: Invalid value: "a": must match `ingressClassName` when both are specified"#
            ]
        );
    }
}

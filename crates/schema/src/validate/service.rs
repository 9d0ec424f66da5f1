//! Services. The API server validates what depends on the addresses and ports of the whole cluster.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use evenkeel_scalars::formats;

use super::field_rules::{
    Seen, ip, label, named, one_of, optional_one_of, port, port_or_name, qualified, subdomain, supported,
};
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::object_meta::{self, NameRule};
use crate::read::Read;
use crate::{names, selector};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const ONLY_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";
const AFFINITY_MAX: i64 = 86_400;

/// Validates the addresses. Kubernetes allocates them before it validates anything else, so that these errors are reported
/// alone.
pub(super) fn addresses(service: &Value) -> Vec<FieldError> {
    let spec = service.at("spec").unwrap_or(&Value::Null);
    let mut errors = Vec::new();
    if spec.str("type") != "ExternalName" {
        cluster_ips(&Path::new("spec"), spec, &mut errors);
    }
    errors
}

pub(super) fn create(service: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(service, true, NameRule::Label);
    rules(service, &mut errors);
    errors
}

pub(super) fn update(new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    let mut errors = object_meta::update_builtin(new, old);
    if subresource == "status" {
        balancer_status(new, old, &mut errors);
        return errors;
    }
    cluster_ips_update(new, old, &mut errors);
    balancer_class(new.at("spec"), old.at("spec"), &mut errors);
    rules(new, &mut errors);
    errors
}

/// Validates that the load balancer class does not change while the Service has a load balancer.
fn balancer_class(new: Option<&Value>, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let field = "loadBalancerClass";
    let both = [new, old].iter().all(|spec| spec.str("type") == "LoadBalancer");
    if both && new.at(field) != old.at(field) {
        let shown = BadValue::Printed(new.at(field).unwrap_or(&Value::Null).to_string());
        errors.push(FieldError::invalid(Path::new("spec").child(field), shown, "may not change once set"));
    }
}

/// Validates `status.loadBalancer`, which only Services of the type `LoadBalancer` may have.
fn balancer_status(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let ingress = |service: &'_ Value| service.at("status").at("loadBalancer").list("ingress").to_vec();
    let path = Path::new("status");
    let path = path.child("loadBalancer");
    let list = path.child("ingress");
    let (points, before) = (ingress(new), ingress(old));
    if new.at("spec").str("type") != "LoadBalancer" {
        if !points.is_empty() {
            let detail = "may only be used when `spec.type` is 'LoadBalancer'";
            errors.push(FieldError::forbidden(list, detail));
        }
        return;
    }
    for (index, point) in points.iter().enumerate() {
        let path = list.index(index);
        let address = point.str("ip");
        if !address.is_empty() && !before.iter().any(|it| it.str("ip") == address) {
            ip(&path.child("ip"), address, errors);
        }
        let mode = path.child("ipMode");
        match (point.at("ipMode").and_then(Value::as_str), address.is_empty()) {
            (None, false) => errors.push(FieldError::required(mode, "must be specified when `ip` is set")),
            (Some(_), true) => {
                errors.push(FieldError::forbidden(mode, "may not be specified when `ip` is not set"));
            }
            (Some(given), false) => supported(&mode, given, &["Proxy", "VIP"], errors),
            (None, true) => {}
        }
        let host = point.str("hostname");
        if !host.is_empty() {
            subdomain(&path.child("hostname"), host, errors);
            if formats::parse_ip(host).is_some() {
                let detail = "must be a DNS name, not an IP address";
                errors.push(FieldError::invalid(path.child("hostname"), host, detail));
            }
        }
    }
}

fn is_headless(spec: &Value) -> bool {
    spec.strs("clusterIPs") == ["None"]
}

fn cluster_ips_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (new, old) = (new.at("spec"), old.at("spec"));
    if new.str("type") == "ExternalName" || old.str("type") == "ExternalName" {
        return;
    }
    let (before, after) = (old.strs("clusterIPs"), new.strs("clusterIPs"));
    let path = Path::new("spec");
    let path = path.child("clusterIPs");
    if let (Some(first), second) = (before.first(), after.first())
        && second != Some(first)
    {
        let shown = Value::from(after.clone());
        errors.push(FieldError::invalid(path.index(0), shown, "may not change once set"));
    }
    if let (Some(first), Some(second)) = (before.get(1), after.get(1))
        && first != second
    {
        errors.push(FieldError::invalid(
            path.index(1),
            Value::from(after.clone()),
            "may not change once set",
        ));
    }
}

fn rules(service: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let spec = service.at("spec").unwrap_or(&Value::Null);
    let kind = spec.str("type");
    if spec.list("ports").is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.push(FieldError::required(path.child("ports"), ""));
    }
    by_type(&path, spec, errors);
    ports(&path.child("ports"), spec, errors);
    selector::validate_labels(&path.child("selector"), spec.at("selector").unwrap_or(&Value::Null), errors);
    let affinity = spec.str("sessionAffinity");
    one_of(&path.child("sessionAffinity"), affinity, &["ClientIP", "None"], errors);
    if affinity == "ClientIP" {
        affinity_timeout(&path.child("sessionAffinityConfig"), spec.at("sessionAffinityConfig"), errors);
    }
    if kind != "ExternalName" {
        cluster_ips(&path, spec, errors);
    }
    external_ips(&path.child("externalIPs"), spec, errors);
    one_of(&path.child("type"), kind, &TYPES, errors);
    port_conflicts(&path.child("ports"), spec, errors);
    balancer(&path, spec, errors);
    traffic(&path, spec, errors);
}

fn by_type(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let addresses = path.child("clusterIPs");
    match spec.str("type") {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(spec) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid(addresses.index(0), "None", detail));
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if spec.has(field) {
                    let detail = "may not be set for ExternalName services";
                    errors.push(FieldError::forbidden(path.child(field), detail));
                }
            }
            let name = spec.str("externalName");
            match name.strip_suffix('.').unwrap_or(name) {
                "" => errors.push(FieldError::required(path.child("externalName"), "")),
                name => subdomain(&path.child("externalName"), name, errors),
            }
        }
        _ => {}
    }
}

fn ports(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let ports = spec.list("ports");
    let mut seen = Seen::default();
    for (index, value) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = value.str("name");
        if name.is_empty() && ports.len() > 1 {
            errors.push(FieldError::required(path.child("name"), ""));
        } else if !name.is_empty() {
            label(&path.child("name"), name, errors);
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(path.child("name"), name));
            }
        }
        port(&path.child("port"), value.int("port").unwrap_or_default(), errors);
        one_of(&path.child("protocol"), value.str("protocol"), &["SCTP", "TCP", "UDP"], errors);
        port_or_name(&path.child("targetPort"), value.at("targetPort"), errors);
        if let Some(protocol) = value.at("appProtocol").and_then(Value::as_str) {
            qualified(&path.child("appProtocol"), protocol, errors);
        }
    }
}

fn port_conflicts(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let ports = spec.list("ports");
    let node_port = |port: &Value| port.int("nodePort").filter(|number| *number != 0);
    for (index, value) in ports.iter().enumerate() {
        if spec.str("type") == "ClusterIP" && node_port(value).is_some() {
            let at = path.index(index);
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(at.child("nodePort"), detail));
        }
    }
    let same_protocol = |a: &Value, b: &Value| a.str("protocol") == b.str("protocol");
    for (index, value) in ports.iter().enumerate() {
        let earlier = |other: &&Value| same_protocol(other, value) && node_port(other) == node_port(value);
        if let (Some(number), true) = (node_port(value), ports[..index].iter().any(|other| earlier(&other))) {
            let at = path.index(index);
            errors.push(FieldError::duplicate(at.child("nodePort"), number));
        }
    }
    for (index, value) in ports.iter().enumerate() {
        let number = value.int("port").unwrap_or_default();
        let repeated = ports[..index]
            .iter()
            .any(|other| same_protocol(other, value) && other.int("port") == value.int("port"));
        if repeated {
            let printed = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
                Value::from(value.str("protocol"))
            );
            errors.push(FieldError::duplicate(path.index(index), BadValue::Printed(printed)));
        }
    }
}

fn affinity_timeout(path: &Path<'_>, config: Option<&Value>, errors: &mut Vec<FieldError>) {
    let path = path.child("clientIP");
    let path = path.child("timeoutSeconds");
    match config.at("clientIP").int("timeoutSeconds") {
        None => errors.push(FieldError::required(path, "when session affinity type is ClientIP")),
        Some(seconds) if seconds <= 0 || seconds > AFFINITY_MAX => {
            let detail = format!("must be greater than 0 and less than {AFFINITY_MAX}");
            errors.push(FieldError::invalid(path, seconds, detail));
        }
        Some(_) => {}
    }
}

fn cluster_ips(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let at = path.child("clusterIPs");
    let addresses = spec.strs("clusterIPs");
    let first = spec.str("clusterIP");
    let shown = || Value::from(addresses.clone());
    match (first, addresses.first()) {
        ("", Some(_)) => {
            let detail = "must be empty when `clusterIP` is not specified";
            errors.push(FieldError::invalid(at, shown(), detail));
        }
        ("", None) => {}
        (_, None) => errors.push(FieldError::required(at, "")),
        (first, Some(listed)) if *listed != first => {
            errors.push(FieldError::invalid(at, shown(), "first value must match `clusterIP`"));
        }
        _ => {}
    }
    let families = path.child("ipFamilies");
    let mut seen = Seen::default();
    for (index, family) in spec.strs("ipFamilies").into_iter().enumerate() {
        supported(&families.index(index), family, &["IPv4", "IPv6"], errors);
        if !seen.insert(family) {
            errors.push(FieldError::duplicate(families.index(index), family));
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    optional_one_of(spec, path, "ipFamilyPolicy", &policies, errors);
    for (index, address) in addresses.iter().enumerate() {
        if index == 0 && *address == "None" {
            if addresses.len() > 1 {
                errors.push(FieldError::invalid(at, shown(), "'None' must be the first and only value"));
            }
            continue;
        }
        ip(&at.index(index), address, errors);
    }
    if addresses.len() > 2 {
        errors.push(FieldError::invalid(at, shown(), "may only hold up to 2 values"));
    }
    let is_v6: Vec<bool> = addresses.iter().map(|address| address.contains(':')).collect();
    if addresses.len() > 1 && errors.is_empty() && is_v6.iter().all(|v6| *v6 == is_v6[0]) {
        errors.push(FieldError::invalid(at, shown(), "may specify no more than one IP for each IP family"));
    }
}

fn external_ips(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    for (index, address) in spec.strs("externalIPs").into_iter().enumerate() {
        let at = path.index(index);
        let before = errors.len();
        ip(&at, address, errors);
        if errors.len() == before {
            endpoint_ip(&at, address, errors);
        }
    }
}

/// Validates the address of an endpoint, which must not be in one of the special ranges.
pub(super) fn endpoint_ip(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    let Some(address) = formats::parse_ip(text) else { return };
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    };
    let link_local_multicast = match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    };
    if address.is_unspecified() {
        errors.push(FieldError::invalid(path, text, "may not be unspecified (0.0.0.0 or ::)"));
    }
    if address.is_loopback() {
        errors.push(FieldError::invalid(
            path,
            text,
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ));
    }
    if link_local {
        let detail = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        errors.push(FieldError::invalid(path, text, detail));
    }
    if link_local_multicast {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errors.push(FieldError::invalid(path, text, detail));
    }
}

fn balancer(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let is_balancer = spec.str("type") == "LoadBalancer";
    let ranges = spec.strs("loadBalancerSourceRanges");
    // Kubernetes' error spells this field with a capital letter.
    let at = path.child("LoadBalancerSourceRanges");
    if !ranges.is_empty() && !is_balancer {
        errors.push(FieldError::forbidden(at, ONLY_BALANCERS));
    }
    for (index, range) in ranges.into_iter().enumerate() {
        cidr(&at.index(index), range.trim(), errors);
    }
    if spec.has("allocateLoadBalancerNodePorts") && !is_balancer {
        errors.push(FieldError::forbidden(path.child("allocateLoadBalancerNodePorts"), ONLY_BALANCERS));
    }
    if let Some(class) = spec.at("loadBalancerClass").and_then(Value::as_str) {
        let at = path.child("loadBalancerClass");
        match is_balancer {
            false => errors.push(FieldError::forbidden(at, "may only be used when `type` is 'LoadBalancer'")),
            true => named(&at, class, names::qualified_name(class), errors),
        }
    }
}

/// Validates an address range. Leading zeros, and bits beyond the prefix length, are refused.
pub(super) fn cidr(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    let range = text.split_once('/').filter(|_| formats::is_cidr(text));
    let Some((address, length)) = range else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(FieldError::invalid(path, text, detail));
        return;
    };
    let (strict, bits) = (address.parse::<IpAddr>(), length.parse::<u32>().unwrap_or_default());
    let detail = match strict {
        Err(_) => "must not have leading 0s in IP or prefix length",
        Ok(_) if length.len() > 1 && length.starts_with('0') => {
            "must not have leading 0s in IP or prefix length"
        }
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            "must not have an IPv4-mapped IPv6 address"
        }
        Ok(address) if first_address(address, bits) != address => {
            "must not have bits set beyond the prefix length"
        }
        Ok(_) => return,
    };
    errors.push(FieldError::invalid(path, text, detail));
}

/// The first address of a range.
fn first_address(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or_default();
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or_default();
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

fn traffic(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let external = match spec.str("type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.list("externalIPs").is_empty(),
        _ => false,
    };
    let policy = spec.str("externalTrafficPolicy");
    let at = path.child("externalTrafficPolicy");
    match (external, policy) {
        (false, "") => {}
        (false, policy) => {
            errors.push(FieldError::invalid(
                at,
                policy,
                "may only be set for externally-accessible services",
            ));
        }
        (true, policy) => one_of(&at, policy, &["Cluster", "Local"], errors),
    }
    let checked = spec.str("type") == "LoadBalancer" && policy == "Local";
    let number = spec.int("healthCheckNodePort").unwrap_or_default();
    if !checked && number != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid(path.child("healthCheckNodePort"), number, detail));
    }
    if matches!(spec.str("type"), "ClusterIP" | "NodePort" | "LoadBalancer")
        && !spec.has("internalTrafficPolicy")
    {
        errors.push(FieldError::required(path.child("internalTrafficPolicy"), ""));
    }
    optional_one_of(spec, path, "internalTrafficPolicy", &["Cluster", "Local"], errors);
    let zones = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    optional_one_of(spec, path, "trafficDistribution", &zones, errors);
}

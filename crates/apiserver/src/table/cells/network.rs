//! Rows of services, endpoints and ingress.

use std::collections::BTreeSet;

use evenkeel_schema::json::Value;

use super::view::{NONE, View, with_more};

/// The number of addresses, ports or hosts that a cell spells out.
const SHOWN: usize = 3;

pub(super) fn service(object: View<'_>) -> Vec<Value> {
    let ports: Vec<_> = object.list("/spec/ports").map(service_port).collect();
    vec![
        object.name().into(),
        object.text("/spec/type").into(),
        object.list("/spec/clusterIPs").next().and_then(|ip| ip.value.as_str()).unwrap_or(NONE).into(),
        external_ip(object).into(),
        if ports.is_empty() { NONE.into() } else { ports.join(",").into() },
        object.age().into(),
        object.labels("/spec/selector").into(),
    ]
}

fn service_port(port: View<'_>) -> String {
    let number = port.int("/port");
    let protocol = port.text("/protocol");
    match port.int("/nodePort") {
        node_port if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_ip(service: View<'_>) -> String {
    let external = service.texts("/spec/externalIPs").join(",");
    let balanced = load_balancer(service);
    match service.text("/spec/type") {
        "ClusterIP" | "NodePort" if external.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => external,
        "LoadBalancer" => match (balanced.is_empty(), external.is_empty()) {
            (true, true) => "<pending>".to_owned(),
            (true, false) => external,
            (false, true) => balanced,
            (false, false) => format!("{balanced},{external}"),
        },
        "ExternalName" => service.text("/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses of a load balancer, with the host name of each ingress point that has no address.
fn load_balancer(object: View<'_>) -> String {
    let addresses: BTreeSet<_> = object
        .list("/status/loadBalancer/ingress")
        .map(|point| point.text_or("/ip", point.text("/hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

pub(super) fn endpoints(object: View<'_>) -> Vec<Value> {
    let mut entries = Vec::new();
    for subset in object.list("/subsets") {
        let addresses = subset.list("/addresses").map(|address| address.text("/ip"));
        if subset.len("/ports") == 0 {
            entries.extend(addresses.map(str::to_owned));
            continue;
        }
        for port in subset.list("/ports") {
            let ips = subset.list("/addresses").map(|address| address.text("/ip"));
            entries.extend(ips.map(|ip| host_port(ip, port.int("/port"))));
        }
    }
    let empty = if object.len("/subsets") == 0 { NONE } else { "" };
    vec![object.name().into(), with_more(&entries, SHOWN, empty).into(), object.age().into()]
}

/// Formats an address and a port; an IPv6 address is put in brackets.
fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

pub(super) fn endpoint_slice(object: View<'_>) -> Vec<Value> {
    let ports: Vec<_> = object.list("/ports").map(slice_port).collect();
    let addresses: Vec<_> = object
        .list("/endpoints")
        .flat_map(|endpoint| endpoint.texts("/addresses"))
        .map(str::to_owned)
        .collect();
    vec![
        object.name().into(),
        object.text("/addressType").into(),
        slice_list(&ports).into(),
        slice_list(&addresses).into(),
        object.age().into(),
    ]
}

fn slice_list(entries: &[String]) -> String {
    let text = with_more(entries, SHOWN, "");
    if text.is_empty() { super::view::UNSET.to_owned() } else { text }
}

fn slice_port(port: View<'_>) -> String {
    match (port.maybe_int("/port"), port.maybe_text("/name")) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    }
}

pub(super) fn ingress(object: View<'_>) -> Vec<Value> {
    vec![
        object.name().into(),
        object.maybe_text("/spec/ingressClassName").unwrap_or(NONE).into(),
        hosts(object).into(),
        load_balancer(object).into(),
        if object.len("/spec/tls") > 0 { "80, 443".into() } else { "80".into() },
        object.age().into(),
    ]
}

/// The hosts of an Ingress. As in kubectl, the "+ N more" counts rules, not hosts.
fn hosts(ingress: View<'_>) -> String {
    let rules = ingress.len("/spec/rules");
    let mut shown = Vec::new();
    let mut more = false;
    for rule in ingress.list("/spec/rules") {
        more |= shown.len() == SHOWN;
        let host = rule.text("/host");
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match shown.join(",") {
        none if none.is_empty() => "*".to_owned(),
        list if more => format!("{list} + {} more...", rules - SHOWN),
        list => list,
    }
}

pub(super) fn ingress_class(object: View<'_>) -> Vec<Value> {
    let is_default = object.annotation("ingressclass.kubernetes.io/is-default-class") == Some("true");
    let suffix = if is_default { " (default)" } else { "" };
    let parameters = object.get("/spec/parameters").map_or_else(
        || NONE.to_owned(),
        |parameters| {
            let group =
                parameters.maybe_text("/apiGroup").map(|group| format!(".{group}")).unwrap_or_default();
            format!("{}{group}/{}", parameters.text("/kind"), parameters.text("/name"))
        },
    );
    vec![
        format!("{}{suffix}", object.name()).into(),
        object.text("/spec/controller").into(),
        parameters.into(),
        object.age().into(),
    ]
}

pub(super) fn network_policy(object: View<'_>) -> Vec<Value> {
    vec![object.name().into(), object.selector("/spec/podSelector").into(), object.age().into()]
}

pub(super) fn service_cidr(object: View<'_>) -> Vec<Value> {
    vec![object.name().into(), object.texts("/spec/cidrs").join(",").into(), object.age().into()]
}

/// The row of an IPAddress. Kubernetes gives it a third cell, its age, without a column for it.
pub(super) fn ip_address(object: View<'_>) -> Vec<Value> {
    let parent = object.get("/spec/parentRef").map_or_else(
        || NONE.to_owned(),
        |parent| {
            let resource = match parent.text("/group") {
                "" => parent.text("/resource").to_lowercase(),
                group => format!("{}.{group}", parent.text("/resource")).to_lowercase(),
            };
            match parent.text("/namespace") {
                "" => format!("{resource}/{}", parent.text("/name")),
                namespace => format!("{resource}/{namespace}/{}", parent.text("/name")),
            }
        },
    );
    vec![object.name().into(), parent.into(), object.age().into()]
}

//! Updates of a pod's status.

use std::net::IpAddr;

use evenkeel_scalars::formats;

use super::super::field_rules::{ip, label, named, qualified, subdomain, supported};
use crate::field::{FieldError, Path};
use crate::internal_structs;
use crate::json::Value;
use crate::names;
use crate::read::Read;

const NON_NEGATIVE: &str = "must be a non-negative integer";
const TERMINATED: &str = "may not be transitioned to non-terminated state";
const SYSTEM_CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];
const HEALTH: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];
const HEALTH_MESSAGE_MAX: usize = 1024;
/// The lists of container statuses, each with the matching list of containers in the spec.
const STATUS_LISTS: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

/// Validates the new status of a pod.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("status");
    let (status, before) =
        (new.at("status").unwrap_or(&Value::Null), old.at("status").unwrap_or(&Value::Null));
    conditions(&path.child("conditions"), status.list("conditions"), errors);
    nominated_node(&path.child("nominatedNodeName"), status, before, old.at("spec"), errors);
    if let Some(generation) = status.int("observedGeneration").filter(|generation| *generation < 0) {
        errors.push(FieldError::invalid(path.child("observedGeneration"), generation, NON_NEGATIVE));
    }
    if status.str("qosClass") != before.str("qosClass") {
        let detail = super::super::field_rules::IMMUTABLE;
        errors.push(FieldError::invalid(path.child("qosClass"), status.str("qosClass"), detail));
    }
    let spec = old.at("spec");
    for (list, containers) in STATUS_LISTS {
        let restarts = |name: &str, code: i64| may_restart(spec, containers, name, code);
        transitions(&path.child(list), status.list(list), before.list(list), restarts, errors);
    }
    claim_statuses(&path.child("resourceClaimStatuses"), status, spec, errors);
    if let Some(claim) = status.at("extendedResourceClaimStatus") {
        extended_claim(&path.child("extendedResourceClaimStatus"), claim, spec, errors);
    }
    addresses(&path.child("podIPs"), status, before, "podIPs", "core.PodIP", errors);
    host_addresses(&path.child("hostIPs"), status, before, errors);
    for (list, _) in STATUS_LISTS {
        users(&path.child(list), status.list(list), spec.at("os").str("name"), errors);
    }
    for (list, containers) in STATUS_LISTS {
        allocated(&path.child(list), status.list(list), spec.list(containers), list, errors);
    }
}

fn conditions(path: &Path<'_>, conditions: &[Value], errors: &mut Vec<FieldError>) {
    for (index, condition) in conditions.iter().enumerate() {
        let at = path.index(index);
        if let Some(generation) = condition.int("observedGeneration").filter(|generation| *generation < 0) {
            errors.push(FieldError::invalid(at.child("observedGeneration"), generation, NON_NEGATIVE));
        }
        if !SYSTEM_CONDITIONS.contains(&condition.str("type")) {
            qualified(&at.child("Type"), condition.str("type"), errors);
        }
    }
}

fn nominated_node(
    path: &Path<'_>,
    status: &Value,
    before: &Value,
    spec: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    let name = status.str("nominatedNodeName");
    if name.is_empty() || name == before.str("nominatedNodeName") {
        return;
    }
    subdomain(path, name, errors);
    if !spec.str("nodeName").is_empty() {
        errors.push(FieldError::forbidden(path, "may not be set on pods that are already bound to a node"));
    }
}

/// Whether the container may run again after exiting with this code. Ephemeral containers may not.
fn may_restart(spec: Option<&Value>, list: &str, name: &str, code: i64) -> bool {
    if list == "ephemeralContainers" {
        return false;
    }
    let rules = |container: &Value| container.list("restartPolicyRules").to_vec();
    let all = spec.list("initContainers").iter().chain(spec.list("containers"));
    if all.flat_map(rules).any(|rule| rule.str("action") == "RestartAllContainers") {
        return true;
    }
    let Some(container) = spec.list(list).iter().find(|it| it.str("name") == name) else { return false };
    let by = |policy: &str| match policy {
        "OnFailure" => code != 0,
        "Never" => false,
        _ => true,
    };
    match container.at("restartPolicy").and_then(Value::as_str) {
        Some(_) if container.list("restartPolicyRules").iter().any(|rule| restarts_at(rule, code)) => true,
        Some(policy @ ("Always" | "OnFailure" | "Never")) => by(policy),
        _ => by(spec.str("restartPolicy")),
    }
}

/// Whether a restart rule applies to an exit code.
fn restarts_at(rule: &Value, code: i64) -> bool {
    let codes = rule.at("exitCodes");
    let listed = codes.list("values").iter().any(|value| value.as_i64() == Some(code));
    rule.str("action") == "Restart"
        && match codes.str("operator") {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
}

fn transitions(
    path: &Path<'_>,
    new: &[Value],
    old: &[Value],
    may_restart: impl Fn(&str, i64) -> bool,
    errors: &mut Vec<FieldError>,
) {
    for (index, before) in old.iter().enumerate() {
        let Some(terminated) = before.at("state").at("terminated") else { continue };
        let name = before.str("name");
        let running = new.iter().any(|it| it.str("name") == name && !it.at("state").has("terminated"));
        if running && !may_restart(name, terminated.int("exitCode").unwrap_or_default()) {
            errors.push(FieldError::forbidden(path.index(index).child("state"), TERMINATED));
        }
    }
}

fn claim_statuses(path: &Path<'_>, status: &Value, spec: Option<&Value>, errors: &mut Vec<FieldError>) {
    let statuses = status.list("resourceClaimStatuses");
    for (index, claim) in statuses.iter().enumerate() {
        let at = path.index(index);
        let name = claim.str("name");
        if !spec.list("resourceClaims").iter().any(|it| it.str("name") == name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(FieldError::invalid(at.child("name"), name, detail));
        }
        if statuses[..index].iter().any(|it| it.str("name") == name) {
            errors.push(FieldError::duplicate(at.child("name"), name));
        }
        if let Some(claim) = claim.at("resourceClaimName").and_then(Value::as_str) {
            subdomain(&at.child("resourceClaimName"), claim, errors);
        }
    }
}

fn extended_claim(path: &Path<'_>, claim: &Value, spec: Option<&Value>, errors: &mut Vec<FieldError>) {
    let list = path.child("requestMappings");
    let mappings = claim.list("requestMappings");
    if mappings.is_empty() {
        errors.push(FieldError::required(list, "at least one request mapping is required"));
    }
    for (index, mapping) in mappings.iter().enumerate() {
        let at = list.index(index);
        let (name, resource) = (mapping.str("containerName"), mapping.str("resourceName"));
        let mut containers = spec.list("containers").iter().chain(spec.list("initContainers"));
        match containers.find(|it| it.str("name") == name) {
            Some(container) if container.at("resources").at("requests").has(resource) => {}
            Some(_) => {
                let detail = "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.push(FieldError::invalid(at.child("resourceName"), resource, detail));
            }
            None => {
                let detail =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.push(FieldError::invalid(at.child("containerName"), name, detail));
            }
        }
        label(&path.child("requestName"), mapping.str("requestName"), errors);
        let fields = ["containerName", "resourceName", "requestName"];
        let same = |other: &Value| fields.iter().all(|field| other.str(field) == mapping.str(field));
        if mappings[..index].iter().any(same) {
            let repeated = fields.map(|field| FieldError::duplicate(at.child(field), mapping.str(field)));
            errors.extend(repeated);
        }
    }
    let at = path.child("resourceClaimName");
    match claim.str("resourceClaimName") {
        "" => errors.push(FieldError::required(at, "")),
        name => subdomain(&at, name, errors),
    }
}

/// Validates the addresses of a pod or its host: new addresses must be valid, and two must be of different families.
fn addresses(
    path: &Path<'_>,
    status: &Value,
    before: &Value,
    field: &str,
    kind: &str,
    errors: &mut Vec<FieldError>,
) {
    let list = status.list(field);
    for (index, address) in list.iter().enumerate() {
        let text = address.str("ip");
        if !before.list(field).iter().any(|it| it.str("ip") == text) {
            ip(&path.index(index), text, errors);
        }
    }
    if list.len() < 2 {
        return;
    }
    let parsed: Vec<Option<IpAddr>> = list.iter().map(|it| formats::parse_ip(it.str("ip"))).collect();
    if let Some(wrong) = parsed.iter().position(Option::is_none) {
        let address = list[wrong].str("ip");
        let detail = format!("failed to check for dual stack with error:invalid IP[{wrong}]: {address}");
        errors.push(FieldError::internal(path, detail));
    }
    let dual = parsed.iter().flatten().any(IpAddr::is_ipv4)
        && parsed.iter().flatten().any(IpAddr::is_ipv6)
        && parsed.iter().all(Option::is_some);
    if !dual || list.len() > 2 {
        let shown = internal_structs::bad_value(&format!("[{kind}"), status.at(field));
        errors.push(FieldError::invalid(path, shown, "may specify no more than one IP for each IP family"));
    }
}

fn host_addresses(path: &Path<'_>, status: &Value, before: &Value, errors: &mut Vec<FieldError>) {
    let Some(first) = status.list("hostIPs").first() else { return };
    if status.str("hostIP") != first.str("ip") {
        errors.push(FieldError::invalid(
            path.index(0).child("ip"),
            first.str("ip"),
            "must be equal to `hostIP`",
        ));
    }
    addresses(path, status, before, "hostIPs", "core.HostIP", errors);
}

fn users(path: &Path<'_>, statuses: &[Value], os: &str, errors: &mut Vec<FieldError>) {
    for (index, status) in statuses.iter().enumerate() {
        let Some(linux) = status.at("user").at("linux") else { continue };
        let at = path.index(index);
        let at = at.child("user");
        let at = at.child("linux");
        if os == "windows" {
            errors.push(FieldError::forbidden(at, "cannot be set for a windows pod"));
            continue;
        }
        let mut id = |at: &Path<'_>, number: i64| {
            if !(0..=i64::from(i32::MAX)).contains(&number) {
                let detail = names::inclusive_range(0, i64::from(i32::MAX));
                errors.push(FieldError::invalid(at, number, detail));
            }
        };
        for field in ["uid", "gid"] {
            id(&at.child(field), linux.int(field).unwrap_or_default());
        }
        let groups = at.child("supplementalGroups");
        for (index, group) in linux.list("supplementalGroups").iter().enumerate() {
            id(&groups.index(index), group.as_i64().unwrap_or_default());
        }
    }
}

fn allocated(
    path: &Path<'_>,
    statuses: &[Value],
    containers: &[Value],
    list: &str,
    errors: &mut Vec<FieldError>,
) {
    for (index, status) in statuses.iter().enumerate() {
        let at = path.index(index);
        let at = at.child("allocatedResourcesStatus");
        let resources = status.list("allocatedResourcesStatus");
        if list == "ephemeralContainerStatuses" {
            if !resources.is_empty() {
                errors.push(FieldError::forbidden(at, "must not be specified in container status"));
            }
            continue;
        }
        let container = containers.iter().find(|it| it.str("name") == status.str("name"));
        for (index, resource) in resources.iter().enumerate() {
            let at = at.index(index);
            if let Some(container) = container {
                allocated_name(&at.child("name"), resource.str("name"), container, errors);
            }
            health(&at.child("resources"), resource.list("resources"), errors);
        }
    }
}

fn allocated_name(path: &Path<'_>, name: &str, container: &Value, errors: &mut Vec<FieldError>) {
    let resources = container.at("resources");
    let detail = if name.starts_with("claim:") {
        let full = |claim: &Value| match claim.str("request") {
            "" => format!("claim:{}", claim.str("name")),
            request => format!("claim:{}/{request}", claim.str("name")),
        };
        if resources.list("claims").iter().any(|claim| full(claim) == name) {
            return;
        }
        "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
    } else {
        if resources.at("requests").has(name) {
            return;
        }
        "must match one of the container's resource requests"
    };
    named(path, name, vec![detail.to_owned()], errors);
}

fn health(path: &Path<'_>, resources: &[Value], errors: &mut Vec<FieldError>) {
    for (index, resource) in resources.iter().enumerate() {
        let at = path.index(index);
        supported(&at.child("health"), resource.str("health"), &HEALTH, errors);
        match resource.at("message").and_then(Value::as_str) {
            Some("") => {
                errors.push(FieldError::required(at.child("message"), "must be non-empty if specified"));
            }
            Some(text) if text.len() > HEALTH_MESSAGE_MAX => {
                errors.push(FieldError::too_long(at.child("message"), HEALTH_MESSAGE_MAX));
            }
            _ => {}
        }
        let id = resource.str("resourceID");
        if resources[..index].iter().any(|it| it.str("resourceID") == id) {
            errors.push(FieldError::duplicate(at.child("resourceID"), id));
        }
    }
}

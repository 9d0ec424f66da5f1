//! Pods and pod templates.

use evenkeel_scalars::go;

use super::container::{self, Pod};
use super::field_rules::{ip, label, named, qualified, subdomain, supported};
use super::{resources, scheduling, security, volume};
use crate::field::{BadValue, FieldError, Path};
use crate::json::{self, Value};
use crate::object_meta::{self, NameRule};
use crate::read::Read;
use crate::{names, selector};

const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_CHARACTERS_MAX: usize = 2048;
const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn create(pod: &Value) -> Vec<FieldError> {
    let mut errors = metadata_and_spec(pod, None);
    let spec = pod.at("spec");
    let path = Path::new("spec");
    if !spec.list("ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden(path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !spec.str("nodeName").is_empty() && !spec.list("schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(path.child("nodeName"), detail));
    }
    errors
}

fn metadata_and_spec(pod: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(pod, true, NameRule::Subdomain);
    deletion_cost(&Path::new("metadata.annotations"), pod.at("metadata"), &mut errors);
    let path = Path::new("spec");
    let name = pod.at("metadata").str("name");
    let value = pod.at("spec").unwrap_or(&Value::Null);
    spec(&path, value, old.at("spec"), name, true, &mut errors);
    let images = |list: &str, errors: &mut Vec<FieldError>| {
        let list_path = path.child(list);
        for (index, container) in value.list(list).iter().enumerate() {
            let image = container.str("image");
            if image.trim() != image {
                let at = list_path.index(index);
                let detail = "must not have leading or trailing whitespace";
                errors.push(FieldError::invalid(at.child("image"), image, detail));
            }
        }
    };
    images("containers", &mut errors);
    images("initContainers", &mut errors);
    errors
}

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Validates the annotation `controller.kubernetes.io/pod-deletion-cost`.
fn deletion_cost(path: &Path<'_>, meta: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(cost) = meta.at("annotations").at(DELETION_COST).and_then(Value::as_str) else { return };
    let well_formed = cost == "0" || (!cost.starts_with(['+', '0']) && !cost.starts_with("-0"));
    if !well_formed || cost.parse::<i32>().is_err() {
        errors.push(FieldError::invalid(path.key(DELETION_COST), cost, "must be a 32bit integer"));
    }
}

/// Validates an update through a subresource. Few fields of a pod can change.
pub(super) fn update(new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    let mut errors = object_meta::update_builtin(new, old);
    match subresource {
        "status" => return errors,
        "ephemeralcontainers" => {
            errors.extend(metadata_and_spec(new, Some(old)));
            ephemeral_update(new, old, &mut errors);
            return errors;
        }
        "resize" => {
            errors.extend(metadata_and_spec(new, Some(old)));
            return errors;
        }
        _ => {}
    }
    errors.extend(metadata_and_spec(new, Some(old)));
    let path = Path::new("spec");
    let (new, old) = (new.at("spec").unwrap_or(&Value::Null), old.at("spec").unwrap_or(&Value::Null));
    for list in ["containers", "initContainers"] {
        if new.list(list).len() != old.list(list).len() {
            let detail = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(path.child(list), detail));
            return errors;
        }
    }
    if !deadline(&path.child("activeDeadlineSeconds"), new, old, &mut errors) {
        return errors;
    }
    only_added_tolerations(&path.child("tolerations"), new, old, &mut errors);
    only_deleted_gates(&path.child("schedulingGates"), new, old, &mut errors);
    if changes_what_is_fixed(new, old) {
        let detail = format!("pod updates may not change fields other than {UPDATABLE}\n");
        errors.push(FieldError::forbidden(path, detail));
    }
    errors
}

/// Validates a change of the deadline. Returns whether validation goes on.
fn deadline(path: &Path<'_>, new: &Value, old: &Value, errors: &mut Vec<FieldError>) -> bool {
    let field = "activeDeadlineSeconds";
    match (new.int(field), old.int(field)) {
        (Some(value), _) if !(0..=i64::from(i32::MAX)).contains(&value) => {
            let detail = names::inclusive_range(0, i64::from(i32::MAX));
            errors.push(FieldError::invalid(path, value, detail));
            return false;
        }
        (Some(value), Some(before)) if before < value => {
            errors.push(FieldError::invalid(path, value, "must be less than or equal to previous value"));
            return false;
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(path, Value::Null, detail));
        }
        _ => {}
    }
    true
}

fn only_added_tolerations(path: &Path<'_>, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration.as_object_mut().map(|fields| fields.remove("tolerationSeconds"));
        toleration
    };
    let kept: Vec<Value> = new.list("tolerations").iter().map(without_seconds).collect();
    if old.list("tolerations").iter().any(|toleration| !kept.contains(&without_seconds(toleration))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden(path, detail));
        return;
    }
    scheduling::tolerations(path, new.list("tolerations"), errors);
}

fn only_deleted_gates(path: &Path<'_>, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let before: Vec<&str> = old.list("schedulingGates").iter().map(|gate| gate.str("name")).collect();
    for (index, gate) in new.list("schedulingGates").iter().enumerate() {
        let name = gate.str("name");
        if !before.contains(&name) {
            let at = path.index(index);
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(FieldError::forbidden(at.child("name"), detail));
        }
    }
}

/// Whether a spec differs from the old one in fields that cannot change.
fn changes_what_is_fixed(new: &Value, old: &Value) -> bool {
    let gated = !old.list("schedulingGates").is_empty();
    let grace = old.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0)
        && new.int("terminationGracePeriodSeconds") == Some(1);
    let may_change = |field: &str| match field {
        "activeDeadlineSeconds" | "schedulingGates" | "tolerations" => true,
        "nodeSelector" | "affinity" => gated,
        "terminationGracePeriodSeconds" => grace,
        _ => false,
    };
    let same_container = |new: &Value, old: &Value| match (new.as_object(), old.as_object()) {
        (Some(new), Some(old)) => {
            json::same_but(new, old, |field| field == "image", |_, new, old| new == old)
        }
        _ => new == old,
    };
    let same = |field: &str, new: &Value, old: &Value| match (field, new, old) {
        ("containers" | "initContainers", Value::Array(new), Value::Array(old)) => {
            new.len() == old.len() && new.iter().zip(old).all(|(new, old)| same_container(new, old))
        }
        _ => new == old,
    };
    match (new.as_object(), old.as_object()) {
        (Some(new), Some(old)) => !json::same_but(new, old, may_change, same),
        _ => new != old,
    }
}

fn ephemeral_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let path = path.child("ephemeralContainers");
    let kept = new.at("spec").list("ephemeralContainers");
    for container in old.at("spec").list("ephemeralContainers") {
        let name = go::quote(container.str("name"));
        match kept.iter().find(|kept| kept.str("name") == container.str("name")) {
            None => {
                let detail = format!("existing ephemeral containers {name} may not be removed\n");
                errors.push(FieldError::forbidden(path, detail));
            }
            Some(kept) if kept != container => {
                let detail = format!("existing ephemeral containers {name} may not be changed\n");
                errors.push(FieldError::forbidden(path, detail));
            }
            Some(_) => {}
        }
    }
}

/// Validates a pod template at `path`.
pub(super) fn template(path: &Path<'_>, template: &Value, errors: &mut Vec<FieldError>) {
    let meta = template.at("metadata").unwrap_or(&Value::Null);
    selector::validate_labels(&path.child("labels"), meta.at("labels").unwrap_or(&Value::Null), errors);
    object_meta::annotations(&path.child("annotations"), meta, errors);
    deletion_cost(&path.child("annotations"), Some(meta), errors);
    let value = template.at("spec").unwrap_or(&Value::Null);
    let path = path.child("spec");
    spec(&path, value, None, "", false, errors);
    if !value.list("ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(path.child("ephemeralContainers"), detail));
    }
}

/// The fields of the pod spec that the rules for containers depend on.
const SEEN_BY_CONTAINERS: [&str; 4] =
    ["volumes", "resourceClaims", "terminationGracePeriodSeconds", "hostUsers"];

/// Validates the spec of a pod (`is_pod`) or of a template; `old` is the stored spec.
fn spec(
    path: &Path<'_>,
    spec: &Value,
    old: Option<&Value>,
    name: &str,
    is_pod: bool,
    errors: &mut Vec<FieldError>,
) {
    let volumes = volume::volumes(&path.child("volumes"), spec.list("volumes"), name, errors);
    let pod = Pod {
        old: old.filter(|old| SEEN_BY_CONTAINERS.iter().all(|field| old.get(*field) == spec.get(*field))),
        volumes,
        claims: spec.list("resourceClaims").iter().map(|claim| claim.str("name")).collect(),
        grace_period: spec.int("terminationGracePeriodSeconds"),
        host_users: spec.at("hostUsers") != Some(&Value::Bool(false)),
    };
    container::containers(&path.child("containers"), spec, &pod, errors);
    container::init_containers(&path.child("initContainers"), spec, &pod, errors);
    container::ephemeral_containers(&path.child("ephemeralContainers"), spec, &pod, errors);
    resources::requirements(&path.child("resources"), spec.at("resources"), &pod.claims, errors);
    host_network(&path.child("containers"), spec, is_pod, errors);
    super::field_rules::one_of(
        &path.child("restartPolicy"),
        spec.str("restartPolicy"),
        &["Always", "OnFailure", "Never"],
        errors,
    );
    match spec.str("dnsPolicy") {
        "" => errors.push(FieldError::required(path.child("dnsPolicy"), "")),
        policy if DNS_POLICIES.contains(&policy) => {}
        policy => {
            let printed = BadValue::Printed(Value::from(policy).to_string());
            errors.push(FieldError::not_supported(path.child("dnsPolicy"), printed, &DNS_POLICIES));
        }
    }
    let selected = spec.at("nodeSelector").unwrap_or(&Value::Null);
    selector::validate_labels(&path.child("nodeSelector"), selected, errors);
    security::pod(&path.child("securityContext"), spec, errors);
    scheduling::affinity(&path.child("affinity"), spec.at("affinity"), errors);
    dns_config(&path.child("dnsConfig"), spec, errors);
    let gates = path.child("readinessGates");
    for (index, gate) in spec.list("readinessGates").iter().enumerate() {
        let at = gates.index(index);
        qualified(&at.child("conditionType"), gate.str("conditionType"), errors);
    }
    scheduling::gates(&path.child("schedulingGates"), spec.list("schedulingGates"), errors);
    scheduling::spread(
        &path.child("topologySpreadConstraints"),
        spec.list("topologySpreadConstraints"),
        errors,
    );
    names_of(path, spec, errors);
    scheduling::tolerations(&path.child("tolerations"), spec.list("tolerations"), errors);
    rest(path, spec, errors);
}

fn host_network(path: &Path<'_>, spec: &Value, is_pod: bool, errors: &mut Vec<FieldError>) {
    if !spec.bool("hostNetwork") {
        return;
    }
    for (index, container) in spec.list("containers").iter().enumerate() {
        let path = path.index(index);
        let ports = path.child("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let (host, own) =
                (port.int("hostPort").unwrap_or_default(), port.int("containerPort").unwrap_or_default());
            if (is_pod || host != 0) && host != own {
                let at = ports.index(index);
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(at.child("hostPort"), host, detail));
            }
        }
    }
}

fn dns_config(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let config = spec.at("dnsConfig");
    if spec.str("dnsPolicy") == "None" {
        if config.is_none() {
            errors.push(FieldError::required(path, "must provide `dnsConfig` when `dnsPolicy` is None"));
            return;
        }
        if config.list("nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.push(FieldError::required(path.child("nameservers"), detail));
            return;
        }
    }
    let Some(config) = config else { return };
    let (servers, searches) = (config.strs("nameservers"), config.strs("searches"));
    let (servers_path, searches_path) = (path.child("nameservers"), path.child("searches"));
    if servers.len() > NAMESERVERS_MAX {
        let detail = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.push(FieldError::invalid(servers_path, Value::from(servers.clone()), detail));
    }
    for (index, server) in servers.iter().enumerate() {
        ip(&servers_path.index(index), server, errors);
    }
    if searches.len() > SEARCHES_MAX {
        let detail = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.push(FieldError::invalid(searches_path, Value::from(searches.clone()), detail));
    }
    if searches.join(" ").len() > SEARCH_CHARACTERS_MAX {
        let detail = format!(
            "must not have more than {SEARCH_CHARACTERS_MAX} characters (including spaces) in the search list"
        );
        errors.push(FieldError::invalid(searches_path, Value::from(searches.clone()), detail));
    }
    for (index, search) in searches.into_iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        named(&searches_path.index(index), search, names::dns1123_subdomain_with_underscore(search), errors);
    }
    let options = path.child("options");
    for (index, option) in config.list("options").iter().enumerate() {
        if option.str("name").is_empty() {
            errors.push(FieldError::required(options.index(index), "must not be empty"));
        }
    }
}

fn names_of(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    for field in ["serviceAccountName", "nodeName"] {
        let text = spec.str(field);
        if !text.is_empty() {
            subdomain(&path.child(field), text, errors);
        }
    }
    if let Some(value) =
        spec.int("activeDeadlineSeconds").filter(|value| !(1..=i64::from(i32::MAX)).contains(value))
    {
        let detail = names::inclusive_range(1, i64::from(i32::MAX));
        errors.push(FieldError::invalid(path.child("activeDeadlineSeconds"), value, detail));
    }
    for field in ["hostname", "subdomain"] {
        let text = spec.str(field);
        if !text.is_empty() {
            label(&path.child(field), text, errors);
        }
    }
}

fn rest(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let aliases = path.child("hostAliases");
    for (index, alias) in spec.list("hostAliases").iter().enumerate() {
        let path = aliases.index(index);
        ip(&path.child("ip"), alias.str("ip"), errors);
        let hostnames = path.child("hostnames");
        for (index, hostname) in alias.strs("hostnames").into_iter().enumerate() {
            subdomain(&hostnames.index(index), hostname, errors);
        }
    }
    for field in ["priorityClassName", "runtimeClassName"] {
        let text = spec.str(field);
        if !text.is_empty() {
            subdomain(&path.child(field), text, errors);
        }
    }
    if let Some(policy) = spec.at("preemptionPolicy").and_then(Value::as_str)
        && !matches!(policy, "PreemptLowerPriority" | "Never")
    {
        let printed = BadValue::Printed(Value::from(policy).to_string());
        let at = path.child("preemptionPolicy");
        errors.push(FieldError::not_supported(at, printed, &["PreemptLowerPriority", "Never"]));
    }
    if let Some(os) = spec.at("os") {
        match os.str("name") {
            "" => errors.push(FieldError::required(path.child("os.name"), "cannot be empty")),
            name => supported(&path.child("os"), name, &["linux", "windows"], errors),
        }
    }
}

//! Pods and pod templates.

mod pod_level;
mod resize;
mod status;
mod system;
mod update;

use super::container::{self, Pod};
use super::field_rules::{ip, label, named, one_of, qualified, subdomain, supported};
use super::{resources, scheduling, security, volume};
use crate::deletion_cost;
use crate::field::{BadValue, FieldError, Path};
use crate::internal_structs;
use crate::json::Value;
use crate::object_meta::{self, NameRule};
use crate::read::Read;
use crate::{names, selector};

const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
/// The longest host name that Linux supports.
const HOSTNAME_MAX: usize = 64;
const SEARCH_CHARACTERS_MAX: usize = 2048;

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

/// Validates the annotation `controller.kubernetes.io/pod-deletion-cost`.
fn deletion_cost(path: &Path<'_>, meta: Option<&Value>, errors: &mut Vec<FieldError>) {
    let cost = meta.at("annotations").at(deletion_cost::ANNOTATION).and_then(Value::as_str);
    if let Some(cost) = cost.filter(|cost| deletion_cost::parse(cost).is_none()) {
        errors.push(FieldError::invalid(
            path.key(deletion_cost::ANNOTATION),
            cost,
            "must be a 32bit integer",
        ));
    }
}

/// Validates an update through a subresource. Few fields of a pod can change.
pub(super) fn update(new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    let mut errors = object_meta::update_builtin(new, old);
    if subresource == "status" {
        update::annotations(new, old, &mut errors);
        status::update(new, old, &mut errors);
        return errors;
    }
    errors.extend(metadata_and_spec(new, Some(old)));
    if subresource == "resize" {
        return resize::update(new, old, errors);
    }
    update::annotations(new, old, &mut errors);
    match subresource {
        "ephemeralcontainers" => {
            if old.at("metadata").at("annotations").has(update::MIRROR) {
                return vec![FieldError::forbidden("[]", "static pods do not support ephemeral containers")];
            }
            update::ephemeral_containers(new, old, &mut errors);
        }
        _ => {
            let null = &Value::Null;
            let (spec, before) = (new.at("spec").unwrap_or(null), old.at("spec").unwrap_or(null));
            update::spec(spec, before, &mut errors);
        }
    }
    errors
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
    resource_claims(&path.child("resourceClaims"), spec.list("resourceClaims"), errors);
    let pod = Pod {
        old: old.filter(|old| SEEN_BY_CONTAINERS.iter().all(|field| old.get(*field) == spec.get(*field))),
        volumes,
        claims: spec.list("resourceClaims").iter().map(|claim| claim.str("name")).collect(),
        grace_period: spec.int("terminationGracePeriodSeconds"),
        host_users: spec.at("hostUsers") != Some(&Value::Bool(false)),
        never_restarts: spec.str("restartPolicy") == "Never",
    };
    container::containers(&path.child("containers"), spec, &pod, errors);
    container::init_containers(&path.child("initContainers"), spec, &pod, errors);
    container::ephemeral_containers(&path.child("ephemeralContainers"), spec, &pod, errors);
    pod_level::check(path, spec, &pod.claims, errors);
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
    security::pod(&path.child("securityContext"), spec, old, errors);
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
    system::host_process(path, spec, errors);
    system::host_users(path, spec, errors);
    names_of(path, spec, errors);
    hostname_override(&path.child("hostnameOverride"), spec, errors);
    scheduling::tolerations(&path.child("tolerations"), spec.list("tolerations"), errors);
    rest(path, spec, errors);
    system::operating_system(path, spec, errors);
    system::file_variables(path, spec, errors);
}

/// Validates the name that a pod has for itself, whatever its own name is.
fn hostname_override(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(name) = spec.at("hostnameOverride").and_then(Value::as_str) else { return };
    if spec.bool("setHostnameAsFQDN") {
        let detail = "may not be specified when setHostnameAsFQDN is true";
        errors.push(FieldError::invalid(path, name, detail));
    }
    if spec.bool("hostNetwork") {
        errors.push(FieldError::invalid(path, name, "may not be specified when hostNetwork is true"));
    }
    if name.len() > HOSTNAME_MAX {
        errors.push(FieldError::too_long(path, HOSTNAME_MAX));
    }
    subdomain(path, name, errors);
}

/// Validates the resource claims of a pod, each of which names a claim or a template.
fn resource_claims(path: &Path<'_>, claims: &[Value], errors: &mut Vec<FieldError>) {
    for (index, claim) in claims.iter().enumerate() {
        let at = path.index(index);
        let name = claim.str("name");
        if name.is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        } else if claims[..index].iter().any(|it| it.str("name") == name) {
            errors.push(FieldError::duplicate(at.child("name"), name));
        } else {
            label(&at.child("name"), name, errors);
        }
        let fields = ["resourceClaimName", "resourceClaimTemplateName"];
        let detail = match fields.iter().filter(|field| claim.has(field)).count() {
            0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            1 => None,
            _ => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
        };
        if let Some(detail) = detail {
            let shown = internal_structs::bad_value("core.PodResourceClaim", Some(claim));
            errors.push(FieldError::invalid(at, shown, detail));
        }
        for field in fields {
            if let Some(name) = claim.at(field).and_then(Value::as_str) {
                subdomain(&at.child(field), name, errors);
            }
        }
    }
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
    let class = spec.str("priorityClassName");
    if !class.is_empty() {
        subdomain(&path.child("priorityClassName"), class, errors);
    }
    if let Some(class) = spec.at("runtimeClassName").and_then(Value::as_str) {
        subdomain(&path.child("runtimeClassName"), class, errors);
    }
    if let Some(policy) = spec.at("preemptionPolicy").and_then(Value::as_str) {
        one_of(&path.child("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"], errors);
    }
    let overhead = crate::json::json!({"limits": spec.at("overhead")});
    resources::requirements(&path.child("overhead"), spec.at("overhead").map(|_| &overhead), &[], errors);
    if let Some(os) = spec.at("os") {
        match os.str("name") {
            "" => errors.push(FieldError::required(path.child("os.name"), "")),
            name => supported(&path.child("os"), name, &["linux", "windows"], errors),
        }
    }
}

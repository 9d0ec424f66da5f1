//! The containers of a pod.

mod env;
mod mounts;
mod probes;

pub(super) use env::{VOLUME_FIELDS, field_ref, resource_field_ref};

use env::{env, env_from};
use mounts::{devices, mounts};
use probes::probes_and_hooks;

use super::field_rules::{Seen, label, named, one_of, port, supported};
use super::{resources, security};
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::read::Read;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
/// The fields that an ephemeral container must not set, in the order of Kubernetes' struct.
const EPHEMERAL_FORBIDDEN: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// The parts of a pod that the rules for its containers need.
pub(super) struct Pod<'a> {
    /// The stored spec, if the parts of it that containers depend on are unchanged.
    pub(super) old: Option<&'a Value>,
    pub(super) volumes: Vec<(&'a str, &'a Value)>,
    pub(super) claims: Vec<&'a str>,
    pub(super) grace_period: Option<i64>,
    pub(super) host_users: bool,
    /// Whether the restart policy of the pod is `Never`.
    pub(super) never_restarts: bool,
}

impl Pod<'_> {
    /// Whether a container is equal to the stored one. Then it was validated before, and comparing is far cheaper.
    fn has_stored(&self, list: &str, index: usize, container: &Value) -> bool {
        self.old.is_some_and(|old| old.list(list).get(index) == Some(container))
    }
}

/// Validates `spec.containers`.
pub(super) fn containers(path: &Path<'_>, spec: &Value, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    let containers = spec.list("containers");
    if containers.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let mut seen = Seen::default();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        let stored = pod.has_stored("containers", index, container);
        if !stored {
            common(&path, container, pod, errors);
        }
        let name = container.str("name");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(path.child("name"), name));
        }
        if !stored {
            probes_and_hooks(&path, container, pod, errors);
            restart_policy(&path, container, errors);
        }
    }
    host_ports(path, containers, errors);
}

/// Validates `spec.initContainers`.
pub(super) fn init_containers(path: &Path<'_>, spec: &Value, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = Seen::default();
    for container in spec.list("containers") {
        seen.insert(container.str("name"));
    }
    for (index, container) in spec.list("initContainers").iter().enumerate() {
        let at = path.index(index);
        common(&at, container, pod, errors);
        restart_policy(&at, container, errors);
        let name = container.str("name");
        if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(at.child("name"), name));
        }
        host_ports(path, std::slice::from_ref(container), errors);
        if container.str("restartPolicy") == "Always" {
            probes_and_hooks(&at, container, pod, errors);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.has(field) {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(at.child(field), detail));
            }
        }
    }
}

/// Validates `spec.ephemeralContainers`.
pub(super) fn ephemeral_containers(
    path: &Path<'_>,
    spec: &Value,
    pod: &Pod<'_>,
    errors: &mut Vec<FieldError>,
) {
    let mut seen = Seen::default();
    for container in spec.list("containers").iter().chain(spec.list("initContainers")) {
        seen.insert(container.str("name"));
    }
    let others: Vec<&str> =
        spec.list("containers").iter().chain(spec.list("initContainers")).map(|c| c.str("name")).collect();
    for (index, container) in spec.list("ephemeralContainers").iter().enumerate() {
        let path = path.index(index);
        common(&path, container, pod, errors);
        let name = container.str("name");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(path.child("name"), name));
        }
        let target = container.str("targetContainerName");
        if !target.is_empty() && !others.contains(&target) {
            errors.push(FieldError::not_found(path.child("targetContainerName"), target));
        }
        let detail = "cannot be set for an Ephemeral Container";
        // An empty `resources` is a default, and does not count as set.
        let is_set = |field: &str| {
            container.at(field).is_some_and(|value| value.as_object().is_none_or(|fields| !fields.is_empty()))
        };
        for field in EPHEMERAL_FORBIDDEN.into_iter().filter(|field| is_set(field)) {
            errors.push(FieldError::forbidden(path.child(field), detail));
        }
        let mounts = path.child("volumeMounts");
        for (index, mount) in container.list("volumeMounts").iter().enumerate() {
            let at = mounts.index(index);
            for field in ["subPath", "subPathExpr"] {
                if !mount.str(field).is_empty() {
                    errors.push(FieldError::forbidden(at.child(field), detail));
                }
            }
        }
    }
}

fn restart_policy(path: &Path<'_>, container: &Value, errors: &mut Vec<FieldError>) {
    let rules = container.list("restartPolicyRules");
    match container.at("restartPolicy").and_then(Value::as_str) {
        None if !rules.is_empty() => {
            let detail = "must specify restartPolicy when restart rules are used";
            errors.push(FieldError::required(path.child("restartPolicy"), detail));
        }
        None => {}
        Some(policy) => {
            supported(&path.child("restartPolicy"), policy, &["Always", "Never", "OnFailure"], errors);
        }
    }
    let list = path.child("restartPolicyRules");
    if rules.len() > RESTART_RULES_MAX {
        errors.push(FieldError::too_many(list, rules.len(), RESTART_RULES_MAX));
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = list.index(index);
        supported(&at.child("action"), rule.str("action"), &["Restart", "RestartAllContainers"], errors);
        let place = at.child("exitCodes");
        let Some(codes) = rule.at("exitCodes") else {
            errors.push(FieldError::required(place, "must be specified"));
            continue;
        };
        supported(&place.child("operator"), codes.str("operator"), &["In", "NotIn"], errors);
        let count = codes.list("values").len();
        if count > EXIT_CODES_MAX {
            errors.push(FieldError::too_many(place.child("values"), count, EXIT_CODES_MAX));
        }
    }
}

const RESTART_RULES_MAX: usize = 20;
/// The most exit codes in one rule: all codes except 0.
const EXIT_CODES_MAX: usize = 255;

fn common(path: &Path<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    match container.str("name") {
        "" => errors.push(FieldError::required(path.child("name"), "")),
        name => label(&path.child("name"), name, errors),
    }
    if container.str("image").is_empty() {
        errors.push(FieldError::required(path.child("image"), ""));
    }
    let policy = container.str("terminationMessagePolicy");
    one_of(&path.child("terminationMessagePolicy"), policy, &["File", "FallbackToLogsOnError"], errors);
    ports(&path.child("ports"), container.list("ports"), errors);
    env(&path.child("env"), container.list("env"), errors);
    env_from(&path.child("envFrom"), container.list("envFrom"), errors);
    mounts(&path.child("volumeMounts"), container, pod, errors);
    devices(&path.child("volumeDevices"), container, pod, errors);
    let policy = container.str("imagePullPolicy");
    one_of(&path.child("imagePullPolicy"), policy, &["Always", "IfNotPresent", "Never"], errors);
    resources::requirements(&path.child("resources"), container.at("resources"), &pod.claims, errors);
    resize_policy(&path.child("resizePolicy"), container.list("resizePolicy"), pod.never_restarts, errors);
    let context = container.at("securityContext");
    security::container(&path.child("securityContext"), context, pod.host_users, errors);
}

fn resize_policy(path: &Path<'_>, policies: &[Value], never: bool, errors: &mut Vec<FieldError>) {
    let mut seen = Seen::default();
    for (index, policy) in policies.iter().enumerate() {
        let name = policy.str("resourceName");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(path.index(index), name));
        }
        one_of(path, name, &["cpu", "memory"], errors);
        let restart = policy.str("restartPolicy");
        one_of(path, restart, &["NotRequired", "RestartContainer"], errors);
        if never && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid(path, restart, detail));
        }
    }
}

fn ports(path: &Path<'_>, ports: &[Value], errors: &mut Vec<FieldError>) {
    let mut seen = Seen::default();
    for (index, value) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = value.str("name");
        if !name.is_empty() {
            let wrong = names::port_name(name);
            if wrong.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(path.child("name"), name));
            }
            named(&path.child("name"), name, wrong, errors);
        }
        match value.int("containerPort").unwrap_or_default() {
            0 => errors.push(FieldError::required(path.child("containerPort"), "")),
            number => port(&path.child("containerPort"), number, errors),
        }
        if let Some(number) = value.int("hostPort").filter(|number| *number != 0) {
            port(&path.child("hostPort"), number, errors);
        }
        one_of(&path.child("protocol"), value.str("protocol"), &PROTOCOLS, errors);
    }
}

fn host_ports(path: &Path<'_>, containers: &[Value], errors: &mut Vec<FieldError>) {
    let mut seen: Vec<String> = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let container_path = path.index(index);
        let ports = container_path.child("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let Some(number) = port.int("hostPort").filter(|number| *number != 0) else { continue };
            let key = format!("{}/{}/{number}", port.str("protocol"), port.str("hostIP"));
            if seen.contains(&key) {
                let at = ports.index(index);
                errors.push(FieldError::duplicate(at.child("hostPort"), key));
            } else {
                seen.push(key);
            }
        }
    }
}

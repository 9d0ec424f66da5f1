//! Containers of a pod: ports, environment, mounts, probes and hooks.

use super::field_rules::{
    Seen, label, local_path, named, no_backsteps, non_negative, one_of, port, port_or_name, supported,
};
use super::{resources, security};
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::read::Read;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The fields that a downward API volume may show.
pub(super) const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const RESOURCE_FIELDS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
/// The fields that an ephemeral container may set.
const EPHEMERAL_FIELDS: [&str; 17] = [
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "env",
    "envFrom",
    "volumeMounts",
    "volumeDevices",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
    "targetContainerName",
];

/// The parts of a pod that the rules for its containers need.
pub(super) struct Pod<'a> {
    /// The stored spec, if the parts of it that containers depend on are unchanged.
    pub(super) old: Option<&'a Value>,
    pub(super) volumes: Vec<(&'a str, &'a Value)>,
    pub(super) claims: Vec<&'a str>,
    pub(super) grace_period: Option<i64>,
    pub(super) host_users: bool,
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
        for (field, value) in container.as_object().into_iter().flatten() {
            let empty = value.as_object().is_some_and(|fields| fields.is_empty());
            if !EPHEMERAL_FIELDS.contains(&field.as_str()) && !empty {
                let detail = "cannot be set for an Ephemeral Container";
                errors.push(FieldError::forbidden(path.child(field), detail));
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
}

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
    resize_policy(&path.child("resizePolicy"), container.list("resizePolicy"), errors);
    let context = container.at("securityContext");
    security::container(&path.child("securityContext"), context, pod.host_users, errors);
}

fn resize_policy(path: &Path<'_>, policies: &[Value], errors: &mut Vec<FieldError>) {
    let mut seen = Seen::default();
    for (index, policy) in policies.iter().enumerate() {
        let name = policy.str("resourceName");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(path.index(index), name));
        }
        one_of(path, name, &["cpu", "memory"], errors);
        one_of(path, policy.str("restartPolicy"), &["NotRequired", "RestartContainer"], errors);
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

fn env(path: &Path<'_>, vars: &[Value], errors: &mut Vec<FieldError>) {
    for (index, var) in vars.iter().enumerate() {
        let path = path.index(index);
        match var.str("name") {
            "" => errors.push(FieldError::required(path.child("name"), "")),
            name => named(&path.child("name"), name, names::env_var_name(name), errors),
        }
        if let Some(source) = var.at("valueFrom") {
            env_source(&path.child("valueFrom"), var, source, errors);
        }
    }
}

fn env_source(path: &Path<'_>, var: &Value, source: &Value, errors: &mut Vec<FieldError>) {
    let mut sources = 0;
    for name in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let Some(reference) = source.at(name) else { continue };
        sources += 1;
        let path = path.child(name);
        match name {
            "fieldRef" => field_ref(&path, reference, &ENV_FIELDS, errors),
            "resourceFieldRef" => resource_field_ref(&path, reference, false, errors),
            "fileKeyRef" => file_key_ref(&path, reference, errors),
            _ => key_ref(&path, reference, errors),
        }
    }
    let detail = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !var.str("value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(path, "", detail));
}

fn key_ref(path: &Path<'_>, reference: &Value, errors: &mut Vec<FieldError>) {
    let name = reference.str("name");
    named(&path.child("name"), name, names::dns1123_subdomain(name), errors);
    match reference.str("key") {
        "" => errors.push(FieldError::required(path.child("key"), "")),
        key => named(&path.child("key"), key, names::config_map_key(key), errors),
    }
}

fn file_key_ref(path: &Path<'_>, reference: &Value, errors: &mut Vec<FieldError>) {
    match reference.str("key") {
        "" => errors.push(FieldError::required(path.child("key"), "")),
        key => named(&path.child("key"), key, names::env_var_name(key), errors),
    }
    match reference.str("volumeName") {
        "" => errors.push(FieldError::required(path.child("volumeName"), "")),
        name => label(&path.child("volumeName"), name, errors),
    }
    match reference.str("path") {
        "" => errors.push(FieldError::required(path.child("path"), "")),
        text => no_backsteps(&path.child("path"), text, errors),
    }
}

/// Validates a `fieldRef`.
pub(super) fn field_ref(path: &Path<'_>, reference: &Value, fields: &[&str], errors: &mut Vec<FieldError>) {
    for field in ["apiVersion", "fieldPath"] {
        if reference.str(field).is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
            return;
        }
    }
    let text = reference.str("fieldPath");
    let subscript = text.strip_suffix("']").and_then(|text| text.split_once("['"));
    if let Some((base, key)) = subscript {
        match base {
            "metadata.annotations" => {
                named(path, &key.to_lowercase(), names::qualified_name(&key.to_lowercase()), errors)
            }
            "metadata.labels" => named(path, key, names::qualified_name(key), errors),
            base => errors.push(FieldError::invalid(path, base, "does not support subscript")),
        }
        return;
    }
    let known = ENV_FIELDS.contains(&text) || VOLUME_FIELDS.contains(&text) || text == "spec.restartPolicy";
    if !known {
        let detail = format!("error converting fieldPath: field label not supported: {text}");
        errors.push(FieldError::invalid(path.child("fieldPath"), text, detail));
    } else {
        supported(&path.child("fieldPath"), text, fields, errors);
    }
}

/// Validates a `resourceFieldRef` of an environment variable or a volume.
pub(super) fn resource_field_ref(
    path: &Path<'_>,
    reference: &Value,
    volume: bool,
    errors: &mut Vec<FieldError>,
) {
    let resource = reference.str("resource");
    let huge = resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if volume && reference.str("containerName").is_empty() {
        errors.push(FieldError::required(path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(path.child("resource"), ""));
    } else if !huge {
        supported(&path.child("resource"), resource, &RESOURCE_FIELDS, errors);
    }
    divisor(path, resource, reference.str("divisor"), huge, errors);
}

fn divisor(path: &Path<'_>, resource: &str, divisor: &str, huge: bool, errors: &mut Vec<FieldError>) {
    const SIZES: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    if matches!(divisor, "" | "0") {
        return;
    }
    let is_size = SIZES.split(", ").any(|size| size == divisor);
    let detail = match resource {
        "limits.cpu" | "requests.cpu" if !matches!(divisor, "1m" | "1") => {
            "only divisor's values 1m and 1 are supported with the cpu resource".to_owned()
        }
        "limits.memory" | "requests.memory" if !is_size => {
            format!("only divisor's values {SIZES} are supported with the memory resource")
        }
        "limits.ephemeral-storage" | "requests.ephemeral-storage" if !is_size => {
            format!("only divisor's values {SIZES} are supported with the local ephemeral storage resource")
        }
        _ if huge && !is_size => {
            format!("only divisor's values {SIZES} are supported with the hugepages resource")
        }
        _ => return,
    };
    errors.push(FieldError::invalid(path.child("divisor"), resource, detail));
}

fn env_from(path: &Path<'_>, sources: &[Value], errors: &mut Vec<FieldError>) {
    for (index, source) in sources.iter().enumerate() {
        let at = path.index(index);
        let prefix = source.str("prefix");
        if !prefix.is_empty() {
            named(&at.child("prefix"), prefix, names::env_var_name(prefix), errors);
        }
        let mut count = 0;
        for name in ["configMapRef", "secretRef"] {
            let Some(reference) = source.at(name) else { continue };
            count += 1;
            let at = at.child(name);
            match reference.str("name") {
                "" => errors.push(FieldError::required(at.child("name"), "")),
                name => {
                    let wrong = names::dns1123_subdomain(&names::mask_trailing_dash(name));
                    named(&at.child("name"), name, wrong, errors);
                }
            }
        }
        let detail = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(path, "", detail));
    }
}

fn mounts(path: &Path<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    let devices = container.list("volumeDevices");
    let mut seen = Seen::default();
    for (index, mount) in container.list("volumeMounts").iter().enumerate() {
        let at = path.index(index);
        let (name, mount_path) = (mount.str("name"), mount.str("mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        }
        if !pod.volumes.iter().any(|(volume, _)| *volume == name) {
            errors.push(FieldError::not_found(at.child("name"), name));
        }
        if mount_path.is_empty() {
            errors.push(FieldError::required(at.child("mountPath"), ""));
        }
        if !seen.insert(mount_path) {
            errors.push(FieldError::invalid(at.child("mountPath"), mount_path, "must be unique"));
        }
        if devices.iter().any(|device| device.str("name") == name) {
            errors.push(FieldError::invalid(
                at.child("name"),
                name,
                "must not already exist in volumeDevices",
            ));
        }
        if devices.iter().any(|device| device.str("devicePath") == mount_path) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(at.child("mountPath"), mount_path, detail));
        }
        sub_paths(path, &at, mount, errors);
        propagation(path, container, mount, errors);
    }
}

/// Validates the sub-paths of a mount. Kubernetes' errors have the path of the list, not of the item.
fn sub_paths(list: &Path<'_>, at: &Path<'_>, mount: &Value, errors: &mut Vec<FieldError>) {
    let (sub_path, expression) = (mount.str("subPath"), mount.str("subPathExpr"));
    if !sub_path.is_empty() {
        local_path(&list.child("subPath"), sub_path, errors);
    }
    if !expression.is_empty() {
        if !sub_path.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid(at.child("subPathExpr"), expression, detail));
        }
        local_path(&list.child("subPathExpr"), expression, errors);
    }
}

fn propagation(list: &Path<'_>, container: &Value, mount: &Value, errors: &mut Vec<FieldError>) {
    let path = list.child("mountPropagation");
    let mode = mount.at("mountPropagation").and_then(Value::as_str);
    if let Some(mode) = mode {
        supported(&path, mode, &["Bidirectional", "HostToContainer", "None"], errors);
        if mode == "Bidirectional" && !container.at("securityContext").bool("privileged") {
            let detail = "Bidirectional mount propagation is available only to privileged containers";
            errors.push(FieldError::forbidden(path, detail));
        }
    }
    let path = list.child("recursiveReadOnly");
    match mount.at("recursiveReadOnly").and_then(Value::as_str) {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.bool("readOnly") {
                errors.push(FieldError::forbidden(path, "may only be specified when readOnly is true"));
            }
            if mode.is_some_and(|mode| mode != "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(path, detail));
            }
        }
        Some(other) => {
            errors.push(FieldError::not_supported(path, other, &["Disabled", "Enabled", "IfPossible"]))
        }
    }
}

fn devices(path: &Path<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    let (mut names_seen, mut paths_seen) = (Seen::default(), Seen::default());
    let mounts = container.list("volumeMounts");
    for (index, device) in container.list("volumeDevices").iter().enumerate() {
        let at = path.index(index);
        let (name, device_path) = (device.str("name"), device.str("devicePath"));
        let (name_at, path_at) = (at.child("name"), at.child("devicePath"));
        let volume = pod.volumes.iter().find(|(volume, _)| *volume == name);
        if name.is_empty() {
            errors.push(FieldError::required(name_at, ""));
        } else if !names_seen.insert(name) {
            errors.push(FieldError::invalid(name_at, name, "must be unique"));
        }
        match volume {
            Some((_, volume)) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(FieldError::invalid(name_at, name, detail));
            }
            Some(_) => {}
            None => errors.push(FieldError::not_found(name_at, name)),
        }
        if device_path.is_empty() {
            errors.push(FieldError::required(path_at, ""));
        }
        if paths_seen.contains(device_path) {
            errors.push(FieldError::invalid(path_at, device_path, "must be unique"));
        }
        if device_path.split('/').any(|part| part == "..") {
            errors.push(FieldError::invalid(path_at, device_path, "can not contain backsteps ('..')"));
        } else {
            paths_seen.insert(device_path);
        }
        if mounts.iter().any(|mount| mount.str("name") == name) {
            errors.push(FieldError::invalid(name_at, name, "must not already exist in volumeMounts"));
        }
        if mounts.iter().any(|mount| mount.str("mountPath") == device_path) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid(path_at, device_path, detail));
        }
    }
}

fn probes_and_hooks(path: &Path<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    if let Some(lifecycle) = container.at("lifecycle") {
        let path = path.child("lifecycle");
        for hook in ["postStart", "preStop"] {
            if let Some(handler_value) = lifecycle.at(hook) {
                handler(&path.child(hook), handler_value, pod.grace_period, errors);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(value) = container.at(name) {
            probe(&path.child(name), name, value, pod.grace_period, errors);
        }
    }
}

fn probe(
    path: &Path<'_>,
    name: &str,
    probe: &Value,
    grace_period: Option<i64>,
    errors: &mut Vec<FieldError>,
) {
    handler(path, probe, grace_period, errors);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        non_negative(probe, path, field, errors);
    }
    let grace = probe.int("terminationGracePeriodSeconds");
    let grace_path = path.child("terminationGracePeriodSeconds");
    if let Some(seconds) = grace.filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(grace_path, seconds, "must be greater than 0"));
    }
    let threshold = probe.int("successThreshold").unwrap_or_default();
    if name != "readinessProbe" && threshold != 1 {
        errors.push(FieldError::invalid(path.child("successThreshold"), threshold, "must be 1"));
    }
    if let (Some(seconds), "readinessProbe") = (grace, name) {
        errors.push(FieldError::invalid(grace_path, seconds, "must not be set for readinessProbes"));
    }
}

fn handler(path: &Path<'_>, handler: &Value, grace_period: Option<i64>, errors: &mut Vec<FieldError>) {
    let mut found = false;
    for name in HANDLERS {
        let Some(action) = handler.at(name) else { continue };
        let path = path.child(name);
        if found {
            errors.push(FieldError::forbidden(path, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match name {
            "exec" if action.list("command").is_empty() => {
                errors.push(FieldError::required(path.child("command"), ""));
            }
            "httpGet" => http_get(&path, action, errors),
            "tcpSocket" | "grpc" => port_or_name(&path.child("port"), action.at("port"), errors),
            "sleep" => sleep(&path, action, grace_period, errors),
            _ => {}
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
}

fn http_get(path: &Path<'_>, action: &Value, errors: &mut Vec<FieldError>) {
    if action.str("path").is_empty() {
        errors.push(FieldError::required(path.child("path"), ""));
    }
    port_or_name(&path.child("port"), action.at("port"), errors);
    supported(&path.child("scheme"), action.str("scheme"), &["HTTP", "HTTPS"], errors);
    for header in action.list("httpHeaders") {
        let name = header.str("name");
        named(&path.child("httpHeaders"), name, names::http_header_name(name), errors);
    }
}

fn sleep(path: &Path<'_>, action: &Value, grace_period: Option<i64>, errors: &mut Vec<FieldError>) {
    let seconds = action.int("seconds").unwrap_or_default();
    let Some(grace) = grace_period else { return };
    if seconds < 0 || seconds > grace {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(FieldError::invalid(path, BadValue::Value(seconds.into()), detail));
    }
}

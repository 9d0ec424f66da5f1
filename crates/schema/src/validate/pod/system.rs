//! Rules that depend on the operating system of a pod, on the namespaces that it shares with its node, and on its volumes.

use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::read::Read;

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const NOT_FOR_WINDOWS: &str = "cannot be set for a windows pod";
const NOT_FOR_LINUX: &str = "windows options cannot be set for a linux pod";
const USER_NAMESPACE: &str = "when `hostUsers` is false";

/// The fields that a pod for Windows must not have, in Kubernetes' order. Those after a dot are in the security context.
const POD_FIELDS: [&str; 15] = [
    ".appArmorProfile",
    ".seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    ".seccompProfile",
    ".fsGroup",
    ".fsGroupChangePolicy",
    ".sysctls",
    "shareProcessNamespace",
    ".runAsUser",
    ".runAsGroup",
    ".supplementalGroups",
    ".supplementalGroupsPolicy",
    ".seLinuxChangePolicy",
];

/// The fields that the security context of a container for Windows must not have, in Kubernetes' order.
const CONTAINER_FIELDS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Calls `visit` with each container of a pod and its path.
fn containers(path: &Path<'_>, spec: &Value, mut visit: impl FnMut(&Path<'_>, &Value)) {
    for list in CONTAINERS {
        let at = path.child(list);
        for (index, container) in spec.list(list).iter().enumerate() {
            visit(&at.index(index), container);
        }
    }
}

/// Validates a pod with processes on its Windows host: all of its containers are such, in the network of the host.
pub(super) fn host_process(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let of = |object: &Value| {
        object.at("securityContext").at("windowsOptions").at("hostProcess").and_then(Value::as_bool)
    };
    let of_pod = of(spec);
    let (mut all, mut on_host) = (0, 0);
    containers(path, spec, |path, container| {
        let own = of(container);
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let context = path.child("securityContext");
            let options = context.child("windowsOptions");
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.push(FieldError::invalid(options.child("hostProcess"), own, detail));
        }
        all += 1;
        on_host += usize::from(own.or(of_pod).unwrap_or_default());
    });
    if on_host == 0 {
        return;
    }
    if on_host != all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(FieldError::invalid(path, "", detail));
    }
    if !spec.bool("hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(path.child("hostNetwork"), false, detail));
    }
}

/// Validates a pod with users of its own, which shares no other namespace with its node and has no block devices.
pub(super) fn host_users(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    if spec.at("hostUsers") != Some(&Value::Bool(false)) {
        return;
    }
    // Two of the names are those of Kubernetes' internal struct.
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.bool(field) {
            errors.push(FieldError::forbidden(path.child(shown), USER_NAMESPACE));
        }
    }
    containers(path, spec, |path, container| {
        if !container.list("volumeDevices").is_empty() {
            errors.push(FieldError::forbidden(path.child("volumeDevices"), USER_NAMESPACE));
        }
    });
}

/// Validates that a pod has no settings of another operating system than its own.
pub(super) fn operating_system(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    match spec.at("os").str("name") {
        "linux" => linux(path, spec, errors),
        "windows" => windows(path, spec, errors),
        _ => {}
    }
}

fn linux(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let mut check = |path: &Path<'_>, object: &Value| {
        if object.at("securityContext").has("windowsOptions") {
            let context = path.child("securityContext");
            errors.push(FieldError::forbidden(context.child("windowsOptions"), NOT_FOR_LINUX));
        }
    };
    check(path, spec);
    containers(path, spec, check);
}

fn windows(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let at = path.child("securityContext");
    for field in POD_FIELDS {
        let (place, value) = match field.strip_prefix('.') {
            Some(field) => (at.child(field), spec.at("securityContext").at(field)),
            None => (path.child(field), spec.at(field)),
        };
        let is_set = match (field, value) {
            ("hostPID" | "hostIPC", value) => value == Some(&Value::Bool(true)),
            (".sysctls", value) => value.and_then(Value::as_array).is_some_and(|list| !list.is_empty()),
            (_, value) => value.is_some(),
        };
        if is_set {
            errors.push(FieldError::forbidden(place, NOT_FOR_WINDOWS));
        }
    }
    containers(path, spec, |path, container| {
        let at = path.child("securityContext");
        for field in CONTAINER_FIELDS.into_iter().filter(|field| container.at("securityContext").has(field)) {
            errors.push(FieldError::forbidden(at.child(field), NOT_FOR_WINDOWS));
        }
    });
}

/// Validates that the volumes whose files hold environment variables exist and are empty directories.
pub(super) fn file_variables(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    containers(path, spec, |path, container| {
        let list = path.child("env");
        for (index, variable) in container.list("env").iter().enumerate() {
            let Some(reference) = variable.at("valueFrom").at("fileKeyRef") else { continue };
            let at = list.index(index);
            let (from, name) = (at.child("valueFrom"), reference.str("volumeName"));
            let from = from.child("fileKeyRef");
            let place = from.child("volumeName");
            match spec.list("volumes").iter().rfind(|volume| volume.str("name") == name) {
                None => errors.push(FieldError::not_found(place, name)),
                Some(volume) if !volume.has("emptyDir") => {
                    let detail = "referenced volume must be of type emptyDir";
                    errors.push(FieldError::invalid(place, name, detail));
                }
                Some(_) => {}
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn told(check: fn(&Path<'_>, &Value, &mut Vec<FieldError>), spec: Value) -> Vec<String> {
        let mut errors = Vec::new();
        check(&Path::new("spec"), &spec, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn pods_have_only_settings_of_their_operating_system() {
        let context = json!({"windowsOptions": {}, "runAsUser": 1});
        let pod = |os: &str| {
            json!({"os": {"name": os}, "hostPID": true, "hostIPC": false, "securityContext": context,
                "containers": [{"securityContext": context}]})
        };
        assert_eq!(
            told(operating_system, pod("linux")),
            [
                "spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
                "spec.containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"
            ]
        );
        assert_eq!(
            told(operating_system, pod("windows")),
            [
                "spec.hostPID: Forbidden: cannot be set for a windows pod",
                "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
                "spec.containers[0].securityContext.runAsUser: Forbidden: cannot be set for a windows pod"
            ]
        );
        assert_eq!(told(operating_system, json!({"securityContext": context})), [""; 0]);
    }

    #[test]
    fn users_of_its_own_keep_a_pod_from_sharing_namespaces() {
        let pod = |host_users: bool| {
            json!({"hostUsers": host_users, "hostNetwork": true, "hostIPC": true,
                "initContainers": [{"volumeDevices": [{"name": "v"}]}]})
        };
        assert_eq!(told(host_users, pod(true)), [""; 0]);
        assert_eq!(
            told(host_users, pod(false)),
            [
                "spec.hostNetwork: Forbidden: when `hostUsers` is false",
                "spec.HostIPC: Forbidden: when `hostUsers` is false",
                "spec.initContainers[0].volumeDevices: Forbidden: when `hostUsers` is false"
            ]
        );
    }

    #[test]
    fn processes_on_the_host_are_all_or_none() {
        let on_host = |value: bool| json!({"securityContext": {"windowsOptions": {"hostProcess": value}}});
        let mut pod = on_host(true);
        pod["containers"] = json!([on_host(false), {}]);
        assert_eq!(
            told(host_process, pod),
            [
                "spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be identical if both are specified, was true",
                "spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be HostProcess containers",
                "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers"
            ]
        );
        assert_eq!(told(host_process, json!({"hostNetwork": true, "containers": [on_host(true)]})), [""; 0]);
    }

    #[test]
    fn variables_come_from_files_of_empty_directories() {
        let pod = |volume: &str| {
            json!({"volumes": [{"name": "e", "emptyDir": {}}, {"name": "h", "hostPath": {}}],
                "containers": [{"env": [{"valueFrom": {"fileKeyRef": {"volumeName": volume}}}]}]})
        };
        assert_eq!(told(file_variables, pod("e")), [""; 0]);
        assert_eq!(
            told(file_variables, pod("h")),
            [
                r#"spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "h": referenced volume must be of type emptyDir"#
            ]
        );
        assert_eq!(
            told(file_variables, pod("x")),
            [r#"spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: "x""#]
        );
    }
}

//! The security contexts of pods and containers.

mod windows;

use evenkeel_scalars::go_regex;

use super::field_rules::{Seen, local_path, optional_one_of, supported};
use crate::field::{BadValue, FieldError, Path};
use crate::internal_structs;
use crate::json::Value;
use crate::names;
use crate::read::Read;

const ID_MAX: i64 = i32::MAX as i64;
const SYSCTL: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

fn id(object: &Value, path: &Path<'_>, field: &str, errors: &mut Vec<FieldError>) {
    if let Some(value) = object.int(field).filter(|value| !(0..=ID_MAX).contains(value)) {
        errors.push(FieldError::invalid(path.child(field), value, names::inclusive_range(0, ID_MAX)));
    }
}

/// Validates the security context of a container.
pub(super) fn container(
    path: &Path<'_>,
    context: Option<&Value>,
    host_users: bool,
    errors: &mut Vec<FieldError>,
) {
    let Some(context) = context else { return };
    id(context, path, "runAsUser", errors);
    id(context, path, "runAsGroup", errors);
    if let Some(mount) = context.at("procMount").and_then(Value::as_str) {
        let at = path.child("procMount");
        supported(&at, mount, &["Default", "Unmasked"], errors);
        if host_users && mount == "Unmasked" {
            let printed = BadValue::Printed(Value::from(mount).to_string());
            errors.push(FieldError::invalid(at, printed, "`hostUsers` must be false to use `Unmasked`"));
        }
    }
    seccomp(&path.child("seccompProfile"), context.at("seccompProfile"), errors);
    if context.at("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        escalation(path, context, errors);
    }
    windows::options(&path.child("windowsOptions"), context.at("windowsOptions"), errors);
    app_armor(&path.child("appArmorProfile"), context.at("appArmorProfile"), errors);
}

fn escalation(path: &Path<'_>, context: &Value, errors: &mut Vec<FieldError>) {
    let printed = || internal_structs::bad_value("core.SecurityContext", Some(context));
    if context.bool("privileged") {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.push(FieldError::invalid(path, printed(), detail));
    }
    if context.at("capabilities").strs("add").contains(&"CAP_SYS_ADMIN") {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        errors.push(FieldError::invalid(path, printed(), detail));
    }
}

/// Validates the security context of a pod.
///
/// `old` is the stored spec of the pod; what it has already is not refused again.
pub(super) fn pod(path: &Path<'_>, spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(context) = spec.at("securityContext") else { return };
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(context, path, field, errors);
    }
    let groups = path.child("supplementalGroups");
    for (index, group) in context.list("supplementalGroups").iter().enumerate() {
        if let Some(value) = group.as_i64().filter(|value| !(0..=ID_MAX).contains(value)) {
            errors.push(FieldError::invalid(groups.index(index), value, names::inclusive_range(0, ID_MAX)));
        }
    }
    if spec.bool("shareProcessNamespace") && spec.bool("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(path.child("shareProcessNamespace"), true, detail));
    }
    let names = |spec: &Value| spec.at("securityContext").list("sysctls").to_vec();
    let had = old.is_some_and(|old| names(old).iter().any(|it| of_host(old, it.str("name")).is_some()));
    sysctls(&path.child("sysctls"), context.list("sysctls"), errors, |name| {
        if had { None } else { of_host(spec, name) }
    });
    optional_one_of(context, path, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], errors);
    seccomp(&path.child("seccompProfile"), context.at("seccompProfile"), errors);
    windows::options(&path.child("windowsOptions"), context.at("windowsOptions"), errors);
    app_armor(&path.child("appArmorProfile"), context.at("appArmorProfile"), errors);
    optional_one_of(context, path, "supplementalGroupsPolicy", &["Merge", "Strict"], errors);
    // The other policy, MountOption, needs a feature gate that is disabled by default.
    optional_one_of(context, path, "seLinuxChangePolicy", &["Recursive"], errors);
}

/// Returns the field by which a pod shares the namespace of a kernel parameter with its node, if it does.
fn of_host(spec: &Value, sysctl: &str) -> Option<&'static str> {
    const IPC: [&str; 10] = [
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.shm",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.msg",
    ];
    // A name may have slashes instead of dots, and then dots instead of slashes.
    let name = match sysctl.find(['.', '/']).map(|at| sysctl.as_bytes()[at]) {
        Some(b'/') => sysctl.replace('.', "\0").replace('/', ".").replace('\0', "/"),
        _ => sysctl.to_owned(),
    };
    let name = name.split('*').next().unwrap_or_default();
    if spec.bool("hostNetwork") && name.starts_with("net.") {
        return Some("hostNetwork");
    }
    (spec.bool("hostIPC") && (IPC.contains(&name) || name.starts_with("fs.mqueue."))).then_some("hostIPC")
}

fn sysctls(
    path: &Path<'_>,
    sysctls: &[Value],
    errors: &mut Vec<FieldError>,
    of_host: impl Fn(&str) -> Option<&'static str>,
) {
    let mut seen = Seen::default();
    for (index, sysctl) in sysctls.iter().enumerate() {
        let at = path.index(index);
        let at = at.child("name");
        let name = sysctl.str("name");
        let well_formed = name.len() <= 253 && go_regex::is_match(SYSCTL, name);
        if name.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else if !well_formed {
            let detail = format!("must have at most 253 characters and match regex {SYSCTL}");
            errors.push(FieldError::invalid(at, name, detail));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(at, name));
        }
        if let Some(field) = of_host(name) {
            errors.push(FieldError::invalid(
                at,
                name,
                format!("may not be specified when '{field}' is true"),
            ));
        }
    }
}

fn seccomp(path: &Path<'_>, profile: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(profile) = profile else { return };
    let kind = profile.str("type");
    match kind {
        "" => errors
            .push(FieldError::required(path.child("type"), "type is required when seccompProfile is set")),
        kind => supported(&path.child("type"), kind, &["Localhost", "RuntimeDefault", "Unconfined"], errors),
    }
    let at = path.child("localhostProfile");
    match (kind, profile.at("localhostProfile").and_then(Value::as_str)) {
        ("Localhost", None) => {
            errors.push(FieldError::required(at, "must be set when seccomp type is Localhost"))
        }
        ("Localhost", Some(text)) => local_path(&at, text, errors),
        (_, Some(text)) => {
            let printed = format!("{{\"Type\":\"{kind}\",\"LocalhostProfile\":{}}}", Value::from(text));
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(FieldError::invalid(at, BadValue::Printed(printed), detail));
        }
        (_, None) => {}
    }
}

fn app_armor(path: &Path<'_>, profile: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(profile) = profile else { return };
    let at = path.child("localhostProfile");
    let text = profile.at("localhostProfile").and_then(Value::as_str);
    match (profile.str("type"), text) {
        ("Localhost", Some(text)) if text != text.trim() => {
            errors.push(FieldError::invalid(at, text, "must not be padded with whitespace"));
        }
        ("Localhost", None | Some("")) => {
            errors.push(FieldError::required(at, "must be set when AppArmor type is Localhost"));
        }
        ("Localhost", Some(text)) if text.len() > 4095 => errors.push(FieldError::too_long(at, 4095)),
        ("Localhost", Some(_)) | ("RuntimeDefault" | "Unconfined", None) => {}
        ("RuntimeDefault" | "Unconfined", Some(text)) => {
            let printed = BadValue::Printed(Value::from(text).to_string());
            errors.push(FieldError::invalid(at, printed, "can only be set when AppArmor type is Localhost"));
        }
        ("", _) => {
            errors.push(FieldError::required(
                path.child("type"),
                "type is required when appArmorProfile is set",
            ));
        }
        (other, _) => errors.push(FieldError::not_supported(
            path.child("type"),
            other,
            &["Localhost", "RuntimeDefault", "Unconfined"],
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn a_pod_does_not_set_kernel_parameters_of_its_node() {
        let pod =
            |field: &str, name: &str| json!({field: true, "securityContext": {"sysctls": [{"name": name}]}});
        let told = |spec: &Value, old: Option<&Value>| {
            let mut errors = Vec::new();
            super::pod(&Path::new("c"), spec, old, &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let network = pod("hostNetwork", "net/ipv4/ip_forward");
        let wrong = r#"c.sysctls[0].name: Invalid value: "net/ipv4/ip_forward": may not be specified when 'hostNetwork' is true"#;
        assert_eq!(told(&network, None), [wrong]);
        assert_eq!(told(&network, Some(&network)), [""; 0]);
        assert_eq!(told(&pod("hostNetwork", "kernel.sem"), None), [""; 0]);
        assert_eq!(told(&pod("hostIPC", "kernel.sem"), None).len(), 1);
        assert_eq!(told(&pod("hostIPC", "kernel.semaphore"), None), [""; 0]);
    }
}

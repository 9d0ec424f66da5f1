//! The checks of the Pod Security Standards, with Kubernetes' messages.

use std::collections::BTreeSet;

use evenkeel_schema::json::Value;

use super::standards::{Level, Rule};

/// The violations of a pod, each with its reason and detail.
pub(super) struct Violations(Vec<(String, String)>);

impl Violations {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reasons, joined by commas.
    pub(super) fn reasons(&self) -> String {
        self.0.iter().map(|(reason, _)| reason.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The reasons with their details, joined by commas.
    pub(super) fn detail(&self) -> String {
        let line = |(reason, detail): &(String, String)| match detail.as_str() {
            "" => reason.clone(),
            detail => format!("{reason} ({detail})"),
        };
        self.0.iter().map(line).collect::<Vec<_>>().join(", ")
    }
}

type Check = fn(&Pod<'_>) -> Option<(String, String)>;

/// A check, and the minor version of Kubernetes that introduced it.
struct Listed {
    since: u32,
    check: Check,
    /// The minor version since which a stricter check replaces this one at the level `restricted`.
    replaced_since: Option<u32>,
}

const fn listed(since: u32, check: Check) -> Listed {
    Listed { since, check, replaced_since: None }
}

const fn replaced(check: Check, since: u32) -> Listed {
    Listed { since: 0, check, replaced_since: Some(since) }
}

/// The checks of the level `baseline`, sorted by name.
const BASELINE: [Listed; 12] = [
    listed(0, app_armor),
    replaced(capabilities_baseline, 22),
    listed(0, host_namespaces),
    replaced(host_path_volumes, 0),
    listed(0, host_ports),
    listed(34, probe_hosts),
    listed(0, privileged),
    replaced(proc_mount, 35),
    listed(0, se_linux),
    replaced(seccomp_baseline, 19),
    listed(0, sysctls),
    listed(0, host_process),
];
const RESTRICTED: [Listed; 7] = [
    listed(8, privilege_escalation),
    listed(22, capabilities_restricted),
    listed(35, proc_mount_restricted),
    listed(0, restricted_volumes),
    listed(0, run_as_non_root),
    listed(23, run_as_user),
    listed(19, seccomp_restricted),
];

/// Checks a pod or pod template against a policy.
pub(super) fn evaluate(rule: Rule, pod: &Value) -> Violations {
    let version = rule.version.unwrap_or(u32::MAX);
    let pod = Pod { metadata: &pod["metadata"], spec: &pod["spec"], version };
    let restricted = rule.level == Level::Restricted;
    let is_replaced = |it: &Listed| restricted && it.replaced_since.is_some_and(|since| version >= since);
    let baseline = BASELINE.iter().filter(|it| rule.level != Level::Privileged && !is_replaced(it));
    let checks = baseline.chain(RESTRICTED.iter().filter(|_| restricted));
    let due = checks.filter(|it| version >= it.since);
    Violations(due.filter_map(|it| (it.check)(&pod)).collect())
}

struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
    version: u32,
}

impl<'a> Pod<'a> {
    fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists.into_iter().flat_map(move |list| spec[list].as_array().into_iter().flatten())
    }

    /// The names of the containers for which `holds` is true.
    fn where_container(&self, holds: impl Fn(&Value) -> bool) -> Vec<String> {
        self.containers().filter(|it| holds(it)).map(name).collect()
    }

    fn own(&self, field: &str) -> &'a Value {
        &self.spec["securityContext"][field]
    }

    fn is_windows(&self) -> bool {
        self.version >= 25 && self.spec["os"]["name"] == "windows"
    }

    /// Whether the pod has its own user namespace, in which root is an unprivileged user of the host.
    fn has_own_users(&self) -> bool {
        self.version >= 35 && self.spec["hostUsers"] == false
    }
}

fn name(item: &Value) -> String {
    item["name"].as_str().unwrap_or_default().to_owned()
}

fn context<'a>(container: &'a Value, field: &str) -> &'a Value {
    &container["securityContext"][field]
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|it| format!("\"{}\"", it.as_ref())).collect();
    items.join(", ")
}

fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// Formats names as `container "a"` or `containers "a", "b"`.
fn containers(names: &[String]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// Names the pod, its containers or both as those that set a field; `None` if none of them does.
fn who_sets(pod: bool, names: &[String]) -> Option<String> {
    let own = pod.then(|| "pod".to_owned());
    let theirs = (!names.is_empty()).then(|| containers(names));
    let all: Vec<String> = own.into_iter().chain(theirs).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

fn violation(reason: &str, detail: String) -> Option<(String, String)> {
    Some((reason.to_owned(), detail))
}

fn privilege_escalation(pod: &Pod<'_>) -> Option<(String, String)> {
    let bad = pod.where_container(|it| context(it, "allowPrivilegeEscalation") != false);
    if bad.is_empty() || pod.is_windows() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&bad));
    violation("allowPrivilegeEscalation != false", detail)
}

fn app_armor(pod: &Pod<'_>) -> Option<(String, String)> {
    let is_bad = |profile: &Value| {
        profile.is_object() && !matches!(profile["type"].as_str(), Some("RuntimeDefault" | "Localhost"))
    };
    let own = pod.own("appArmorProfile");
    let bad = pod.where_container(|it| is_bad(context(it, "appArmorProfile")));
    let profiles = pod.containers().map(|it| context(it, "appArmorProfile")).chain([own]);
    let types: BTreeSet<String> = profiles.filter(|it| is_bad(it)).map(|it| text(&it["type"])).collect();
    let mut values: Vec<String> = types.into_iter().collect();
    let annotations = pod.metadata["annotations"].as_object().into_iter().flatten();
    let forbidden: Vec<String> = annotations
        .filter(|(key, _)| key.starts_with("container.apparmor.security.beta.kubernetes.io/"))
        .map(|(key, value)| (key, text(value)))
        .filter(|(_, value)| {
            !(value.is_empty() || value == "runtime/default" || value.starts_with("localhost/"))
        })
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    let mut who: Vec<String> = who_sets(is_bad(own), &bad).into_iter().collect();
    if !forbidden.is_empty() {
        who.push(plural("annotation", "annotations", forbidden.len()).to_owned());
        values.extend(forbidden);
    }
    if who.is_empty() {
        return None;
    }
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    violation(
        reason,
        format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(values)),
    )
}

const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The capabilities that a container adds beyond the allowed ones.
fn added_beyond(container: &Value, allowed: &[&str]) -> BTreeSet<String> {
    let added = context(container, "capabilities")["add"].as_array().into_iter().flatten().map(text);
    added.filter(|it| !allowed.contains(&it.as_str())).collect()
}

fn must_not_add(pod: &Pod<'_>, allowed: &[&str]) -> Option<String> {
    let bad = pod.where_container(|it| !added_beyond(it, allowed).is_empty());
    let all: BTreeSet<String> = pod.containers().flat_map(|it| added_beyond(it, allowed)).collect();
    (!bad.is_empty()).then(|| {
        format!("{} must not include {} in securityContext.capabilities.add", containers(&bad), quoted(all))
    })
}

fn capabilities_baseline(pod: &Pod<'_>) -> Option<(String, String)> {
    violation("non-default capabilities", must_not_add(pod, &DEFAULT_CAPABILITIES)?)
}

fn capabilities_restricted(pod: &Pod<'_>) -> Option<(String, String)> {
    if pod.is_windows() {
        return None;
    }
    let keeps = pod.where_container(|it| {
        !context(it, "capabilities")["drop"].as_array().into_iter().flatten().any(|dropped| dropped == "ALL")
    });
    let keeps = (!keeps.is_empty())
        .then(|| format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeps)));
    let details: Vec<String> = keeps.into_iter().chain(must_not_add(pod, &["NET_BIND_SERVICE"])).collect();
    if details.is_empty() { None } else { violation("unrestricted capabilities", details.join("; ")) }
}

fn host_namespaces(pod: &Pod<'_>) -> Option<(String, String)> {
    let used = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|it| pod.spec[it] == true);
    let used: Vec<String> = used.map(|it| format!("{it}=true")).collect();
    if used.is_empty() { None } else { violation("host namespaces", used.join(", ")) }
}

fn volumes<'a>(pod: &Pod<'a>) -> impl Iterator<Item = &'a Value> + use<'a> {
    pod.spec["volumes"].as_array().into_iter().flatten()
}

fn host_path_volumes(pod: &Pod<'_>) -> Option<(String, String)> {
    let bad: Vec<String> = volumes(pod).filter(|it| !it["hostPath"].is_null()).map(name).collect();
    if bad.is_empty() {
        return None;
    }
    violation("hostPath volumes", format!("{} {}", plural("volume", "volumes", bad.len()), quoted(bad)))
}

fn restricted_volumes(pod: &Pod<'_>) -> Option<(String, String)> {
    const ALLOWED: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    let kind = |volume: &Value| volume.as_object()?.keys().find(|it| *it != "name").map(ToString::to_string);
    let bad: Vec<&Value> =
        volumes(pod).filter(|it| !kind(it).is_some_and(|kind| ALLOWED.contains(&kind.as_str()))).collect();
    if bad.is_empty() {
        return None;
    }
    let kinds: BTreeSet<String> = bad.iter().map(|it| kind(it).unwrap_or_else(|| "unknown".into())).collect();
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", bad.len()),
        quoted(bad.iter().map(|it| name(it))),
        plural("uses", "use", bad.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        quoted(kinds)
    );
    violation("restricted volume types", detail)
}

fn host_ports(pod: &Pod<'_>) -> Option<(String, String)> {
    let used = |container: &Value| -> BTreeSet<String> {
        let ports =
            container["ports"].as_array().into_iter().flatten().filter_map(|it| it["hostPort"].as_i64());
        ports.filter(|port| *port != 0).map(|port| port.to_string()).collect()
    };
    let bad = pod.where_container(|it| !used(it).is_empty());
    let ports: BTreeSet<String> = pod.containers().flat_map(used).collect();
    if bad.is_empty() {
        return None;
    }
    let (uses, word) = (plural("uses", "use", bad.len()), plural("hostPort", "hostPorts", ports.len()));
    let ports = ports.into_iter().collect::<Vec<_>>().join(", ");
    violation("hostPort", format!("{} {uses} {word} {ports}", containers(&bad)))
}

fn probe_hosts(pod: &Pod<'_>) -> Option<(String, String)> {
    let hosts = |container: &Value| -> BTreeSet<String> {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|it| &container[it]);
        let hooks = ["postStart", "preStop"].map(|it| &container["lifecycle"][it]);
        let handlers = probes.into_iter().chain(hooks);
        let hosts = handlers.flat_map(|it| [text(&it["httpGet"]["host"]), text(&it["tcpSocket"]["host"])]);
        hosts.filter(|host| !host.is_empty()).collect()
    };
    let mut bad = pod.where_container(|it| !hosts(it).is_empty());
    bad.sort();
    bad.dedup();
    let all: BTreeSet<String> = pod.containers().flat_map(hosts).collect();
    if bad.is_empty() {
        return None;
    }
    let uses = plural("uses", "use", bad.len());
    let word = plural("probe or lifecycle host", "probe or lifecycle hosts", all.len());
    violation("probe or lifecycle host", format!("{} {uses} {word} {}", containers(&bad), quoted(all)))
}

fn privileged(pod: &Pod<'_>) -> Option<(String, String)> {
    let bad = pod.where_container(|it| context(it, "privileged") == true);
    if bad.is_empty() {
        return None;
    }
    violation("privileged", format!("{} must not set securityContext.privileged=true", containers(&bad)))
}

fn proc_mount(pod: &Pod<'_>) -> Option<(String, String)> {
    if pod.has_own_users() { None } else { proc_mount_restricted(pod) }
}

fn proc_mount_restricted(pod: &Pod<'_>) -> Option<(String, String)> {
    let is_bad = |it: &Value| context(it, "procMount").as_str().is_some_and(|kind| kind != "Default");
    let bad = pod.where_container(is_bad);
    let kinds: BTreeSet<String> =
        pod.containers().filter(|it| is_bad(it)).map(|it| text(context(it, "procMount"))).collect();
    if bad.is_empty() {
        return None;
    }
    violation(
        "procMount",
        format!("{} must not set securityContext.procMount to {}", containers(&bad), quoted(kinds)),
    )
}

fn se_linux(pod: &Pod<'_>) -> Option<(String, String)> {
    let is_allowed = |kind: &str| {
        matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || kind == "container_engine_t" && pod.version >= 31
    };
    let said = |options: &Value, field: &str| !text(&options[field]).is_empty();
    let is_bad = |options: &Value| {
        options.is_object()
            && (!is_allowed(&text(&options["type"])) || said(options, "user") || said(options, "role"))
    };
    let own = pod.own("seLinuxOptions");
    let who = who_sets(is_bad(own), &pod.where_container(|it| is_bad(context(it, "seLinuxOptions"))))?;
    let all: Vec<&Value> = pod.containers().map(|it| context(it, "seLinuxOptions")).chain([own]).collect();
    let types: BTreeSet<String> =
        all.iter().map(|it| text(&it["type"])).filter(|it| !is_allowed(it)).collect();
    let mut bad = Vec::new();
    if !types.is_empty() {
        bad.push(format!("{} {}", plural("type", "types", types.len()), quoted(types)));
    }
    for field in ["user", "role"] {
        if all.iter().any(|it| said(it, field)) {
            bad.push(format!("{field} may not be set"));
        }
    }
    violation(
        "seLinuxOptions",
        format!("{who} set forbidden securityContext.seLinuxOptions: {}", bad.join("; ")),
    )
}

fn is_bad_seccomp(profile: &Value) -> bool {
    profile.is_object() && !matches!(profile["type"].as_str(), Some("RuntimeDefault" | "Localhost"))
}

fn seccomp_baseline(pod: &Pod<'_>) -> Option<(String, String)> {
    if pod.version < 19 {
        return seccomp_annotations(pod);
    }
    let own = pod.own("seccompProfile");
    let bad = pod.where_container(|it| is_bad_seccomp(context(it, "seccompProfile")));
    let who = who_sets(is_bad_seccomp(own), &bad)?;
    let all = pod.containers().map(|it| context(it, "seccompProfile")).chain([own]);
    let types: BTreeSet<String> = all.filter(|it| is_bad_seccomp(it)).map(|it| text(&it["type"])).collect();
    violation(
        "seccompProfile",
        format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(types)),
    )
}

/// Checks the annotations that held seccomp profiles before the field existed.
fn seccomp_annotations(pod: &Pod<'_>) -> Option<(String, String)> {
    let is_good = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let own = "seccomp.security.alpha.kubernetes.io/pod".to_owned();
    let theirs =
        pod.containers().map(|it| format!("container.seccomp.security.alpha.kubernetes.io/{}", name(it)));
    let said = theirs.chain([own]).filter_map(|key| {
        let value = pod.metadata["annotations"][&key].as_str()?;
        (!is_good(value)).then(|| format!("{key}={value:?}"))
    });
    let forbidden: BTreeSet<String> = said.collect();
    if forbidden.is_empty() {
        return None;
    }
    let word = plural("annotation", "annotations", forbidden.len());
    let list = forbidden.into_iter().collect::<Vec<_>>().join(", ");
    violation("seccompProfile", format!("forbidden {word} {list}"))
}

fn seccomp_restricted(pod: &Pod<'_>) -> Option<(String, String)> {
    if pod.is_windows() {
        return None;
    }
    if let Some(found) = seccomp_baseline(pod) {
        return Some(found);
    }
    if pod.own("seccompProfile").is_object() {
        return None;
    }
    let bad = pod.where_container(|it| !context(it, "seccompProfile").is_object());
    if bad.is_empty() {
        return None;
    }
    let rule = "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
    violation("seccompProfile", format!("pod or {} {rule}", containers(&bad)))
}

fn sysctls(pod: &Pod<'_>) -> Option<(String, String)> {
    let since = |name: &str| match name {
        "kernel.shm_rmid_forced"
        | "net.ipv4.ip_local_port_range"
        | "net.ipv4.tcp_syncookies"
        | "net.ipv4.ping_group_range"
        | "net.ipv4.ip_unprivileged_port_start" => Some(0),
        "net.ipv4.ip_local_reserved_ports" => Some(27),
        "net.ipv4.tcp_keepalive_time"
        | "net.ipv4.tcp_fin_timeout"
        | "net.ipv4.tcp_keepalive_intvl"
        | "net.ipv4.tcp_keepalive_probes" => Some(29),
        "net.ipv4.tcp_rmem" | "net.ipv4.tcp_wmem" => Some(32),
        _ => None,
    };
    let set = pod.own("sysctls").as_array().into_iter().flatten().map(name);
    let bad: Vec<String> = set.filter(|it| since(it).is_none_or(|since| pod.version < since)).collect();
    if bad.is_empty() { None } else { violation("forbidden sysctls", bad.join(", ")) }
}

fn host_process(pod: &Pod<'_>) -> Option<(String, String)> {
    let bad = pod.where_container(|it| context(it, "windowsOptions")["hostProcess"] == true);
    let who = who_sets(pod.own("windowsOptions")["hostProcess"] == true, &bad)?;
    violation("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}

fn run_as_non_root(pod: &Pod<'_>) -> Option<(String, String)> {
    if pod.has_own_users() {
        return None;
    }
    let reason = "runAsNonRoot != true";
    let own = pod.own("runAsNonRoot");
    let bad = pod.where_container(|it| context(it, "runAsNonRoot") == false);
    if let Some(who) = who_sets(own == false, &bad) {
        return violation(reason, format!("{who} must not set securityContext.runAsNonRoot=false"));
    }
    let open = pod.where_container(|it| context(it, "runAsNonRoot").is_null());
    if own == true || open.is_empty() {
        return None;
    }
    violation(reason, format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&open)))
}

fn run_as_user(pod: &Pod<'_>) -> Option<(String, String)> {
    if pod.has_own_users() {
        return None;
    }
    let bad = pod.where_container(|it| context(it, "runAsUser") == 0);
    let who = who_sets(pod.own("runAsUser") == 0, &bad)?;
    violation("runAsUser=0", format!("{who} must not set runAsUser=0"))
}

//! Kubernetes' warnings for pods, services and definitions that are valid, but most likely not what their author meant.

mod node_labels;
mod storage;

use std::collections::BTreeMap;

use evenkeel_scalars::go;

use crate::json::{Value, get};
use crate::names;
use crate::quantity::Quantity;
use crate::read::Read as _;

/// The warnings for a Service, a CustomResourceDefinition, a Pod, or an object with a pod template.
///
/// An update gets warnings only if it changes the generation, and a Pod only when it is created. Nobody would read the
/// warnings for a controller's writes.
///
/// ```
/// let pod = evenkeel_schema::json::json!({"spec": {"containers": [{"env": [{"name": "X", "value": "1"}, {"name": "X"}]}]}});
/// assert_eq!(
///     evenkeel_schema::warnings::of("", "Pod", &pod, None),
///     [r#"spec.containers[0].env[1]: hides previous definition of "X", which may be dropped when using apply"#]
/// );
/// ```
pub fn of(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    if (group, kind) == ("", "Service") {
        return of_service(object);
    }
    if (group, kind) == ("apiextensions.k8s.io", "CustomResourceDefinition") {
        return crate::structural::definition::warnings(object, old);
    }
    if (group, kind) == ("storage.k8s.io", "CSIDriver") {
        return of_driver(object, old);
    }
    match (group, kind) {
        ("", "Node") => return of_node(object),
        ("", "PersistentVolume") => return storage::of_persistent_volume(object),
        ("", "PersistentVolumeClaim") => return storage::of_claim(object),
        ("storage.k8s.io", "StorageClass") => return storage::of_class(object),
        ("discovery.k8s.io", "EndpointSlice") => return of_slice(object, old),
        ("networking.k8s.io", "Ingress") => return of_ingress(object, old),
        _ => {}
    }
    let path: &[&str] = match (group, kind) {
        ("", "Pod") => &[],
        ("", "PodTemplate") => &["template"],
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job") => &["spec", "template"],
        ("batch", "CronJob") => &["spec", "jobTemplate", "spec", "template"],
        _ => return Vec::new(),
    };
    let generation = |object: &Value| get(object, &["metadata", "generation"]).cloned();
    match old {
        Some(_) if path.is_empty() => Vec::new(),
        Some(old) if generation(old) == generation(object) => Vec::new(),
        _ => {
            let mut warnings: Vec<String> =
                if old.is_none() { of_name(kind, object).into_iter().collect() } else { Vec::new() };
            warnings
                .extend(get(object, path).map(|template| of_template(template, path)).unwrap_or_default());
            if (group, kind) == ("apps", "StatefulSet") {
                storage::of_stateful_set(object, &mut warnings);
            }
            warnings
        }
    }
}

/// Warns about a name that is no DNS label, although it is used in the names of pods.
fn of_name(kind: &str, object: &Value) -> Option<String> {
    let used = match kind {
        "Pod" => "the Pod's hostname",
        "Deployment" | "ReplicaSet" | "ReplicationController" | "Job" | "CronJob" => {
            "Pod names and hostnames"
        }
        _ => return None,
    };
    let name = object.at("metadata").str("name");
    let wrong = if name.is_empty() { Vec::new() } else { names::dns1123_label(name) };
    (!wrong.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        )
    })
}

fn of_ingress(ingress: &Value, old: Option<&Value>) -> Vec<String> {
    let annotation = "kubernetes.io/ingress.class";
    let is_old_form = ingress.at("metadata").at("annotations").has(annotation)
        && !ingress.at("spec").has("ingressClassName");
    match is_old_form && old.is_none() {
        true => vec![format!(
            "annotation {} is deprecated, please use 'spec.ingressClassName' instead",
            go::quote(annotation)
        )],
        false => Vec::new(),
    }
}

fn of_node(node: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if node.at("spec").has("configSource") {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !node.at("spec").str("externalID").is_empty() {
        let text = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
        warnings.push(text.to_owned());
    }
    warnings
}

fn of_slice(slice: &Value, old: Option<&Value>) -> Vec<String> {
    match slice.str("addressType") {
        "FQDN" if old.is_none() => vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()],
        _ => Vec::new(),
    }
}

/// Warns about a CSIDriver that may log the tokens that it requests, when it begins to request them.
fn of_driver(driver: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = driver.at("spec");
    if old.is_some_and(|old| old.at("spec").at("tokenRequests") == spec.at("tokenRequests")) {
        return Vec::new();
    }
    let exposed = !spec.list("tokenRequests").is_empty() && !spec.has("serviceAccountTokenInSecrets");
    let warning = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
    if exposed { vec![warning.to_owned()] } else { Vec::new() }
}

fn of_service(service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = service.at("spec");
    let external = spec.str("type") == "ExternalName";
    let headless = spec.str("type") == "ClusterIP" && spec.str("clusterIP") == "None";
    let has_external_ips = !spec.list("externalIPs").is_empty();
    let mut warn = |when: bool, text: &str| {
        if when {
            warnings.push(text.to_owned());
        }
    };
    let hints = "service.kubernetes.io/topology-aware-hints";
    warn(
        get(service, &["metadata", "annotations", hints]).is_some(),
        &format!("annotation {hints} is deprecated, please use service.kubernetes.io/topology-mode instead"),
    );
    warn(
        headless && !spec.str("loadBalancerIP").is_empty(),
        "spec.loadBalancerIP is ignored for headless services",
    );
    warn(headless && has_external_ips, "spec.externalIPs is ignored for headless services");
    warn(
        headless && spec.str("sessionAffinity") != "None",
        "spec.SessionAffinity is ignored for headless services",
    );
    warn(
        has_external_ips && !headless && !external,
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
    );
    warn(external && has_external_ips, r#"spec.externalIPs is ignored when spec.type is "ExternalName""#);
    warn(
        !external && !spec.str("externalName").is_empty(),
        r#"spec.externalName is ignored when spec.type is not "ExternalName""#,
    );
    warn(
        spec.str("trafficDistribution") == "PreferClose",
        r#"spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone""#,
    );
    warnings
}

fn of_template(template: &Value, path: &[&str]) -> Vec<String> {
    let prefix: String = path.iter().map(|part| format!("{part}.")).collect();
    let mut warnings = Vec::new();
    let Some(spec) = template.at("spec") else { return warnings };
    let at = format!("{prefix}spec");
    node_labels::of_pod(spec, &at, &mut warnings);
    spread(spec, &at, &mut warnings);
    annotations(template, &prefix, &mut warnings);
    storage::of_volumes(spec, &at, &mut warnings);
    repeats(spec, "hostAliases", "ip", &at, &mut warnings);
    repeats(spec, "imagePullSecrets", "name", &at, &mut warnings);
    for (index, secret) in spec.list("imagePullSecrets").iter().enumerate() {
        if secret.str("name").is_empty() {
            warnings.push(format!("{at}.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    for (at, container) in containers(spec, &at) {
        fractions(container, &at, &mut warnings);
        hidden_variables(container, &at, &mut warnings);
    }
    ports(spec, &at, &mut warnings);
    port_names(spec, &at, &mut warnings);
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{at}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    affinity(spec, &at, &mut warnings);
    warnings
}

/// Every container with its path, those that run first first.
fn containers<'v>(spec: &'v Value, at: &str) -> Vec<(String, &'v Value)> {
    let mut all = Vec::new();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in spec.list(list).iter().enumerate() {
            all.push((format!("{at}.{list}[{index}]"), container));
        }
    }
    all
}

fn spread(spec: &Value, at: &str, warnings: &mut Vec<String>) {
    for (index, constraint) in spec.list("topologySpreadConstraints").iter().enumerate() {
        let key = constraint.str("topologyKey");
        let deprecated = node_labels::deprecation(key);
        let path = format!("{at}.topologySpreadConstraints[{index}].topologyKey");
        warnings.extend(deprecated.map(|text| format!("{path}: {key} is {text}")));
        if !constraint.has("labelSelector") {
            warnings.push(no_selector(&format!("{at}.topologySpreadConstraints[{index}].labelSelector")));
        }
    }
}

fn affinity(spec: &Value, at: &str, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = get(spec, &["affinity", kind]) else { continue };
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (index, term) in affinity.list(required).iter().enumerate() {
            if !term.has("labelSelector") {
                warnings
                    .push(no_selector(&format!("{at}.affinity.{kind}.{required}[{index}].labelSelector")));
            }
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (index, term) in affinity.list(preferred).iter().enumerate() {
            if get(term, &["podAffinityTerm", "labelSelector"]).is_none() {
                let path = format!("{at}.affinity.{kind}.{preferred}[{index}].podAffinityTerm.labelSelector");
                warnings.push(no_selector(&path));
            }
        }
    }
}

fn no_selector(path: &str) -> String {
    format!("{path}: a null labelSelector results in matching no pod")
}

fn annotations(template: &Value, prefix: &str, warnings: &mut Vec<String>) {
    let gone = [
        ("scheduler.alpha.kubernetes.io/critical-pod", "v1.16+; use the \"priorityClassName\" field instead"),
        ("security.alpha.kubernetes.io/sysctls", "v1.11+; use the \"sysctls\" field instead"),
        ("security.alpha.kubernetes.io/unsafe-sysctls", "v1.11+; use the \"sysctls\" field instead"),
    ];
    for (key, since) in gone {
        if get(template, &["metadata", "annotations", key]).is_some() {
            warnings.push(format!("{prefix}metadata.annotations[{key}]: non-functional in {since}"));
        }
    }
}

fn repeats(spec: &Value, list: &str, field: &str, at: &str, warnings: &mut Vec<String>) {
    let items = spec.list(list);
    for (index, item) in items.iter().enumerate() {
        let value = item.str(field);
        if items[..index].iter().any(|before| before.str(field) == value) {
            warnings.push(format!("{at}.{list}[{index}].{field}: duplicate {field} {}", go::quote(value)));
        }
    }
}

fn fractions(container: &Value, at: &str, warnings: &mut Vec<String>) {
    for resource in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            warnings.extend(fraction(container, at, list, resource));
        }
    }
}

/// Warns about an amount in `resources` that is not a whole number of bytes.
fn fraction(object: &Value, at: &str, list: &str, resource: &str) -> Option<String> {
    let quantity = Quantity::from_json(get(object, &["resources", list, resource])?).ok()?;
    let text = go::quote(&quantity.to_string());
    (!quantity.counts_as_whole()).then(|| {
        format!(
            "{at}.resources.{list}[{resource}]: fractional byte value {text} is invalid, must be an integer"
        )
    })
}

/// Warns about variables that hide an earlier one with their name. A variable that refers to the earlier one is fine.
fn hidden_variables(container: &Value, at: &str, warnings: &mut Vec<String>) {
    let variables = container.list("env");
    for (index, variable) in variables.iter().enumerate() {
        let name = variable.str("name");
        if !variables[..index].iter().any(|before| before.str("name") == name) {
            continue;
        }
        let (value, itself) = (variable.str("value"), format!("$({name})"));
        if variable.has("valueFrom") || value == itself || !value.contains(&itself) {
            warnings.push(format!(
                "{at}.env[{index}]: hides previous definition of {}, which may be dropped when using apply",
                go::quote(name)
            ));
        }
    }
}

fn ports(spec: &Value, at: &str, warnings: &mut Vec<String>) {
    let mut seen: BTreeMap<(i64, &str), Vec<(String, &Value)>> = BTreeMap::new();
    for (at, container) in containers(spec, at) {
        for (index, port) in container.list("ports").iter().enumerate() {
            let at = format!("{at}.ports[{index}]");
            if !port.str("hostIP").is_empty() && port.int("hostPort").unwrap_or_default() == 0 {
                warnings.push(format!("{at}: hostIP set without hostPort: {}", print_port(port)));
            }
            let id = (port.int("containerPort").unwrap_or_default(), port.str("protocol"));
            let others = seen.entry(id).or_default();
            for (other_at, other) in others.iter() {
                if let Some(how) = clash(port, other) {
                    warnings.push(format!("{at}: {how} port definition with {other_at}"));
                }
            }
            others.push((at, port));
        }
    }
}

/// Prints a port as Go's `%+v` does.
fn print_port(port: &Value) -> String {
    let number = |field: &str| port.int(field).unwrap_or_default();
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        port.str("name"),
        number("hostPort"),
        number("containerPort"),
        port.str("protocol"),
        port.str("hostIP"),
    )
}

/// How two ports with the same number and protocol conflict.
fn clash(port: &Value, other: &Value) -> Option<&'static str> {
    let host = |port: &Value| port.int("hostPort").unwrap_or_default();
    let (ip, other_ip) = (port.str("hostIP"), other.str("hostIP"));
    if ip == other_ip && host(port) == host(other) {
        Some("duplicate")
    } else if host(port) == 0 || host(other) == 0 {
        Some("overlapping")
    } else if host(port) == host(other) && ip.is_empty() != other_ip.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

fn port_names(spec: &Value, at: &str, warnings: &mut Vec<String>) {
    let mut seen: BTreeMap<&str, String> = BTreeMap::new();
    for (at, container) in containers(spec, at) {
        for (index, port) in container.list("ports").iter().enumerate() {
            let (name, at) = (port.str("name"), format!("{at}.ports[{index}]"));
            if name.is_empty() {
                continue;
            }
            match seen.get(name) {
                Some(first) => warnings.push(format!(
                    "{at}: duplicate port name {} with {first}, services and probes that select ports by name will \
                     use {first}",
                    go::quote(name)
                )),
                None => drop(seen.insert(name, at)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn warned(container: Value) -> Vec<String> {
        of("", "Pod", &json!({"spec": {"containers": [container]}}), None)
    }

    #[test]
    fn ports_in_each_others_way() {
        let port = |host: i64, ip: &str| json!({"containerPort": 80, "protocol": "TCP", "hostPort": host, "hostIP": ip});
        let how = |a: Value, b: Value| warned(json!({"ports": [a, b]})).join("");
        assert!(
            how(port(0, ""), port(0, ""))
                .contains(": duplicate port definition with spec.containers[0].ports[0]")
        );
        assert!(how(port(0, ""), port(81, "")).contains("overlapping"));
        assert!(how(port(81, ""), port(81, "1.1.1.1")).contains("dangerously ambiguous"));
        assert_eq!(how(port(81, "1.1.1.1"), port(82, "1.1.1.1")), "");
    }

    #[test]
    fn a_variable_may_build_on_an_earlier_one() {
        let env =
            |second: &str| json!({"env": [{"name": "X", "value": "1"}, {"name": "X", "value": second}]});
        assert_eq!(warned(env("$(X)2")), Vec::<String>::new());
        assert_eq!(warned(env("2")).len(), 1);
        assert_eq!(warned(env("$(X)")).len(), 1);
    }

    #[test]
    fn an_update_is_warned_of_with_its_generation() {
        let object = |generation: i64| {
            json!({"metadata": {"generation": generation},
                "spec": {"template": {"spec": {"terminationGracePeriodSeconds": -1}}}})
        };
        let of = |old: i64| of("apps", "Deployment", &object(2), Some(&object(old)));
        assert_eq!(of(2), Vec::<String>::new());
        assert_eq!(
            of(1),
            [
                "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be \
             treated as 1"
            ]
        );
    }

    #[test]
    fn names_of_pods_are_labels() {
        let told = |kind: &str, name: &str| {
            let group = if kind == "Pod" { "" } else { "apps" };
            of(group, kind, &json!({"metadata": {"name": name}, "spec": {}}), None)
        };
        assert_eq!(told("Deployment", "a-b"), [""; 0]);
        assert_eq!(told("StatefulSet", "a.b"), [""; 0]);
        assert_eq!(
            told("Deployment", "a.b"),
            [
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"
            ]
        );
        assert!(
            told("Pod", "a.b")[0].starts_with("metadata.name: this is used in the Pod's hostname, which")
        );
    }

    #[test]
    fn the_annotation_of_an_ingress_class_is_deprecated() {
        let mut ingress =
            json!({"metadata": {"annotations": {"kubernetes.io/ingress.class": "a"}}, "spec": {}});
        let told = |ingress: &Value| of("networking.k8s.io", "Ingress", ingress, None);
        assert_eq!(
            told(&ingress),
            [
                r#"annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead"#
            ]
        );
        ingress["spec"]["ingressClassName"] = json!("a");
        assert_eq!(told(&ingress), [""; 0]);
    }
}

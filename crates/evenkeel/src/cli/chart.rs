//! The manifests of an operator as a Helm chart and as a base for kustomize.
//!
//! The chart is derived from the manifests themselves. For every setting in `values.yaml` that changes more than a
//! field, the manifests are made with and without it, and objects that differ are put under a condition. Only the
//! Deployment, the ServiceAccount and the settings have hand-written templates (`chart/files`). A test renders the
//! chart with Helm and compares the result with the manifests, object by object.

mod kustomize;
mod values;

use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::replica::Replica;
use crate::Manifests;
pub(super) use kustomize::kustomize;
use values::Values;

/// A placeholder for the namespace of the release while the templates are made.
const NAMESPACE: &str = "evenkeel-namespace-of-the-release";
/// A placeholder for the lease's name and namespace, which are settings.
const LEASE: &str = "evenkeel-name-of-the-lease";
const LEASE_NAMESPACE: &str = "evenkeel-namespace-of-the-lease";
/// A placeholder for the name of the ServiceAccount, which is a setting.
const ACCOUNT: &str = "evenkeel-name-of-the-account";

/// A placeholder for the name of the operator in the files of `chart/files`.
const OPERATOR: &str = "@operator@";

/// Returns the template expressions that replace the placeholders. An opening `{{` in the operator's own texts is
/// escaped before.
fn replacements(name: &str) -> [(&'static str, String); 4] {
    [
        (NAMESPACE, "{{ .Release.Namespace }}".to_owned()),
        (LEASE, format!("{{{{ .Values.leaderElection.resourceName | default \"{name}\" }}}}")),
        (
            LEASE_NAMESPACE,
            "{{ .Values.leaderElection.resourceNamespace | default .Release.Namespace }}".to_owned(),
        ),
        (ACCOUNT, "{{ include \"operator.serviceAccountName\" . }}".to_owned()),
    ]
}

/// The files of a folder: their paths and texts.
pub(super) type Files = Vec<(String, String)>;

/// The input for a chart.
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) version: &'a str,
    pub(super) about: Option<&'a str>,
    pub(super) image: &'a str,
    pub(super) replicas: Option<u32>,
    pub(super) monitoring: bool,
    pub(super) replica: &'a Replica,
    /// The manifests without any flags.
    pub(super) manifests: &'a Manifests,
}

/// The settings that change more than a field, with their values in `values.yaml`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Switch {
    LeaderElection,
    Metrics,
    Secured,
    CertManager,
}

const SWITCHES: [(Switch, &str); 4] = [
    (Switch::LeaderElection, ".Values.leaderElection.enabled"),
    (Switch::Metrics, ".Values.metrics.enabled"),
    (Switch::Secured, ".Values.metrics.secure"),
    (Switch::CertManager, ".Values.webhooks.certManager"),
];

/// The positions of all switches, as bits in the order of [`SWITCHES`].
type Positions = usize;

/// The files of the templates, and the kinds of objects in each.
const TEMPLATES: [(&str, &[&str]); 6] = [
    ("crds.yaml", &["CustomResourceDefinition"]),
    ("rbac.yaml", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("services.yaml", &["Secret", "Service"]),
    ("availability.yaml", &["NetworkPolicy", "PodDisruptionBudget"]),
    ("monitoring.yaml", &["ConfigMap", "PrometheusRule", "ServiceMonitor"]),
    ("webhooks.yaml", &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]),
];

/// The files of a Helm chart.
pub(super) fn helm(source: &Source<'_>) -> anyhow::Result<Files> {
    let base = source.manifests.clone().in_namespace(NAMESPACE);
    let variants: Vec<Vec<Value>> = (0..1 << SWITCHES.len())
        .map(|positions| marked(source, &base, positions).map(|manifests| manifests.objects()))
        .collect::<anyhow::Result<_>>()?;
    let values = Values::of(source, &variants)?;
    let mut files = vec![
        (".helmignore".to_owned(), include_str!("chart/files/dot.helmignore").to_owned()),
        ("Chart.yaml".to_owned(), values::chart_yaml(source)?),
        ("values.yaml".to_owned(), values.yaml()?),
        ("values.schema.json".to_owned(), values.schema()?),
    ];
    let own = |text: &str| text.replace(OPERATOR, source.name);
    files.push(("templates/NOTES.txt".to_owned(), own(include_str!("chart/files/NOTES.txt"))));
    files
        .push(("templates/_helpers.tpl".to_owned(), values.helpers(include_str!("chart/files/helpers.tpl"))));
    files.push(("templates/deployment.yaml".to_owned(), own(include_str!("chart/files/deployment.yaml"))));
    let account = own(include_str!("chart/files/service-account.yaml"));
    files.push(("templates/service-account.yaml".to_owned(), account));
    for (file, kinds) in TEMPLATES {
        let text = template(source.name, &variants, kinds)?;
        if !text.is_empty() {
            files.push((format!("templates/{file}"), text));
        }
    }
    Ok(files)
}

/// Returns the manifests with every switch in its position, and with placeholders for what the templates fill in.
fn marked(source: &Source<'_>, base: &Manifests, positions: Positions) -> anyhow::Result<Manifests> {
    let on = |switch: Switch| {
        SWITCHES.iter().position(|(other, _)| *other == switch).is_some_and(|at| positions >> at & 1 == 1)
    };
    let mut replica = source.replica.clone();
    replica.lease(on(Switch::LeaderElection).then_some((LEASE, LEASE_NAMESPACE)));
    replica.metrics(on(Switch::Metrics), on(Switch::Secured));
    #[cfg(feature = "webhook-server")]
    replica.webhooks.certified_elsewhere(on(Switch::CertManager));
    // With two replicas there is a PodDisruptionBudget, which is put under a condition.
    let manifests = replica.deployed(base.clone(), source.name).image(source.image).replicas(2);
    Ok(manifests.monitoring())
}

/// Returns the template of all objects of these kinds, or an empty string if there are none.
fn template(name: &str, variants: &[Vec<Value>], kinds: &[&str]) -> anyhow::Result<String> {
    let mut seen: Vec<(String, String)> = Vec::new();
    for object in variants.iter().flatten() {
        if kinds.iter().any(|kind| object["kind"] == *kind) && !seen.contains(&identity(object)) {
            seen.push(identity(object));
        }
    }
    let mut text = String::new();
    for wanted in &seen {
        let one = |positions: Positions| {
            let found = variants[positions].iter().find(|object| identity(object) == *wanted);
            found.map(|object| document(name, object)).transpose().map(Option::unwrap_or_default)
        };
        let object = under_conditions(&one, 0, 0)?;
        text.push_str(&match guard(&wanted.0) {
            Some(condition) => format!("{{{{- if {condition} }}}}\n{object}{{{{- end }}}}\n"),
            None => object,
        });
    }
    Ok(text)
}

/// Returns the condition under which the chart contains the objects of a kind, if it depends on a setting.
fn guard(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "CustomResourceDefinition" => ".Values.crds.enabled",
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => ".Values.rbac.create",
        "NetworkPolicy" => ".Values.networkPolicy.enabled",
        "PodDisruptionBudget" => "and .Values.podDisruptionBudget.enabled (gt (int .Values.replicas) 1)",
        "ServiceMonitor" => ".Values.metrics.serviceMonitor.enabled",
        "PrometheusRule" => ".Values.metrics.prometheusRule.enabled",
        "ConfigMap" => ".Values.metrics.dashboard.enabled",
        _ => return None,
    })
}

fn identity(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    (text(&object["kind"]), format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"])))
}

/// An object under the conditions that it depends on: the switches from this one on are open, those before are set.
fn under_conditions(
    one: &dyn Fn(Positions) -> anyhow::Result<String>,
    switch: usize,
    positions: Positions,
) -> anyhow::Result<String> {
    let Some((_, condition)) = SWITCHES.get(switch) else { return one(positions) };
    let off = under_conditions(one, switch + 1, positions)?;
    let on = under_conditions(one, switch + 1, positions | 1 << switch)?;
    Ok(match (on == off, on.is_empty(), off.is_empty()) {
        (true, ..) => on,
        (_, _, true) => format!("{{{{- if {condition} }}}}\n{on}{{{{- end }}}}\n"),
        (_, true, _) => format!("{{{{- if not {condition} }}}}\n{off}{{{{- end }}}}\n"),
        _ => format!("{{{{- if {condition} }}}}\n{on}{{{{- else }}}}\n{off}{{{{- end }}}}\n"),
    })
}

/// An object as a YAML document of a template.
fn document(name: &str, object: &Value) -> anyhow::Result<String> {
    let mut object = object.clone();
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        subject["name"] = ACCOUNT.into();
    }
    let mut text = serde_saphyr::to_string(&object)?.replace("{{", "{{ \"{{\" }}");
    for (marker, value) in replacements(name) {
        text = text.replace(marker, &value);
    }
    if let Some(extra) = extra_metadata(&kind, !object["metadata"]["annotations"].is_null()) {
        let place = if extra.starts_with("    ") { "\n  annotations:\n" } else { "\nmetadata:\n" };
        text = text.replacen(place, &format!("{place}{extra}"), 1);
    }
    if let Some((place, extra)) = extra_fields(&kind) {
        text = text.replacen(place, &format!("{place}{extra}"), 1);
    }
    Ok(format!("---\n{text}"))
}

/// Returns the template lines for the settings of a kind's metadata.
fn extra_metadata(kind: &str, annotated: bool) -> Option<String> {
    const KEEP: &str = "helm.sh/resource-policy: keep\n";
    match (kind, annotated) {
        ("CustomResourceDefinition", false) => {
            Some(format!("  {{{{- if .Values.crds.keep }}}}\n  annotations:\n    {KEEP}  {{{{- end }}}}\n"))
        }
        ("CustomResourceDefinition", true) => {
            Some(format!("    {{{{- if .Values.crds.keep }}}}\n    {KEEP}    {{{{- end }}}}\n"))
        }
        _ => None,
    }
}

/// Returns the template lines for the settings of a kind, and the line after which they are inserted.
fn extra_fields(kind: &str) -> Option<(&'static str, String)> {
    let labels = |setting: &str| {
        format!(
            "    {{{{- with .Values.metrics.{setting}.labels }}}}\n    {{{{- toYaml . | nindent 4 }}}}\n    {{{{- end }}}}\n"
        )
    };
    Some(match kind {
        "ServiceMonitor" => ("\n  labels:\n", labels("serviceMonitor")),
        "PrometheusRule" => ("\n  labels:\n", labels("prometheusRule")),
        "ConfigMap" => ("\n  labels:\n", labels("dashboard")),
        _ => return None,
    })
}

/// Returns the files that this command makes only for some operators, by the sign of a chart or a base. The file of an
/// object that an operator no longer has must not stay behind.
fn made_for_some(sign: &str) -> Vec<String> {
    match sign {
        "Chart.yaml" => TEMPLATES.iter().map(|(file, _)| format!("templates/{file}")).collect(),
        _ => kustomize::BASE.iter().map(|(file, _)| (*file).to_owned()).collect(),
    }
}

/// Writes the files into a folder. The files of an earlier run are replaced or removed, and those that this command never
/// makes are left alone; a folder that holds something else is refused.
pub(super) fn write(folder: &Path, files: &Files, sign: &str) -> anyhow::Result<()> {
    let shown = folder.display();
    if folder.exists() {
        let mut entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {shown}"))?;
        if entries.next().is_some() && !folder.join(sign).exists() {
            bail!(
                "{shown} is not empty and has no {sign} (hint: name a new folder, or one that this command made)"
            );
        }
    }
    for (path, text) in files {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for path in made_for_some(sign).iter().filter(|path| files.iter().all(|(made, _)| made != *path)) {
        let path = folder.join(path);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

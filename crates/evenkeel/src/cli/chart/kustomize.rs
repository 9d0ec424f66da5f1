//! Writes a base for kustomize: the manifests in files by purpose, and a component for monitoring.

use serde_json::{Value, json};

use super::{Files, Source};

/// The files of the base, with the kinds of objects in each. All other kinds are in the last file.
pub(super) const BASE: [(&str, &[&str]); 5] = [
    ("crds.yaml", &["CustomResourceDefinition"]),
    ("rbac.yaml", &["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("availability.yaml", &["NetworkPolicy", "PodDisruptionBudget"]),
    ("webhooks.yaml", &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]),
    ("operator.yaml", &["Namespace", "Deployment", "Secret", "Service"]),
];
const MONITORING: &[&str] = &["ServiceMonitor", "PrometheusRule", "ConfigMap"];

/// Returns the files of a base. `kustomize build` prints what `manifests` prints, and overlays can change it.
pub(in crate::cli) fn kustomize(source: &Source<'_>) -> anyhow::Result<Files> {
    let manifests = source.replica.deployed(source.manifests.clone(), source.name).image(source.image);
    let manifests = match source.replicas {
        Some(replicas) => manifests.replicas(replicas),
        None => manifests,
    };
    let objects = manifests.monitoring().objects();
    let mut files = Files::new();
    let mut resources = Vec::new();
    for (file, kinds) in BASE {
        let text = documents(&objects, kinds)?;
        if !text.is_empty() {
            resources.push(file);
            files.push((file.to_owned(), text));
        }
    }
    let mut base = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources,
    });
    let monitoring = documents(&objects, MONITORING)?;
    if !monitoring.is_empty() {
        let component = json!({
            "apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component", "resources": ["monitoring.yaml"],
        });
        files.push((
            "components/monitoring/kustomization.yaml".to_owned(),
            serde_saphyr::to_string(&component)?,
        ));
        files.push(("components/monitoring/monitoring.yaml".to_owned(), monitoring));
        if source.monitoring {
            base["components"] = json!(["components/monitoring"]);
        }
    }
    files.insert(0, ("kustomization.yaml".to_owned(), serde_saphyr::to_string(&base)?));
    Ok(files)
}

fn documents(objects: &[Value], kinds: &[&str]) -> anyhow::Result<String> {
    let wanted = objects.iter().filter(|object| kinds.iter().any(|kind| object["kind"] == *kind));
    let documents: Result<Vec<String>, _> = wanted.map(serde_saphyr::to_string).collect();
    Ok(documents?.join("---\n"))
}

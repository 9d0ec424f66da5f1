//! Writes the function that returns the whole definition.

use serde_json::Value;

use crate::crates::Crates;
use crate::definition::Names;
use crate::literal::{json as json_text, string};
use crate::root::Version;

/// The annotation without which an API server refuses a definition in one of Kubernetes' own groups.
const APPROVED: &str = "api-approved.kubernetes.io";

/// Writes the function that returns the whole definition, because kube's derive covers only one version.
pub(crate) fn function(
    definition: &Value,
    names: &Names,
    versions: &[(String, Version)],
    crates: Crates,
) -> String {
    let prefix = crates.prefix();
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let mut changes = Vec::new();
    if versions.len() > 1 {
        let all: Vec<String> =
            versions.iter().map(|(path, version)| format!("{path}{}::crd()", version.root)).collect();
        changes.push(format!("let versions = [{}];", all.join(", ")));
        changes.push(
            "definition.spec.versions = versions.into_iter().flat_map(|it| it.spec.versions).collect();"
                .to_owned(),
        );
    }
    for (index, (_, version)) in versions.iter().enumerate() {
        if let Some(subresources) = &version.subresources {
            changes.push(parsed(prefix, &format!("spec.versions[{index}].subresources"), subresources));
        }
    }
    let list_kind = spec.pointer("/names/listKind").and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(list_kind) = list_kind.filter(|list_kind| *list_kind != format!("{}List", names.kind)) {
        changes.push(format!("definition.spec.names.list_kind = Some({}.to_owned());", string(list_kind)));
    }
    if spec.pointer("/conversion/strategy").is_some_and(|strategy| strategy != "None") {
        changes.push(parsed(prefix, "spec.conversion", &spec["conversion"]));
    }
    if let Some(approved) =
        definition.pointer("/metadata/annotations").and_then(|it| it.get(APPROVED)?.as_str())
    {
        let entry = format!("({}.to_owned(), {}.to_owned())", string(APPROVED), string(approved));
        changes.push(format!("definition.metadata.annotations = Some([{entry}].into_iter().collect());"));
    }
    let (path, first) = &versions[0];
    let crd = "k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition";
    let start = format!("{path}{}::crd()", first.root);
    let body = if changes.is_empty() {
        format!("    {start}\n")
    } else {
        let changes: String = changes.iter().map(|line| format!("    {line}\n")).collect();
        format!("    let mut definition = {start};\n{changes}    definition\n")
    };
    let doc = format!("/// The whole CustomResourceDefinition {}, with all versions.", names.definition);
    format!(
        "{doc}\npub fn definition() -> {prefix}{crd} {{\n    use {prefix}kube::CustomResourceExt as _;\n\n{body}}}\n"
    )
}

fn parsed(prefix: &str, place: &str, value: &Value) -> String {
    let text = json_text(value);
    let value = if text.starts_with("parsed(") { text } else { format!("{prefix}serde_json::json!({text})") };
    format!("definition.{place} = {prefix}serde_json::from_value({value}).expect(\"the source had this\");")
}

//! Compiles generated types, runs them, and compares the definition that they describe with the source.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use evenkeel_codegen::{Generated, compare};
use serde_json::Value;

use crate::hint::Hinted;

/// The manifest of the temporary crate, with the versions that generated code is written for.
const MANIFEST: &str = r#"[package]
name = "generated-types"
version = "0.0.0"
edition = "2024"
publish = false

[workspace]

[dependencies]
k8s-openapi = { version = "0.29", features = ["latest"] }
kube = { version = "5", default-features = false, features = ["derive"] }
schemars = "1"
serde = { version = "1", features = ["derive"] }
serde_json = "1"

[profile.dev]
debug = false
incremental = false
"#;

/// Compiles and runs the types, and lists all differences on stderr. Fails if there are any.
pub(super) fn check(objects: &[Value], generated: &Generated) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    write_crate(folder.path(), generated)?;
    let output = Command::new("cargo")
        .args(["run", "--quiet"])
        // The user's project may have settings that must not apply, such as another version of Kubernetes.
        .current_dir(folder.path())
        .env_remove("K8S_OPENAPI_ENABLED_VERSION")
        .stderr(Stdio::inherit())
        .output()
        .context(Hinted::new("cannot run cargo", "--check needs Rust: https://rustup.rs"))?;
    if !output.status.success() {
        bail!("the generated types do not compile or run: {}", output.status);
    }
    let produced: Vec<Value> =
        serde_json::from_slice(&output.stdout).context("cannot read the definitions")?;
    let mut count = 0;
    for ((name, _), produced) in generated.definitions.iter().zip(&produced) {
        let source = source(objects, name).with_context(|| format!("the source has no {name}"))?;
        let differences = compare(source, produced);
        count += differences.len();
        differences.iter().for_each(|difference| eprintln!("different: {name}: {difference}"));
    }
    if count > 0 {
        bail!("the types differ from their source in {count} places");
    }
    eprintln!("checked {} definitions: the types compile, and describe their source", produced.len());
    Ok(())
}

/// Returns the definition with this name, also from within lists.
fn source<'a>(objects: &'a [Value], name: &str) -> Option<&'a Value> {
    objects.iter().find_map(|object| match object.get("items").and_then(Value::as_array) {
        Some(items) => source(items, name),
        None => Some(object).filter(|object| object["metadata"]["name"] == name),
    })
}

fn write_crate(folder: &Path, generated: &Generated) -> anyhow::Result<()> {
    let call = |path: &str| {
        format!("        serde_json::to_value(types::{path}()).expect(\"a definition is JSON\"),\n")
    };
    let calls: String = generated.definitions.iter().map(|(_, path)| call(path)).collect();
    let main = format!(
        "#[allow(dead_code)]\nmod types;\n\nfn main() {{\n    let all = serde_json::Value::Array(vec![\n{calls}    ]);\n    println!(\"{{all}}\");\n}}\n"
    );
    std::fs::create_dir(folder.join("src"))?;
    std::fs::write(folder.join("Cargo.toml"), MANIFEST)?;
    std::fs::write(folder.join("src/main.rs"), main)?;
    std::fs::write(folder.join("src/types.rs"), &generated.source)?;
    Ok(())
}

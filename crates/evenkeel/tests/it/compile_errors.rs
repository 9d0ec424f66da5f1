//! Mistakes that users make give compile errors that say what to do.
//!
//! Each file in `compile_errors/` has one mistake. Its lines that begin with `//~ ` are texts that the compiler's
//! answer must contain.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// The crate that the cases use.
const LIBRARY: &str = "evenkeel";

#[test]
fn mistakes_are_answered_by_what_to_do() {
    let library = library();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_errors");
    let cases = std::fs::read_dir(folder).expect("the cases are there");
    let mut cases: Vec<PathBuf> = cases.flatten().map(|entry| entry.path()).collect();
    cases.sort();
    assert!(cases.len() >= 11, "{cases:?}");
    let wrong: Vec<String> = cases.iter().filter_map(|case| check(case, &library)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Compiles one case. Returns what is wrong with the compiler's answer.
fn check(case: &Path, library: &Path) -> Option<String> {
    let text = std::fs::read_to_string(case).expect("a case is text");
    let expected: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("//~ ")).collect();
    assert!(!expected.is_empty(), "{} expects nothing", case.display());
    let dependencies = library.parent().expect("a library is in a folder");
    let answer = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "--out-dir"])
        .args([env!("CARGO_TARGET_TMPDIR"), "--extern"])
        .args([format!("{LIBRARY}={}", library.display()), "-L".into()])
        .args([format!("dependency={}", dependencies.display())])
        .arg(case)
        .output()
        .expect("rustc runs, as it made this test");
    let said = String::from_utf8_lossy(&answer.stderr);
    let missing: Vec<&str> = expected.into_iter().filter(|text| !said.contains(text)).collect();
    let wrong = answer.status.success() || !missing.is_empty();
    wrong.then(|| format!("{}: the compiler does not say {missing:?}:\n{said}", case.display()))
}

/// The library as `cargo check` makes it, which is what the compiler needs to check a user's code.
fn library() -> PathBuf {
    let checked = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["check", "--package", LIBRARY, "--message-format", "json", "--quiet"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs, as it runs this test");
    let messages = String::from_utf8_lossy(&checked.stdout);
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let library = artifacts.filter(is_library).find_map(|artifact| metadata(&artifact));
    library.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&checked.stderr)))
}

fn is_library(artifact: &Value) -> bool {
    artifact["target"]["name"] == LIBRARY && artifact["target"]["kind"] == json!(["lib"])
}

fn metadata(artifact: &Value) -> Option<PathBuf> {
    let files = artifact["filenames"].as_array()?.iter().filter_map(Value::as_str);
    files.filter(|file| file.ends_with(".rmeta")).map(PathBuf::from).next()
}

//! What the binary says of itself.

use std::process::Command;

fn output(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_evenkeel")).args(arguments).output().expect("the binary runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

#[test]
fn shells_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(output(&["completions", shell]).contains("snapshot"), "{shell}");
    }
}

#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    output(&["man", folder.path().to_str().expect("the path is text")]);
    for page in ["evenkeel.1", "evenkeel-up.1", "evenkeel-generate-types.1"] {
        assert!(folder.path().join(page).is_file(), "{page}");
    }
}

#[test]
fn the_version_names_kubernetes() {
    let expected = format!("evenkeel {}\nKubernetes v1.", env!("CARGO_PKG_VERSION"));
    assert!(output(&["version"]).starts_with(&expected));
}

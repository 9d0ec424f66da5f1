//! `evenkeel new` from a user's point of view. `tests/new.sh` builds and runs what it writes.

use std::path::Path;
use std::process::{Command, Output};

fn new(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.arg("new").args(arguments).current_dir(folder).output().expect("the binary runs")
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there").flatten();
    entries.map(|entry| entry.file_name().into_string().expect("names are text")).collect()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("there is a temporary folder")
}

#[test]
fn an_operator_is_written_whole() {
    let folder = folder();
    let output = new(folder.path(), &["web-shop", "--group", "shop.example.com", "--version", "v1beta1"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(entries(folder.path()), ["web-shop"]);
    let read = |path: &str| std::fs::read_to_string(folder.path().join("web-shop").join(path)).expect(path);
    assert!(read("src/lib.rs").contains("kind = \"WebShop\","));
    assert!(read("src/main.rs").contains("web_shop::operator().main()"));
    assert!(
        read("Cargo.toml").contains(&format!("evenkeel = {{ version = \"{}\"", env!("CARGO_PKG_VERSION")))
    );
    for file in
        ["Dockerfile", "LICENSE", ".gitignore", ".github/workflows/ci.yaml", "tests/it.rs", "README.md"]
    {
        assert!(!read(file).is_empty());
    }
}

#[test]
fn a_refusal_leaves_nothing() {
    let check = |arguments: &[&str], expected: &str| {
        let folder = folder();
        let output = new(folder.path(), arguments);
        let told = String::from_utf8(output.stderr).expect("it is text");
        assert!(!output.status.success());
        assert!(told.contains(expected), "{told}");
        assert_eq!(entries(folder.path()), Vec::<String>::new());
    };
    check(&[], "the operator has no name: nothing was written\nhint: evenkeel new NAME");
    check(&["Shop"], "`Shop` cannot name an operator");
    check(&["shop", "--kind", "shop"], "`shop` cannot be a kind");
    check(&["shop", "--group", "shop"], "`shop` cannot be a group");
    check(&["shop", "--version", "1"], "`1` cannot be a version");
    check(&["shop", "--path", "."], "hint: --path names a checkout of Evenkeel");
}

#[test]
fn an_existing_folder_stays_as_it_is() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("shop")).expect("the folder is new");
    let output = new(folder.path(), &["shop"]);
    assert!(!output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("error: shop already exists: nothing was written")
    );
    assert_eq!(entries(&folder.path().join("shop")), Vec::<String>::new());
}

#[test]
fn without_cargo_nothing_is_written() {
    let folder = folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let output = command.args(["new", "shop"]).current_dir(folder.path()).env("PATH", "").output();
    let output = output.expect("the binary runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("hint: install Rust"), "{output:?}");
    assert_eq!(entries(folder.path()), Vec::<String>::new());
}

//! `evenkeel generate types` from a user's point of view.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Ship, plural: ships}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec: {type: object, properties: {sails: {type: integer, format: int32}}}
";

fn types(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["generate", "types"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    child.stdin.take().expect("stdin is a pipe").write_all(input.as_bytes()).expect("the binary reads stdin");
    child.wait_with_output().expect("the binary ends")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the output is text")
}

#[test]
fn stdin_becomes_stdout() {
    let output = types(&["-"], &format!("---\n{DEFINITION}\n---\nkind: Secret\nmetadata: {{name: s}}\n"));
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).contains("pub sails: Option<i32>,"));
    assert!(text(&output.stderr).contains("not expressed: Secret s: skipped"), "{output:?}");
}

#[test]
fn a_file_becomes_a_file() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let (input, output) = (folder.path().join("ships.yaml"), folder.path().join("ships.rs"));
    std::fs::write(&input, DEFINITION).expect("the file can be written");
    let paths = [&input, &output].map(|path| path.to_str().expect("the path is text"));
    let ran = types(&[paths[0], "--output", paths[1], "--evenkeel"], "");
    assert!(ran.status.success(), "{ran:?}");
    assert!(ran.stdout.is_empty());
    assert!(std::fs::read_to_string(output).expect("it is there").contains("#[evenkeel::api]"));
}

#[test]
fn mistakes_are_told() {
    let check = |arguments: &[&str], input: &str, expected: &str| {
        let output = types(arguments, input);
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    };
    check(
        &["-"],
        "kind: Ship",
        "found no CustomResourceDefinition\nhint: the input is the CustomResourceDefinition",
    );
    check(&["-"], "a: [", "error: cannot read -");
    check(&["/no/such/file"], "", "cannot read /no/such/file");
    check(&[], "", "required arguments were not provided");
    check(&["http://127.0.0.1:1/x"], "", "hint: or pipe it: curl");
    check(&["--from-cluster", "x", "--kubeconfig", "/no/such"], "", "hint: name the cluster's kubeconfig");
}

/// Each of these lists is a hundred levels deep and ends with the list before it. The reader of YAML recursed over all of
/// them, and the process ended by a stack overflow.
#[test]
fn input_that_nests_thousands_of_levels_is_refused() {
    let nested = |n: usize| format!("v{n}: &v{n} {}*v{}{}\n", "[".repeat(100), n - 1, "]".repeat(100));
    let aliases: String = (1..1_000).map(nested).collect();
    for input in [format!("v0: &v0 [1]\n{aliases}"), "[".repeat(100_000), "{\"a\":".repeat(100_000)] {
        let output = types(&["-"], &input);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).starts_with("error: cannot read -"), "{output:?}");
    }
}

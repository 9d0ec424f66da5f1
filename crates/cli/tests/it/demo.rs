//! `evenkeel demo`: it converges with the operators, and says what did not without them.

use std::process::{Command, Output};

fn demo(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["demo", "--exit", "--kubeconfig"]).arg(folder.path().join("kubeconfig")).args(arguments);
    command.output().expect("the binary runs")
}

#[test]
fn it_converges_and_shows_every_station() {
    let output = demo(&[]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{shown}{errors}");
    for station in [
        "accepted",
        "reconciled",
        "applied",
        "created",
        "scheduled",
        "ready",
        "status",
        "deleted",
        "collected",
    ] {
        assert!(shown.lines().any(|line| line.contains(&format!("  {station} "))), "no {station} in {shown}");
    }
    assert!(shown.contains("converged"), "{shown}");
}

#[test]
fn without_operators_it_fails_and_says_what_did_not_converge() {
    let output = demo(&["--no-operators"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("myresources/web: its phase is None, not Ready"), "{errors}");
    assert!(errors.contains("databases/orders: its phase is None, not Running"), "{errors}");
}

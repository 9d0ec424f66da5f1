//! `evenkeel demo`: it converges with the operators, and shows what does not converge without them.

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
        "woken",
        "applied",
        "created",
        "scheduled",
        "ready",
        "status",
        "finalizer",
        "deleted",
        "collected",
        "stopped",
    ] {
        assert!(shown.lines().any(|line| line.contains(&format!("  {station} "))), "no {station} in {shown}");
    }
    for operator in ["my-resource", "visitors-app", "database", "vcap-services-converter", "pod-sidecar"] {
        let writes = |line: &&str| line.contains("  applied ") && line.contains(&format!("  {operator} "));
        assert!(shown.lines().any(|line| writes(&line)), "{operator} applied nothing in {shown}");
    }
    let cause = "woken      my-resource              for default/web: MyResource default/web created";
    assert!(shown.contains(cause), "{shown}");
    assert!(shown.contains("kubectl: export KUBECONFIG=/"), "{shown}");
    assert!(shown.contains("converged: every act ended as declared"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "there are no escapes in what is piped: {shown}");
}

#[test]
fn a_port_that_is_taken_and_a_flag_that_is_wrong_are_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let output = demo(&["--bind", &address]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.starts_with(&format!("error: cannot listen on {address}")), "{errors}");
    assert!(errors.contains("hint: another program listens on port"), "{errors}");

    let output = demo(&["--exti"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("unexpected argument '--exti'") && errors.contains("'--exit'"), "{errors}");

    let output = demo(&["--log", "info,=="]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.starts_with("error: cannot read --log info,=="), "{errors}");
    assert!(errors.contains("hint: filters look like `debug`"), "{errors}");
}

#[test]
fn without_operators_it_fails_and_says_what_did_not_converge() {
    let output = demo(&["--no-operators"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    for expected in [
        "MyResource web: its phase is unset, not Ready",
        "VisitorsApp guestbook: its condition Ready is unset, not True",
        "Database orders: its phase is unset, not Running",
        "VcapServicesConverter shop: its condition Converted is unset, not True",
        "Pod web-companion: it does not exist",
    ] {
        assert!(errors.contains(expected), "no {expected:?} in {errors}");
    }
}

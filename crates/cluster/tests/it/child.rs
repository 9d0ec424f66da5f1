//! Tests of this binary in a process of their own: for what a variable decides, and for what a failed test prints.

use std::process::Command;

/// Set in the other process.
const CHILD: &str = "EVENKEEL_TEST_CHILD";

/// What a test in another process came to.
pub(crate) struct Played {
    pub(crate) passed: bool,
    /// What it and the harness printed, stdout first.
    pub(crate) told: String,
}

/// Whether this process was started by [`play`]; what has no business elsewhere returns at once without.
pub(crate) fn is_this() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs one test of this binary with these variables, and with no other of the test kit's.
pub(crate) fn play(test: &str, variables: &[(&str, &str)]) -> Played {
    let mut child = Command::new(std::env::current_exe().expect("a test knows its binary"));
    child.args(["--exact", test, "--nocapture"]).env(CHILD, "1");
    for name in ["EVENKEEL_SEED", "EVENKEEL_REAL_TIME", "EVENKEEL_KUBECONFIG"] {
        child.env_remove(name);
    }
    let output = child.envs(variables.iter().copied()).output().expect("the test binary runs");
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    Played { passed: output.status.success(), told }
}

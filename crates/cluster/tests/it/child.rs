//! Runs tests of this binary in another process, with other environment variables, and captures their output.

use std::process::Command;

/// The environment variable that is set in the other process.
const CHILD: &str = "EVENKEEL_TEST_CHILD";

/// The result of a test in another process.
pub(crate) struct Played {
    pub(crate) passed: bool,
    /// The output of the test and of the harness, stdout first.
    pub(crate) told: String,
}

/// Whether [`play`] has started this process. Tests that are parts of others return at once if not.
pub(crate) fn is_this() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs one test of this binary with these environment variables, and without other settings of the test kit.
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

//! The settings of tests, from the `EVENKEEL_*` environment variables.

use std::path::PathBuf;

/// The seed of a test unless `EVENKEEL_SEED` sets another one. It is fixed, so that a failure can be reproduced.
pub const DEFAULT_SEED: u64 = 0;

/// The environment variable that names the kubeconfig of a remote cluster for tests to run on.
pub const KUBECONFIG: &str = "EVENKEEL_KUBECONFIG";

/// The environment variable that, set to `1`, makes tests run in real time on a runtime with several threads.
pub const REAL_TIME: &str = "EVENKEEL_REAL_TIME";

/// The seed of this process: `EVENKEEL_SEED`, or [`DEFAULT_SEED`].
pub fn seed() -> u64 {
    let set = std::env::var("EVENKEEL_SEED").ok();
    set.and_then(|seed| seed.parse().ok()).unwrap_or(DEFAULT_SEED)
}

/// The kubeconfig of the remote cluster that the tests shall run on, if there is one.
pub(crate) fn kubeconfig() -> Option<PathBuf> {
    std::env::var_os(KUBECONFIG).map(PathBuf::from)
}

/// Whether tests run in real time.
pub(crate) fn real_time() -> bool {
    std::env::var(REAL_TIME).is_ok_and(|on| on == "1")
}

/// Whether a test writes the files that it would otherwise compare with.
pub(crate) fn update() -> bool {
    std::env::var_os("EVENKEEL_UPDATE").is_some()
}

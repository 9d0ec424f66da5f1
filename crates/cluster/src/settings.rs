//! The settings of tests, from the `EVENKEEL_*` environment variables.

use std::path::PathBuf;

/// The seed of a test unless `EVENKEEL_SEED` sets another one. It is fixed, so that a failure can be reproduced.
pub const DEFAULT_SEED: u64 = 0;

/// The environment variable that names the kubeconfig of a remote cluster for tests to run on.
pub const KUBECONFIG: &str = "EVENKEEL_KUBECONFIG";

/// The environment variable that, set to `1`, makes tests run in real time on a runtime with several threads.
pub const REAL_TIME: &str = "EVENKEEL_REAL_TIME";

/// The seed of this process: `EVENKEEL_SEED`, or [`DEFAULT_SEED`].
///
/// # Panics
/// When `EVENKEEL_SEED` is not a number.
pub fn seed() -> u64 {
    or_panic(evenkeel_env::setting("EVENKEEL_SEED")).unwrap_or(DEFAULT_SEED)
}

/// The kubeconfig of the remote cluster that the tests shall run on, if there is one.
pub(crate) fn kubeconfig() -> Option<PathBuf> {
    std::env::var_os(KUBECONFIG).map(PathBuf::from)
}

/// Whether tests run in real time.
pub(crate) fn real_time() -> bool {
    or_panic(evenkeel_env::flag(REAL_TIME))
}

/// Whether a test writes the files that it would otherwise compare with.
pub(crate) fn update() -> bool {
    or_panic(evenkeel_env::flag("EVENKEEL_UPDATE"))
}

/// Fails a test whose settings are malformed: with defaults instead, the test would not be the one that was asked for.
fn or_panic<T>(setting: Result<T, evenkeel_env::SettingError>) -> T {
    setting.unwrap_or_else(|error| panic!("{error}"))
}

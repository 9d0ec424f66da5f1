//! The settings of tests, from the `EVENKEEL_*` environment variables. A malformed setting is an error.

use std::path::PathBuf;

use evenkeel_env::{SettingError, flag, setting};

/// The seed of a test unless `EVENKEEL_SEED` sets another one. It is fixed, so that a failure can be reproduced.
pub const DEFAULT_SEED: u64 = 0;

/// The environment variable that names the kubeconfig of a remote cluster for tests to run on.
pub const KUBECONFIG: &str = "EVENKEEL_KUBECONFIG";

/// The environment variable that, set to `1`, makes tests run in real time on a runtime with several threads.
pub const REAL_TIME: &str = "EVENKEEL_REAL_TIME";

/// The seed of this process: `EVENKEEL_SEED`, or [`DEFAULT_SEED`].
pub(crate) fn seed() -> Result<u64, SettingError> {
    Ok(setting("EVENKEEL_SEED")?.unwrap_or(DEFAULT_SEED))
}

/// The kubeconfig of the remote cluster that the tests shall run on, if there is one.
pub(crate) fn kubeconfig() -> Option<PathBuf> {
    std::env::var_os(KUBECONFIG).map(PathBuf::from)
}

/// Whether tests run in real time.
pub(crate) fn real_time() -> Result<bool, SettingError> {
    flag(REAL_TIME)
}

/// Whether tests write the files that they otherwise compare with.
pub(crate) fn update() -> Result<bool, SettingError> {
    flag("EVENKEEL_UPDATE")
}

//! What `#[evenkeel::test]` expands to, and the checks for operators.

mod crash_matrix;
mod files;
mod rbac_trim;
mod round_trips;
mod run;
mod scenario;
mod skip;
mod upgrade;

pub use crate::kit::{assert_has, assert_same, diff};
pub use crate::settings::{DEFAULT_SEED, KUBECONFIG, REAL_TIME};
pub use crash_matrix::crash_everywhere;
pub use files::{assert_file, lines};
pub use rbac_trim::{as_service_account, unused_rules};
pub use round_trips::{Change, Loss, round_trip_losses, round_trips};
pub use run::{NAMESPACE_PREFIX, TestResult, cluster, options, run, seed};
pub use scenario::Scenario;
#[doc(hidden)]
pub use skip::{Skipped, skip};
pub use upgrade::{Release, UpgradeStage, upgrade};

//! Properties of the engines that change objects, over random objects.

#![expect(clippy::unwrap_used, reason = "what a test unwraps wrongly fails it, as it should")]

mod depth;
mod fieldsets;
mod ownership;
mod pods;
mod recorded;
mod rules;
mod settled;
mod strategic;

use proptest::test_runner::Config;

/// Enough cases to meet every rule, few enough for a debug build; a failure is told, not written into the tree.
fn cases() -> Config {
    Config { cases: 96, failure_persistence: None, ..Config::default() }
}

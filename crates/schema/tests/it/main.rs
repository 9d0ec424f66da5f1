//! Properties of the code that changes objects, tested with random objects.

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

/// Enough cases to reach every rule, but few enough for a debug build. Failures are reported, not written
/// into the source tree.
fn cases() -> Config {
    Config { cases: 96, failure_persistence: None, ..Config::default() }
}

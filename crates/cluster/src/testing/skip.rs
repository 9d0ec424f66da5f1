//! Tests that run on the embedded cluster alone.

use crate::settings;

/// The result of a test that is skipped: that of a test that passes.
pub trait Skipped {
    /// The result of a skipped test.
    fn skipped() -> Self;
}

impl Skipped for () {
    fn skipped() -> Self {}
}

impl<E> Skipped for Result<(), E> {
    fn skipped() -> Self {
        Ok(())
    }
}

/// Skips a test that needs the embedded cluster if the tests run on a remote one. Returns the test's result and prints
/// the reason to stdout. Returns `None` if the test shall run.
pub fn skip<R: Skipped>(test: &str, why: &str) -> Option<R> {
    settings::kubeconfig()?;
    println!("remote: skipped {test}: {why}");
    Some(R::skipped())
}

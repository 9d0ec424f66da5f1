//! Stands in for webhooks in a build without the feature `webhooks`: there are none.

#[derive(Default)]
pub(super) struct Hooks;

impl Hooks {
    pub(super) fn is_empty(&self) -> bool {
        true
    }
}

//! Replaces the webhooks of a manager in a build without the feature `webhooks`.

use tokio_util::sync::CancellationToken;

use super::stage::Stages;
use super::{Manager, ManagerError};
use crate::manifests::Manifests;
use crate::tasks::Tasks;

#[derive(Default)]
pub(super) struct Hooks;

impl Manager {
    pub(super) fn declare_webhooks(&self, manifests: Manifests) -> Manifests {
        manifests
    }

    pub(super) fn start_webhooks(
        &mut self,
        _: &Tasks,
        _: &mut Stages,
        _: CancellationToken,
    ) -> Result<(), ManagerError> {
        Ok(())
    }
}

//! Stands in for the election in a build without the feature `leader-election`: this process leads from the start.

use std::convert::Infallible;

use evenkeel_env::Env;
use kube::Client;

use super::ManagerError;
use crate::controller::Host;
use crate::fence::Fence;

/// There is no election to take part in.
pub(super) type Election = Infallible;

pub(super) struct Leadership;

impl Leadership {
    pub(super) fn start(_: Option<Election>, _: &Client, _: &Env, _: Fence, _: &Host) -> Self {
        Self
    }

    pub(super) async fn lost(&mut self) -> ManagerError {
        std::future::pending().await
    }

    pub(super) fn is_lost(&self) -> bool {
        false
    }

    pub(super) async fn release(self) {}
}

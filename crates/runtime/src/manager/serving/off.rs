//! Stands in for the endpoints in a build without the feature `health`: nothing is served.

use super::Manager;
use super::stage::Stages;
use crate::tasks::Tasks;

#[derive(Default)]
pub(super) struct Serving;

impl Serving {
    pub(super) fn port(&self) -> Option<u16> {
        None
    }

    pub(super) fn metrics_port(&self) -> Option<u16> {
        None
    }
}

impl Manager {
    pub(super) fn start_serving(&mut self, _: &Tasks, _: &mut Stages) {}
}

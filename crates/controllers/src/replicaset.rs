//! ReplicaSets: as many pods as are wanted.

pub(crate) mod plan;
mod ranking;
pub(crate) mod status;

pub(crate) use plan::Pods;

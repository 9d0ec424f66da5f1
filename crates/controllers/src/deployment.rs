//! Deployments: rollouts of ReplicaSets.

mod conditions;
mod revision;
pub(crate) mod rollout;
mod scaling;
mod status;

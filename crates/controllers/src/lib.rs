//! The built-in controllers, the scheduler and the simulated nodes.

mod claim;
mod deployment;
mod history;
mod int_or_percent;
mod pod;
mod replicaset;
mod statefulset;
mod template;

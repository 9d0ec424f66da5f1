//! The built-in controllers, the scheduler and the simulated nodes.

mod claim;
mod deployment;
mod history;
mod int_or_percent;
mod node;
mod pod;
mod quantity;
mod replicaset;
mod scheduler;
mod statefulset;
mod template;

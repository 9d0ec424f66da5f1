//! The scheduler: pods to nodes.

mod affinity;
mod placement;
mod resources;

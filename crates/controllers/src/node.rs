//! Simulated nodes.

mod behaviour;
mod digest;
mod lifecycle;
mod status;

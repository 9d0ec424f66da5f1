//! The binary from a user's point of view.

mod audit;
mod demo;
mod load;
mod snapshot;
mod up;

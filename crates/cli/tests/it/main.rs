//! The binary from a user's point of view. The tests send signals and check permissions, so they need Unix.

#![cfg(unix)]

mod audit;
mod demo;
mod load;
mod secrets;
mod snapshot;
mod up;

//! The binary as its users meet it.

mod audit;
mod demo;
mod load;
mod snapshot;
mod up;

//! The binary as its users meet it.

mod demo;
mod load;
mod up;

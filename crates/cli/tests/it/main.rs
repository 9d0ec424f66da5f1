//! The binary as its users meet it.

mod demo;
mod up;

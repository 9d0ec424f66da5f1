//! The binary `evenkeel`.
fn main() {}

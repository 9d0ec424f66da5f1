//! Further bugs of the same patterns, which are in no public report: each buggy form is found, and each fixed one passes.

mod claims;
mod errors;
mod memory;
mod secrets;

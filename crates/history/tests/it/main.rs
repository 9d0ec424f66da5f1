//! The checker against histories that are right, made by a simulated server, and against histories that are wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod right;
mod simulate;
mod wrong;

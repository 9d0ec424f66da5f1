//! The checker accepts histories of a correct simulated server and rejects others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accepted;
mod rejected;
mod simulate;

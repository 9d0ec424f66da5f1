//! What the store promises, as its users see it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod memory;

use evenkeel_store::{Expect, Op, Write};

fn put(key: &str, value: &str) -> Write<()> {
    Write { key: key.into(), expect: Expect::Any, op: Op::Put(value.to_owned().into(), ()) }
}

fn delete(key: &str) -> Write<()> {
    Write { key: key.into(), expect: Expect::Any, op: Op::Delete }
}

//! The generator proves itself: `features.rs` is what it generates from `features.yaml`, and is compiled here.

#[rustfmt::skip]
#[allow(dead_code, missing_docs, unreachable_pub)]
mod features;
mod proof;
mod text;

//! Objects as they are stored: canonical bytes in, parsed objects out.

mod encode;
mod read;

pub(crate) use encode::{check_depth, encode, fit_to_limit};
pub(crate) use read::{check_readable, read, read_or_skip};

//! Reads: get, list and watch, answered from stored bytes and headers.

mod get;
mod list;
mod page;
mod select;
mod watch;

pub(crate) use get::get;
pub(crate) use list::{list, write_list};
pub(crate) use select::Selection;
pub(crate) use watch::watch;

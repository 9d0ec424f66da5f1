//! Reads: get, list and watch, answered from stored bytes and headers.

mod get;
mod items;
mod list;
mod page;
mod select;
mod watch;

pub(crate) use get::{find as find_named, get, get_now, respond_object};
pub(crate) use list::{find as find_entries, list, validate as validate_list, write_list};
pub(crate) use select::Selection;
pub(crate) use watch::watch;

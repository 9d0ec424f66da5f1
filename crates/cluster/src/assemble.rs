//! Puts a cluster together: the options, the start of an embedded cluster, and the connection to a remote one.

mod builder;
mod connect;
mod sleep;
mod start;

pub use builder::Builder;
pub(crate) use builder::SETTLE_LIMIT;
pub use start::StartError;

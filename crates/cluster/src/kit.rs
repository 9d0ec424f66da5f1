//! The test kit on [`Cluster`](crate::Cluster): wait for it, look at what happened, break things, read and write
//! objects, and compare them.

mod applications;
mod assert;
mod diff;
mod direct;
mod faults;
mod install;
mod look;
mod objects;
mod outside;
mod pods;
mod record;
mod unrest;
mod wait;
mod webhooks;

pub use applications::{ClusterHttp, HttpError};
pub use assert::{assert_has, assert_same, diff};
pub use diff::Diff;
pub use direct::{StoredChange, StoredObject};
pub use objects::ApiScope;
pub use outside::{Outside, OutsideError};
pub use record::{RECORD_PATH, RecordFollower};

//! The record of what controllers did and why, in the one format that everything speaks: the flight recorder of a
//! manager, the timeline of a test, the page of the dashboard and the files that `evenkeel record --save` writes.
//!
//! [`Record`] is the document. [`Entry`] is one thing that happened: a reconcile, a request, a call to a webhook, a
//! change of a watch or of the leadership, a disturbance by a test. [`questions`] answers questions over a record, as
//! pure functions: the life of an object, the slowest reconciles, loops, keys that are stuck. [`why`] puts a record and
//! the objects of a cluster together and says in one line why an object is as it is.
//!
//! *Invariant:* a record never holds the value of a string field of an object. Changes are field paths; only numbers,
//! booleans and the words of conditions have values, and those of a Secret or of a sensitive field have none.
//!
//! *Invariant:* no IO, no async, no clock.

mod cause;
mod entry;
pub mod questions;
mod record;
mod text;
pub mod why;

pub use cause::Cause;
pub use entry::{Change, Entry, Outcome, Read, Reconcile, Sent, WebhookCall};
pub use record::{Controller, Key, Origin, ReadError, Record, VERSION, Watch, WatchState};
pub use text::{duration, line};

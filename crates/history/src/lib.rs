//! Histories of what clients of an API server did and saw, and a checker that says whether the server kept its word.
//!
//! A [`History`] holds requests with their answers, lists and watches, all stamped by one counter, so that "before"
//! means before in real time. [`check`] refuses a history that no correct server could have produced:
//!
//! * *each object is linearizable*: one order of the writes explains every answer and every read, and respects real
//!   time. A request whose connection broke may have happened or not, but not after its server had died.
//! * *revisions form one line*: a revision names one change for ever, a write gets a higher revision than all that was
//!   seen before it was sent, and a list shows every object as it was at the revision of the list.
//! * *watches miss and repeat nothing*: between the revision that a watch began at and the last one that it showed, it
//!   shows exactly the changes that anybody saw, in order.
//!
//! **The algorithm** is Wing and Gong's search with Lowe's memory of configurations, for each object by itself, as
//! Porcupine and Knossos do it. It is written here, because the checkers that crates.io has (`stateright`,
//! `todc-utils`) know neither a request that may not have happened nor a history that is too long to be held in one
//! search. Two facts of this domain keep the search small: an answer carries the revision of its write, so that the
//! order of acknowledged writes is known; and a history falls into independent pieces wherever no request is open,
//! which is the case at every kill.
//!
//! `evenkeel-kill` makes such histories by killing `evenkeel up` (`tests/kill.sh`). `evenkeel-failover` plays two
//! replicas of an operator against each other, and checks by [`check_terms`] that no write of an old leader landed after
//! the first one of a new leader.

mod check;
pub mod client;
mod history;
mod line;
mod linearize;
mod lists;
mod record;
mod register;
pub mod server;
mod terms;
mod violation;
mod watches;

pub use check::{Summary, check};
pub use history::{
    Answer, Call, Change, ChangeKind, Content, History, Key, Listing, Object, Operation, Revision, Stream,
    Tick,
};
pub use record::Recorder;
pub use terms::{Overlap, Written, check_terms};
pub use violation::Violation;

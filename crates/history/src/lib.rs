//! Histories of what clients of an API server did and saw, and a checker that rejects what no correct server can produce.
//!
//! A [`History`] holds requests with their answers, lists and watches. All carry ticks of one counter, so that "before"
//! means before in real time. [`check`] requires three properties:
//!
//! * *Each object is linearizable*: one order of the writes explains every answer and every read, and respects real
//!   time. A request whose connection broke may or may not have happened, but not after its server had died.
//! * *Revisions are totally ordered*: a revision stands for one change for ever, a write gets a higher revision than all
//!   that were seen before it was sent, and a list shows every object as it was at the revision of the list.
//! * *Watches skip and repeat nothing*: between the revision that a watch began at and the last one that it showed, it
//!   shows exactly the changes that any client saw, in order.
//!
//! **The algorithm** is Wing and Gong's search with Lowe's cache of configurations, for each object by itself, as in
//! Porcupine and Knossos. The checkers on crates.io (`stateright`, `todc-utils`) support neither requests that may not
//! have happened nor histories that are too long for one search. Two facts keep the search small: an answer carries the
//! revision of its write, so that the order of acknowledged writes is known; and a history falls into independent pieces
//! wherever no request is open, which is the case at every kill.
//!
//! `evenkeel-kill` records such histories while it kills `evenkeel up` (`tests/kill.sh`). `evenkeel-failover` makes the
//! leader of two replicas of an operator fail, and checks with [`check_terms`] that no write of an old leader landed after
//! the first write of a new leader.

mod check;
pub mod client;
mod history;
mod linearize;
mod lists;
mod record;
mod register;
mod revision_log;
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

//! The cluster from a user's point of view: in process, in virtual time, and over TLS.

mod accounts;
mod bad_input;
mod child;
mod conversions_in_process;
#[cfg(unix)]
mod descriptors;
mod determinism;
mod extremes;
mod faults;
mod floods;
mod h2;
mod in_flight;
mod kit;
mod mirror;
mod newcomer;
mod operator_webhooks;
mod options;
mod real_time;
mod round_trips;
mod secrets;
mod sites;
mod sleeping;
mod snapshot;
mod streams;
mod timeline;
mod unread;
mod upgrade;
mod webhooks;
mod webhooks_in_process;
mod wire;
mod worlds;

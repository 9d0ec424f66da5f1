//! The cluster as its users see it: in process, in virtual time, and behind TLS.

mod accounts;
mod bad_input;
mod child;
mod determinism;
mod faults;
mod kit;
mod mirror;
mod options;
mod real_time;
mod timeline;
mod webhooks;
mod wire;
mod worlds;

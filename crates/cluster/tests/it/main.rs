//! The cluster as its users see it: in process, in virtual time, and behind TLS.

mod bad_input;
mod determinism;
mod faults;
mod kit;
mod mirror;
mod real_time;
mod timeline;
mod webhooks;
mod wire;

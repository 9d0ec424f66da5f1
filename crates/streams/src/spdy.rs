//! SPDY/3.1, as far as Kubernetes' clients speak it: streams that the client opens, data in both directions, no flow
//! control.
//!
//! ```text
//! client ── SYN_STREAM (headers) ─▶ connection ── SpdyStream ─▶ command or ports
//!        ◀─ SYN_REPLY ───────────
//!        ◀─ DATA, DATA with FIN ─▶          pipes
//! ```
//!
//! A stream whose bytes are not read holds up the other streams of its connection, as with Kubernetes. The protocol has
//! flow control against that, but Kubernetes' clients ignore it.

mod command;
mod compression;
mod connection;
mod frame;
mod ports;

pub(crate) use command::{CommandRequest, serve_command};
pub use compression::{HeaderError, Headers, Inflater, deflate};
pub use frame::{Control, FrameError, FrameHead, HEAD_BYTES};
pub(crate) use ports::serve_ports;

//! The protocols by which clients of a Kubernetes API talk to containers: exec, attach and port-forward.
//!
//! A client asks for an upgrade of its HTTP connection. [`Offer`] reads from the headers of the request which protocol it
//! wants, and gives the headers of the answer. After the upgrade, the offer serves the connection:
//!
//! | function | what the client gets |
//! |---|---|
//! | [`Offer::serve_command`] | a [`Command`]: stdin, stdout, stderr, the size of the terminal, and the exit code |
//! | [`Offer::serve_ports`] | connections to ports, made by a [`Connector`] |
//!
//! | protocol | clients |
//! |---|---|
//! | WebSocket with `v5.channel.k8s.io`, `v4.channel.k8s.io` and their predecessors, with base64 too | kubectl, kube-rs, Python and JavaScript clients |
//! | SPDY/3.1 with the stream protocols `v4` to `v1` | older kubectl, client-go's SPDY executor |
//! | SPDY/3.1 in the messages of a WebSocket (`SPDY/3.1+portforward.k8s.io`) | kubectl port-forward |
//!
//! A connection is one future, which spawns no tasks: if it is dropped, the command and all connections to ports end.
//! Bytes on their way are work in the ledger, if there is one; an open stream on which nothing happens is at rest.
//!
//! *Limits:* [`limits`] has the bounds on frames, headers, streams and idle time.
//!
//! *Invariants:* no sockets, no API server, no knowledge of pods.

mod channels;
mod command;
mod idle;
pub mod limits;
mod offer;
mod pipe;
mod ports;
pub mod spdy;
mod tunnel;

pub use command::{Command, Process, Sizes, Streams, TerminalSize};
pub use offer::{Offer, Refused};
pub use pipe::{Pipe, duplex};
pub use ports::{Connector, InvalidPorts, parse_ports};

use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes in both directions: a connection.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connection of any kind.
pub type Io = Box<dyn ByteStream>;

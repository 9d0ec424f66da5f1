//! The bounds of a connection.

use std::time::Duration;

/// How long a connection is kept on which no frame arrives and none is sent: the kubelet's value.
pub const IDLE: Duration = Duration::from_secs(4 * 3600);

/// How long a client may take to open the streams of a command, or the second stream of a forwarded connection: the
/// kubelet's value.
pub const STREAM_CREATION: Duration = Duration::from_secs(30);

/// How long a client may take to read the end of a connection, and to close it: some round trips of a slow network.
pub const CLOSING: Duration = Duration::from_secs(5);

/// The largest message of a WebSocket. Clients send at most 32 KiB at once.
pub const MESSAGE_MAX_BYTES: usize = 1 << 20;

/// How many bytes a pipe holds until its writer waits: twice what clients send at once.
pub const PIPE_BYTES: usize = 64 * 1024;

/// How many bytes are sent in one frame or message: as much as Go's `io.Copy` writes at once.
pub const CHUNK_BYTES: usize = 32 * 1024;

/// How many ports one request may forward: the channels of a WebSocket are numbered by one byte, and a port has two.
pub const PORTS_MAX: usize = 127;

/// How many SPDY streams may be open on a connection: 256 forwarded connections, which have two streams each.
pub const STREAMS_MAX: usize = 512;

/// The largest control frame of SPDY. Those of Kubernetes' clients have less than 200 bytes.
pub const CONTROL_FRAME_MAX_BYTES: usize = 16 * 1024;

/// How many bytes the headers of a SPDY stream may have when they are decompressed.
pub const HEADERS_MAX_BYTES: usize = 16 * 1024;

/// How many headers a SPDY stream may have. Kubernetes' clients send at most three.
pub const HEADERS_MAX: usize = 64;

/// How many bytes of an incomplete terminal size are kept. A size takes some thirty bytes.
pub const SIZE_MAX_BYTES: usize = 1024;

//! The negotiation of a protocol: from the headers of a request for an upgrade to a connection that is served.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_env::Station;
use futures::Stream;
use http::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
};
use http::header::{SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, HeaderName};
use tokio::io::AsyncWriteExt as _;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::Io;
use crate::channels::{self, Channels, Codec};
use crate::command::{self, Command, EndForm, Process, Streams};
use crate::pipe::pipe;
use crate::ports::{self, Connector};
use crate::spdy;
use crate::tunnel::Tunnel;

/// The stream protocols of SPDY that a client offers, and the one that the server chose.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED_STREAM_PROTOCOLS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");
const SPDY: &str = "SPDY/3.1";

/// The subprotocols of WebSockets for commands.
const COMMAND_CHANNELS: [(&str, Codec, EndForm); 6] = [
    ("v5.channel.k8s.io", Codec::Closable, EndForm::Status),
    ("v4.channel.k8s.io", Codec::Binary, EndForm::Status),
    ("v4.base64.channel.k8s.io", Codec::Base64, EndForm::Status),
    ("channel.k8s.io", Codec::Binary, EndForm::Text),
    ("base64.channel.k8s.io", Codec::Base64, EndForm::Text),
    ("", Codec::Binary, EndForm::Text),
];

/// The stream protocols of SPDY for commands, with whether they tell the size of the terminal.
const COMMAND_STREAMS: [(&str, EndForm, bool); 4] = [
    ("v4.channel.k8s.io", EndForm::Status, true),
    ("v3.channel.k8s.io", EndForm::Text, true),
    ("v2.channel.k8s.io", EndForm::Text, false),
    ("channel.k8s.io", EndForm::Text, false),
];

/// The subprotocols of WebSockets for ports.
const PORT_CHANNELS: [(&str, Codec); 3] =
    [("v4.channel.k8s.io", Codec::Binary), ("v4.base64.channel.k8s.io", Codec::Base64), ("", Codec::Binary)];
/// The subprotocols of WebSockets for text that only the client reads, with whether they write it in base64.
const TEXT_MESSAGES: [(&str, bool); 3] =
    [("binary.k8s.io", false), ("base64.binary.k8s.io", true), ("", false)];
/// The subprotocol of a WebSocket that carries SPDY.
const PORT_TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
/// The stream protocol of SPDY for ports.
const PORT_STREAMS: &str = "portforward.k8s.io";

/// The numbers of the channels of a command.
const STDIN: usize = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: usize = 4;
const COMMAND_CHANNEL_COUNT: usize = 5;

/// A protocol that a client wants and this server speaks.
#[derive(Clone, Debug)]
pub struct Offer {
    protocol: Protocol,
    answer: HeaderMap,
}

#[derive(Clone, Copy, Debug)]
enum Protocol {
    /// The channels of a command in a WebSocket.
    CommandChannels(Codec, EndForm),
    /// The streams of a command over SPDY.
    CommandStreams(EndForm, bool),
    /// The channels of ports in a WebSocket.
    PortChannels(Codec),
    /// Connections to ports over SPDY.
    PortStreams,
    /// Connections to ports over SPDY in a WebSocket.
    PortTunnel,
    /// Text in the messages of a WebSocket, in base64 or as it is.
    TextMessages { is_base64: bool },
}

/// Why a request for an upgrade is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Refused {
    /// The HTTP status code.
    pub code: u16,
    /// The reason.
    pub message: String,
}

/// What a request asks to be upgraded to.
enum Wanted {
    /// A WebSocket with one of these subprotocols.
    WebSocket(Vec<String>),
    /// SPDY with one of these stream protocols.
    Spdy(Vec<String>),
}

impl Offer {
    /// Reads what a request for exec or attach asks for.
    ///
    /// # Errors
    /// Fails if the request asks for no upgrade, or only for protocols that this server does not speak.
    pub fn for_command(headers: &HeaderMap) -> Result<Self, Refused> {
        match wanted(headers)? {
            Wanted::WebSocket(names) => {
                let known = COMMAND_CHANNELS.map(|(name, ..)| name);
                let (_, codec, form) = COMMAND_CHANNELS[choose(&names, &known)?];
                Self::web_socket(headers, Protocol::CommandChannels(codec, form), known_name(&names, &known))
            }
            Wanted::Spdy(names) => {
                let known = COMMAND_STREAMS.map(|(name, ..)| name);
                let (name, form, resizes) = COMMAND_STREAMS[choose_stream(&names, &known)?];
                Ok(Self::spdy(Protocol::CommandStreams(form, resizes), name))
            }
        }
    }

    /// Reads what a request for a port-forward asks for.
    ///
    /// # Errors
    /// Fails if the request asks for no upgrade, or only for protocols that this server does not speak.
    pub fn for_ports(headers: &HeaderMap) -> Result<Self, Refused> {
        match wanted(headers)? {
            Wanted::WebSocket(names) if names.iter().any(|name| name == PORT_TUNNEL) => {
                Self::web_socket(headers, Protocol::PortTunnel, Some(PORT_TUNNEL))
            }
            Wanted::WebSocket(names) => {
                let known = PORT_CHANNELS.map(|(name, _)| name);
                let (_, codec) = PORT_CHANNELS[choose(&names, &known)?];
                Self::web_socket(headers, Protocol::PortChannels(codec), known_name(&names, &known))
            }
            Wanted::Spdy(names) => {
                choose_stream(&names, &[PORT_STREAMS])?;
                Ok(Self::spdy(Protocol::PortStreams, PORT_STREAMS))
            }
        }
    }

    /// Reads whether a request asks for text, such as a log, in the messages of a WebSocket. Returns `None` if it asks for
    /// no WebSocket.
    ///
    /// # Errors
    /// Fails if the request asks only for protocols that this server does not speak.
    pub fn for_text(headers: &HeaderMap) -> Result<Option<Self>, Refused> {
        let Ok(Wanted::WebSocket(names)) = wanted(headers) else { return Ok(None) };
        let known = TEXT_MESSAGES.map(|(name, _)| name);
        let (_, is_base64) = TEXT_MESSAGES[choose(&names, &known)?];
        let protocol = Protocol::TextMessages { is_base64 };
        Self::web_socket(headers, protocol, known_name(&names, &known)).map(Some)
    }

    /// The headers of the answer, whose status is `101 Switching Protocols`.
    pub fn answer(&self) -> HeaderMap {
        self.answer.clone()
    }

    /// Whether the ports are in the query of the request. With the other protocols, the client names them later.
    pub fn ports_are_in_query(&self) -> bool {
        matches!(self.protocol, Protocol::PortChannels(_))
    }

    fn web_socket(headers: &HeaderMap, protocol: Protocol, name: Option<&str>) -> Result<Self, Refused> {
        let text = |header: HeaderName| headers.get(header).and_then(|value| value.to_str().ok());
        if text(SEC_WEBSOCKET_VERSION) != Some("13") {
            return Err(refused(400, "the WebSocket version must be 13"));
        }
        let Some(key) = text(SEC_WEBSOCKET_KEY) else {
            return Err(refused(400, "the header Sec-WebSocket-Key is missing"));
        };
        let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
        let mut answer = upgrade_to("websocket");
        answer.insert(
            SEC_WEBSOCKET_ACCEPT,
            accept.map_err(|_| refused(400, "the WebSocket key is malformed"))?,
        );
        if let Some(name) =
            name.filter(|name| !name.is_empty()).and_then(|name| HeaderValue::from_str(name).ok())
        {
            answer.insert(SEC_WEBSOCKET_PROTOCOL, name);
        }
        Ok(Self { protocol, answer })
    }

    fn spdy(protocol: Protocol, name: &'static str) -> Self {
        let mut answer = upgrade_to(SPDY);
        answer.insert(STREAM_PROTOCOL, HeaderValue::from_static(name));
        Self { protocol, answer }
    }

    /// Serves a command on the upgraded connection. Bytes on their way are work of the station, if there is one.
    pub async fn serve_command(self, io: Io, streams: Streams, command: Command, station: Option<Station>) {
        match self.protocol {
            Protocol::CommandChannels(codec, form) => {
                command_channels(io, (codec, form), streams, command, station.as_ref()).await;
            }
            Protocol::CommandStreams(form, resizes) => {
                let asked = spdy::CommandRequest { streams, form, resizes };
                spdy::serve_command(io, asked, command, station.as_ref()).await;
            }
            // Other offers serve no command.
            Protocol::PortChannels(_)
            | Protocol::PortStreams
            | Protocol::PortTunnel
            | Protocol::TextMessages { .. } => {}
        }
    }

    /// Serves connections to the ports of a pod on the upgraded connection. `ports` are those of the query.
    pub async fn serve_ports(
        self,
        io: Io,
        pod: &str,
        ports: Vec<u16>,
        connector: Connector,
        station: Option<Station>,
    ) {
        let pod: Arc<str> = pod.into();
        match self.protocol {
            Protocol::PortChannels(codec) => {
                port_channels(io, codec, pod, ports, connector, station.as_ref()).await;
            }
            Protocol::PortStreams => spdy::serve_ports(io, pod, connector, station.as_ref()).await,
            Protocol::PortTunnel => {
                let tunnel = Tunnel::new(channels::socket(io).await);
                spdy::serve_ports(Box::new(tunnel), pod, connector, station.as_ref()).await;
            }
            // Other offers serve no ports.
            Protocol::CommandChannels(..) | Protocol::CommandStreams(..) | Protocol::TextMessages { .. } => {}
        }
    }

    /// Sends text on the upgraded connection until the text ends or the client goes away.
    pub async fn serve_text(self, io: Io, text: impl Stream<Item = Bytes> + Send) {
        if let Protocol::TextMessages { is_base64 } = self.protocol {
            channels::serve_text(io, is_base64, text).await;
        }
    }
}

async fn command_channels(
    io: Io,
    (codec, form): (Codec, EndForm),
    streams: Streams,
    command: Command,
    station: Option<&Station>,
) {
    let (process, ends) = Process::new(streams, station);
    let mut inputs: Vec<_> = (0..COMMAND_CHANNEL_COUNT).map(|_| None).collect();
    (inputs[STDIN], inputs[RESIZE]) = (ends.stdin, ends.sizes);
    let stdout = ends.stdout.map(|pipe| (STDOUT, pipe));
    let stderr = ends.stderr.map(|pipe| (STDERR, pipe));
    let outputs: Vec<_> = stdout.into_iter().chain(stderr).collect();
    // An empty message on the first channel tells the client that the connection stands.
    let first = outputs.first().map_or(ERROR, |(channel, _)| *channel);
    let channels = Channels { inputs, outputs, greeting: vec![(first, bytes::Bytes::new())] };
    let end = async { command::run(command, process, form).await.map(|told| (ERROR, told)) };
    channels::serve(io, codec, channels, end).await;
}

async fn port_channels(
    io: Io,
    codec: Codec,
    pod: Arc<str>,
    ports: Vec<u16>,
    connector: Connector,
    station: Option<&Station>,
) {
    let mut channels = Channels { inputs: Vec::new(), outputs: Vec::new(), greeting: Vec::new() };
    let mut forwarded = Vec::new();
    for (port, data) in ports.into_iter().zip((0..).step_by(2)) {
        let (to_pod, from_client) = pipe(station);
        let (to_client, from_pod) = pipe(station);
        let (mut errors, error_pipe) = pipe(station);
        channels.inputs.extend([Some(to_pod), None]);
        channels.outputs.extend([(data, from_pod), (data + 1, error_pipe)]);
        let name = bytes::Bytes::copy_from_slice(&port.to_le_bytes());
        channels.greeting.extend([(data, name.clone()), (data + 1, name)]);
        let forward = ports::forward(connector.clone(), pod.clone(), port, from_client, to_client);
        forwarded.push(async move {
            if let Err(why) = forward.await {
                let _ = errors.write_all(why.as_bytes()).await;
            }
        });
    }
    let end = async {
        ports::all(forwarded).await;
        None
    };
    channels::serve(io, codec, channels, end).await;
}

fn wanted(headers: &HeaderMap) -> Result<Wanted, Refused> {
    let connection = list(headers, &CONNECTION);
    let upgrades = connection.iter().any(|token| token.eq_ignore_ascii_case("upgrade"));
    let upgrade = headers.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !upgrades || upgrade.is_empty() {
        return Err(refused(400, "Upgrade request required"));
    }
    if upgrade.eq_ignore_ascii_case("websocket") {
        return Ok(Wanted::WebSocket(list(headers, &SEC_WEBSOCKET_PROTOCOL)));
    }
    if !upgrade.eq_ignore_ascii_case(SPDY) {
        return Err(refused(400, format!("unable to upgrade: unknown protocol {upgrade:?}")));
    }
    let names = list(headers, &STREAM_PROTOCOL);
    if names.is_empty() {
        return Err(refused(
            400,
            format!("unable to upgrade: header {STREAM_PROTOCOL} does not exist in request"),
        ));
    }
    Ok(Wanted::Spdy(names))
}

/// The items of the comma-separated values of a header.
fn list(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let items = values.flat_map(|value| value.split(',')).map(str::trim);
    items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// Returns the index in `known` of the first of the client's `names` that this server knows. A client that names none
/// gets the protocol whose name is empty.
fn choose(names: &[String], known: &[&str]) -> Result<usize, Refused> {
    let place = |name: &str| known.iter().position(|it| *it == name);
    let chosen = if names.is_empty() { place("") } else { names.iter().find_map(|name| place(name)) };
    chosen.ok_or_else(|| {
        let known: Vec<_> = known.iter().filter(|name| !name.is_empty()).collect();
        refused(400, format!("requested protocol(s) are not supported: {names:?}; supports {known:?}"))
    })
}

fn known_name<'a>(names: &[String], known: &[&'a str]) -> Option<&'a str> {
    names.iter().find_map(|name| known.iter().find(|it| *it == name).copied())
}

fn choose_stream(names: &[String], known: &[&str]) -> Result<usize, Refused> {
    let place = |name: &String| known.iter().position(|it| it == name);
    names.iter().find_map(place).ok_or_else(|| {
        let why = "unable to upgrade: unable to negotiate protocol";
        refused(
            403,
            format!(
                "{why}: client supports {names:?}, server accepts {known:?} ({ACCEPTED_STREAM_PROTOCOLS})"
            ),
        )
    })
}

fn upgrade_to(protocol: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(protocol));
    headers
}

fn refused(code: u16, message: impl Into<String>) -> Refused {
    Refused { code, message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn text_is_sent_over_a_web_socket_only_if_a_client_asks_for_one() {
        assert!(Offer::for_text(&request(&[])).unwrap().is_none());
        let mut headers = request(&WEB_SOCKET);
        for (name, is_base64) in [("base64.binary.k8s.io", true), ("v9, binary.k8s.io", false)] {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name));
            let offer = Offer::for_text(&headers).unwrap().unwrap();
            assert!(matches!(offer.protocol, Protocol::TextMessages { is_base64: it } if it == is_base64));
        }
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("v4.channel.k8s.io"));
        assert_eq!(Offer::for_text(&headers).unwrap_err().code, 400);
    }

    const WEB_SOCKET: [(&str, &str); 4] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    #[test]
    fn the_first_choice_of_a_client_that_is_known_is_taken() {
        let mut headers = request(&WEB_SOCKET);
        let name = "v9.channel.k8s.io, v4.channel.k8s.io, v5.channel.k8s.io";
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name));
        let answer = Offer::for_command(&headers).unwrap().answer();
        assert_eq!(answer[SEC_WEBSOCKET_PROTOCOL], "v4.channel.k8s.io");
        // The example of RFC 6455.
        assert_eq!(answer[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("v9"));
        let error = Offer::for_command(&headers).unwrap_err();
        assert!(error.message.starts_with("requested protocol(s) are not supported: [\"v9\"]"), "{error}");
        headers.remove(SEC_WEBSOCKET_PROTOCOL);
        assert!(!Offer::for_command(&headers).unwrap().answer().contains_key(SEC_WEBSOCKET_PROTOCOL));
    }

    #[test]
    fn spdy_is_negotiated_by_a_header_of_its_own() {
        let mut headers = request(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")]);
        assert_eq!(Offer::for_command(&headers).unwrap_err().code, 400);
        headers.append(STREAM_PROTOCOL, HeaderValue::from_static("v9.channel.k8s.io"));
        assert_eq!(Offer::for_command(&headers).unwrap_err().code, 403);
        headers.append(STREAM_PROTOCOL, HeaderValue::from_static("v3.channel.k8s.io"));
        let answer = Offer::for_command(&headers).unwrap().answer();
        assert_eq!(
            (&answer[UPGRADE], &answer[STREAM_PROTOCOL]),
            (&HeaderValue::from_static(SPDY), &HeaderValue::from_static("v3.channel.k8s.io"))
        );
    }

    #[test]
    fn what_asks_for_no_upgrade_is_refused() {
        for headers in [request(&[]), request(&WEB_SOCKET[1..]), request(&WEB_SOCKET[..1])] {
            assert_eq!(Offer::for_ports(&headers).unwrap_err().message, "Upgrade request required");
        }
        assert_eq!(Offer::for_ports(&request(&WEB_SOCKET[..2])).unwrap_err().code, 400);
        assert_eq!(Offer::for_ports(&request(&WEB_SOCKET[..3])).unwrap_err().code, 400);
        let h2c = request(&[("connection", "upgrade"), ("upgrade", "h2c")]);
        assert_eq!(Offer::for_ports(&h2c).unwrap_err().code, 400);
    }
}

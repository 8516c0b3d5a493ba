//! One attempt to connect: socket, TLS if required, CONNECT, and the server's answer.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderName, HeaderValue};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::DEFAULT_PAYLOAD;
use super::websocket::WebSocket;
use crate::connection_state::ConnectionState;
use wire::nats::{ConnectInfo, Protocol, ServerAddr, ServerInfo};
use wire::parser::MAX_LINE;
use wire::parser::{Op, ParseError, Parser};

/// Connect options for all servers.
pub struct Greeting {
    pub name: Option<String>,
    /// Headers of the request that opens a WebSocket.
    pub websocket_headers: Vec<(HeaderName, HeaderValue)>,
    pub echo: bool,
    pub tls: Arc<ClientConfig>,
    pub tls_required: bool,
    /// TLS handshake before the server's INFO.
    pub tls_first: bool,
}

pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// A link on which the server has accepted CONNECT.
pub(super) struct EstablishedLink {
    pub socket: Box<dyn Socket>,
    /// Parser with the data received after CONNECT, and the operations parsed already.
    pub reader: Parser,
    pub heard: VecDeque<Op>,
    pub info: ServerInfo,
}

/// Reason of a failed attempt.
#[derive(Debug)]
pub enum AttemptFailure {
    /// The host name has no address.
    Unknown,
    Late,
    /// Error text of the socket or of TLS.
    Broken(String),
}

impl From<io::Error> for AttemptFailure {
    fn from(error: io::Error) -> Self {
        AttemptFailure::Broken(error.to_string())
    }
}

pub(super) async fn attempt(
    state: &Arc<ConnectionState>,
    greeting: &Greeting,
    addr: &ServerAddr,
) -> Result<EstablishedLink, AttemptFailure> {
    let addresses: Vec<_> = match addr.socket_addrs().await {
        Ok(addresses) => addresses.collect(),
        Err(_) => return Err(AttemptFailure::Unknown),
    };
    let mut failed = AttemptFailure::Unknown;
    for address in addresses {
        let linked = async {
            let socket = open(greeting, addr, address).await?;
            greet(state, greeting, addr, socket).await
        };
        match tokio::time::timeout(state.attempt_timeout(), linked).await {
            Ok(Ok(link)) => return Ok(link),
            Ok(Err(failure)) => failed = failure,
            Err(_) => failed = AttemptFailure::Late,
        }
    }
    Err(failed)
}

async fn open(
    greeting: &Greeting,
    addr: &ServerAddr,
    address: std::net::SocketAddr,
) -> Result<Box<dyn Socket>, AttemptFailure> {
    if !addr.is_websocket() {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        return Ok(Box::new(socket));
    }
    let words = |error: tokio_websockets::Error| match error {
        tokio_websockets::Error::Io(error) => AttemptFailure::from(error),
        other => AttemptFailure::Broken(other.to_string()),
    };
    let uri = addr.as_url_str().parse().map_err(|_| AttemptFailure::Unknown)?;
    let connector = tokio_websockets::Connector::Rustls(TlsConnector::from(greeting.tls.clone()));
    let mut builder = tokio_websockets::ClientBuilder::from_uri(uri);
    for (name, value) in &greeting.websocket_headers {
        builder = builder.add_header(name.clone(), value.clone()).map_err(words)?;
    }
    if addr.scheme() == "wss" {
        builder = builder.connector(&connector);
    }
    let (socket, _) = builder.connect().await.map_err(words)?;
    Ok(Box::new(WebSocket::new(socket)))
}

async fn secured(
    greeting: &Greeting,
    addr: &ServerAddr,
    socket: Box<dyn Socket>,
) -> Result<Box<dyn Socket>, AttemptFailure> {
    let name =
        ServerName::try_from(addr.host().to_owned()).map_err(|error| AttemptFailure::Broken(error.to_string()))?;
    Ok(Box::new(TlsConnector::from(greeting.tls.clone()).connect(name, socket).await?))
}

async fn greet(
    state: &Arc<ConnectionState>,
    greeting: &Greeting,
    addr: &ServerAddr,
    mut socket: Box<dyn Socket>,
) -> Result<EstablishedLink, AttemptFailure> {
    let websocket = addr.is_websocket();
    if greeting.tls_first && !websocket {
        socket = secured(greeting, addr, socket).await?;
    }
    let mut words = Words::default();
    let info = match words.next(&mut socket).await? {
        Op::Info(info) => *info,
        Op::Error(text) => return Err(refused(state, text)),
        _ => return Err(AttemptFailure::Broken("expected INFO".into())),
    };
    state.events().informed(&info);
    let wants_tls = greeting.tls_required || addr.tls_required();
    if !greeting.tls_first && !websocket && (wants_tls || info.tls_required) {
        socket = secured(greeting, addr, socket).await?;
        // Clear text received after the INFO is not authenticated, so it is discarded.
        words = Words::default();
    }
    let auth = state.attempt().credentials(info.nonce.as_bytes()).await;
    let auth = auth.ok_or_else(|| AttemptFailure::Broken("no credentials".into()))?;
    let connect = ConnectInfo {
        verbose: false,
        pedantic: false,
        user_jwt: auth.jwt,
        nkey: auth.nkey,
        signature: auth.signature.map(|signature| URL_SAFE_NO_PAD.encode(signature)),
        name: greeting.name.clone(),
        echo: greeting.echo,
        lang: "python".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        protocol: Protocol::Dynamic,
        tls_required: wants_tls,
        user: auth.username,
        pass: auth.password,
        auth_token: auth.token,
        headers: true,
        no_responders: true,
    };
    let json = serde_json::to_string(&connect).map_err(|error| AttemptFailure::Broken(error.to_string()))?;
    socket.write_all(format!("CONNECT {json}\r\nPING\r\n").as_bytes()).await?;
    socket.flush().await?;
    loop {
        match words.next(&mut socket).await? {
            Op::Pong => return Ok(EstablishedLink { socket, reader: words.reader, heard: words.heard, info }),
            Op::Error(text) => return Err(refused(state, text)),
            Op::Info(info) => state.events().informed(&info),
            Op::Ping | Op::Message(..) => {}
        }
    }
}

fn refused(state: &ConnectionState, text: String) -> AttemptFailure {
    state.events().server_error(&text, None);
    AttemptFailure::Broken(text)
}

/// Server operations, read one at a time.
#[derive(Default)]
struct Words {
    reader: Parser,
    heard: VecDeque<Op>,
}

impl Words {
    async fn next(&mut self, socket: &mut Box<dyn Socket>) -> Result<Op, AttemptFailure> {
        loop {
            if let Some(op) = self.heard.pop_front() {
                return Ok(op);
            }
            if socket.read_buf(self.reader.room()).await? == 0 {
                return Err(AttemptFailure::Broken("the server ended the connection".into()));
            }
            let taken = self.reader.parse_buffered(DEFAULT_PAYLOAD, |op| self.heard.push_back(op));
            taken.map_err(|unreadable| {
                AttemptFailure::Broken(match unreadable {
                    ParseError::TooLarge(_) => format!("a line of more than {MAX_LINE} bytes"),
                    _ => "what it says is not the NATS protocol".into(),
                })
            })?;
        }
    }
}

//! Options of `connect`, and the settings of the connection's task that follow from them.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use tokio_websockets::ClientBuilder;

use crate::auth::Credentials;
use crate::connection_state::{Choose, ConnectionState, EventQueue};
use crate::pool::Rules;
use crate::tls::{self, Tls};
use crate::transport::{self, Greeting};
use base::error::{JetError, Result};

/// Ping intervals until a connection is stale: two PINGs are unanswered when a third is due.
const INTERVALS_UNTIL_STALE: u32 = 3;

pub struct Options {
    pub servers: Vec<String>,
    pub name: Option<String>,
    /// Headers of the request that opens a WebSocket.
    pub websocket_headers: Vec<(String, String)>,
    /// Timeout of one attempt at one server.
    pub connect_timeout: Duration,
    /// The same for reconnects.
    pub reconnect_timeout: Duration,
    pub ping_interval: Duration,
    pub max_outstanding_pings: u32,
    pub inbox_prefix: Option<String>,
    pub no_echo: bool,
    /// Subjects are sent unchecked.
    pub skip_subject_validation: bool,
    pub allow_reconnect: bool,
    /// Failed attempts after which a server is removed; `None`: never.
    pub max_reconnects: Option<u32>,
    /// Wait between two attempts at one server.
    pub reconnect_wait: Duration,
    /// The wait doubles with each failed attempt up to this.
    pub reconnect_wait_max: Duration,
    /// Maximum random addition to this wait, without and with TLS.
    pub reconnect_jitter: Duration,
    pub reconnect_jitter_tls: Duration,
    /// Servers that other servers announce are not used.
    pub ignore_discovered: bool,
    pub randomize: bool,
    /// Continues after a first round in which no server could be reached.
    pub retry_first: bool,
    /// Maximum bytes of messages queued while the link is down.
    pub pending_size: usize,
    pub credentials: Credentials,
    /// `None`: TLS as the servers require it, with the system's CAs.
    pub tls: Option<Tls>,
    pub choose: Option<Choose>,
    pub notices: Option<EventQueue>,
}

impl Options {
    pub fn rules(&self) -> Rules {
        Rules {
            randomize: self.randomize,
            max_failures: self.max_reconnects,
            wait: self.reconnect_wait,
            wait_max: self.reconnect_wait_max,
            jitter: self.reconnect_jitter,
            jitter_tls: self.reconnect_jitter_tls,
            always_tls: self.tls.as_ref().is_some_and(|tls| tls.required),
            ignore_discovered: self.ignore_discovered,
        }
    }

    /// Ping period at which a silence of `ping_interval * max_outstanding_pings` ends the connection. It is a little
    /// shorter than `ping_interval`.
    fn ping_period(&self) -> Duration {
        let silence = self.ping_interval.saturating_mul(self.max_outstanding_pings.max(1));
        (silence / INTERVALS_UNTIL_STALE).max(Duration::from_millis(1))
    }

    pub fn settings(&self, state: &Arc<ConnectionState>) -> Result<transport::TransportSettings> {
        let tls = self.tls.clone().unwrap_or_default();
        let greeting = Greeting {
            name: self.name.clone(),
            websocket_headers: headers(&self.websocket_headers)?,
            echo: !self.no_echo,
            tls: Arc::new(tls::config(&tls, Arc::downgrade(state))?),
            tls_required: tls.required || state.pool().wants_tls(),
            tls_first: tls.handshake_first,
        };
        Ok(transport::TransportSettings { greeting, ping_period: self.ping_period() })
    }
}

fn headers(given: &[(String, String)]) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let parsed = |(name, value): &(String, String)| {
        // Errors omit the value, which may be a secret.
        let bad = |what| JetError::Value(format!("ws_connection_headers: {what} of {name:?} cannot be sent"));
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("the name"))?;
        // A builder with one header reports whether the WebSocket handshake sets that header itself.
        let value = HeaderValue::from_str(value).map_err(|_| bad("the value"))?;
        match ClientBuilder::new().add_header(header.clone(), value.clone()) {
            Ok(_) => Ok((header, value)),
            Err(_) => Err(bad("the name, which the opening of a WebSocket has itself,")),
        }
    };
    given.iter().map(parsed).collect()
}

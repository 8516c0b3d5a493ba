//! What `connect` takes, and async-nats's options made of it.

use std::sync::Arc;
use std::time::Duration;

use async_nats::ConnectOptions;

use crate::engine::connection::auth::Credentials;
use crate::engine::connection::hub::{Choose, Hub, Notices};
use crate::engine::connection::pool::Rules;
use crate::engine::connection::tls::{self, Tls};
use crate::engine::connection::wire;
use crate::error::Result;

/// More than any pull loop or publish window ever has outstanding: a full channel drops messages in silence.
const SUBSCRIPTION_CAPACITY: usize = 1 << 20;
/// The largest that async-nats takes; fewer, fuller reads.
const READ_BUFFER: u16 = u16::MAX;
/// async-nats gives a connection up when a third ping is due and two are unanswered.
const INTERVALS_UNTIL_STALE: u32 = 3;

pub struct Options {
    pub servers: Vec<String>,
    pub name: Option<String>,
    /// For one attempt at one server.
    pub connect_timeout: Duration,
    pub ping_interval: Duration,
    pub max_outstanding_pings: u32,
    pub inbox_prefix: Option<String>,
    pub no_echo: bool,
    /// Subjects are the caller's word.
    pub skip_subject_validation: bool,
    pub allow_reconnect: bool,
    /// Failed attempts at one server until it is given up; None is never.
    pub max_reconnects: Option<u32>,
    /// Between two attempts at a server.
    pub reconnect_wait: Duration,
    pub randomize: bool,
    /// Go on where no server could be reached at first.
    pub retry_first: bool,
    /// Most bytes of messages that are queued while the link is down.
    pub pending_size: usize,
    pub credentials: Credentials,
    /// None: as the servers want it, with the system's CAs.
    pub tls: Option<Tls>,
    pub choose: Option<Choose>,
    pub notices: Option<Notices>,
}

impl Options {
    pub fn rules(&self) -> Rules {
        Rules { randomize: self.randomize, max_failures: self.max_reconnects, wait: self.reconnect_wait }
    }

    /// Silence of `ping_interval` times `max_outstanding_pings` ends the connection: pings go out a little more often.
    fn ping_period(&self) -> Duration {
        let silence = self.ping_interval.saturating_mul(self.max_outstanding_pings.max(1));
        (silence / INTERVALS_UNTIL_STALE).max(Duration::from_millis(1))
    }

    pub fn configure(&self, hub: &Arc<Hub>) -> Result<ConnectOptions> {
        let tls = self.tls.clone().unwrap_or_default();
        let (chooser, signer, listener) = (hub.clone(), hub.clone(), Last(hub.clone()));
        let mut config = ConnectOptions::with_auth_callback(move |nonce| signer.clone().credentials(nonce))
            .reconnect_to_server_callback(move |known, info| chooser.clone().next_server(known, info))
            .event_callback(move |_| {
                // Which one does not matter, and some are lost: each is a moment to look.
                listener.0.connected();
                std::future::ready(())
            })
            // The first attempt in the connection's own task as well: one path for all attempts.
            .retry_on_initial_connect()
            // We read them ourselves: async-nats forgets their scheme, and those that come later.
            .ignore_discovered_servers()
            .retain_servers_order()
            .connection_timeout(self.connect_timeout)
            .ping_interval(self.ping_period())
            .subscription_capacity(SUBSCRIPTION_CAPACITY)
            .client_capacity(wire::CHANNEL)
            .read_buffer_capacity(READ_BUFFER)
            // Every subject is checked before it comes here, once per batch instead of once per message.
            .skip_subject_validation(true)
            .tls_client_config(tls::config(&tls, hub)?)
            .require_tls(tls.required || hub.pool().wants_tls());
        if tls.handshake_first {
            config = config.tls_first();
        }
        if let Some(name) = &self.name {
            config = config.name(name);
        }
        if let Some(prefix) = &self.inbox_prefix {
            config = config.custom_inbox_prefix(prefix);
        }
        if self.no_echo {
            config = config.no_echo();
        }
        Ok(config)
    }
}

/// Goes when async-nats's tasks have ended, for whatever reason.
struct Last(Arc<Hub>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.closed(None);
    }
}

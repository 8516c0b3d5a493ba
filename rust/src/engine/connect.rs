//! The connection: options into async-nats, and its events into one value that everybody can watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event};
use tokio::sync::watch;

use crate::engine::outbox::Outbox;
use crate::engine::request::Requests;
use crate::error::{JetError, Result};

/// More than any pull loop or publish window ever has outstanding: a full channel drops messages in silence.
const SUBSCRIPTION_CAPACITY: usize = 1 << 20;
/// The largest that async-nats takes; fewer, fuller reads.
const READ_BUFFER: u16 = u16::MAX;
const RECONNECT_WAIT: Duration = Duration::from_millis(250);
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What `connect` takes. Durations are per attempt.
#[derive(Clone, Default)]
pub struct Options {
    pub servers: Vec<String>,
    pub name: Option<String>,
    pub connect_timeout: Option<Duration>,
    pub ping_interval: Option<Duration>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub token: Option<String>,
    /// Path of a credentials file.
    pub credentials: Option<String>,
    pub inbox_prefix: Option<String>,
    pub no_echo: bool,
    /// None: for ever.
    pub max_reconnects: Option<usize>,
    pub reconnect_wait: Option<Duration>,
}

/// The state of the link to the server, as the last event left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// How often the link broke. What was in flight when it rises may be lost.
    pub breaks: u64,
    pub up: bool,
    /// No reconnect will be tried any more.
    pub closed: bool,
}

pub struct Connection {
    pub client: Client,
    pub link: watch::Receiver<Link>,
    /// Where we are connected, for messages; never with a password.
    pub servers: Arc<str>,
    /// Core messages on their way out.
    pub outbox: Outbox,
    pub requests: Requests,
    closing: Arc<AtomicBool>,
}

impl Connection {
    /// How often the link broke. Counted twice over, because an event can vanish in async-nats's small channel.
    pub fn breaks(&self) -> u64 {
        let connects = self.client.statistics().connects.load(Ordering::Relaxed);
        self.link.borrow().breaks.max(connects.saturating_sub(1))
    }

    pub fn closed(&self) -> JetError {
        JetError::Closed { servers: self.servers.to_string() }
    }

    /// Does the work as long as the link is up.
    pub async fn while_up(&self, work: impl Future<Output = ()>) {
        let mut link = self.link.clone();
        tokio::select! {
            () = work => (),
            _ = link.wait_for(|link| !link.up) => (),
        }
    }

    /// Sends all that is queued, then ends the connection.
    pub async fn close(&self) -> Result<()> {
        self.closing.store(true, Ordering::Relaxed);
        let mut link = self.link.clone();
        self.while_up(self.outbox.room(0)).await;
        if link.borrow().closed || self.client.drain().await.is_err() {
            return Ok(());
        }
        // A link that is down has nothing to drain to; its task ends with the client.
        while !link.borrow().closed && link.borrow().up {
            if link.changed().await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// The server list for messages: user info cut off.
pub fn display_servers(servers: &[String]) -> String {
    let bare = |url: &String| {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        if scheme.is_empty() || scheme == "nats" { host.to_owned() } else { format!("{scheme}://{host}") }
    };
    servers.iter().map(bare).collect::<Vec<_>>().join(", ")
}

pub async fn connect(mut options: Options) -> Result<Connection> {
    let servers = display_servers(&options.servers);
    let bad_url =
        |cause: String| JetError::Value(format!("bad server address in {servers:?}: {cause}; use nats://host:port"));
    let addresses = options
        .servers
        .iter()
        .map(|url| url.parse::<async_nats::ServerAddr>().map_err(|e| bad_url(e.to_string())))
        .collect::<Result<Vec<_>>>()?;
    if addresses.is_empty() {
        return Err(JetError::Value("no server address given; use nats://host:port".into()));
    }
    // async-nats leaves the user info of an address alone.
    if let Some(url) = addresses.iter().find(|url| url.has_user_pass()) {
        match (url.username(), url.password()) {
            (Some(user), Some(password)) if options.user.is_none() => {
                options.user = Some(decode(user));
                options.password = Some(decode(password));
            }
            (Some(token), None) if options.token.is_none() => options.token = Some(decode(token)),
            _ => {}
        }
    }
    let timeout = options.connect_timeout.unwrap_or(Duration::from_secs(2));
    let all_servers = timeout * addresses.len() as u32;
    let (set_link, link) = watch::channel(Link { up: true, ..Link::default() });
    let closing = Arc::new(AtomicBool::new(false));
    let config = configure(options, timeout, set_link, closing.clone()).await?;

    let refused = |cause: String| JetError::NoServers { servers: servers.clone(), cause };
    let client = match tokio::time::timeout(all_servers, config.connect(addresses)).await {
        Err(_) => return Err(refused(format!("no answer within {} s", all_servers.as_secs_f64()))),
        Ok(Err(err)) => {
            return Err(match err.kind() {
                ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                    JetError::Authorization { servers, cause: "check user, password, token or credentials file".into() }
                }
                ConnectErrorKind::TimedOut => refused(format!("no answer within {} s", timeout.as_secs_f64())),
                _ => refused(root_cause(&err)),
            });
        }
        Ok(Ok(client)) => client,
    };
    let outbox = Outbox::start(client.clone());
    Ok(Connection { client, link, servers: servers.into(), outbox, requests: Requests::default(), closing })
}

async fn configure(
    options: Options,
    timeout: Duration,
    set_link: watch::Sender<Link>,
    closing: Arc<AtomicBool>,
) -> Result<ConnectOptions> {
    let wait = options.reconnect_wait;
    let mut config = ConnectOptions::new()
        .connection_timeout(timeout)
        .ping_interval(options.ping_interval.unwrap_or(Duration::from_secs(10)))
        .subscription_capacity(SUBSCRIPTION_CAPACITY)
        .read_buffer_capacity(READ_BUFFER)
        // Every subject is checked before it comes here, once per batch instead of once per message.
        .skip_subject_validation(true)
        .max_reconnects(options.max_reconnects)
        // The first try is at once. async-nats has no other way to tell its task that nobody wants a reconnect any more.
        .reconnect_delay_callback(move |attempt| match attempt {
            _ if closing.load(Ordering::Relaxed) => NEVER,
            0 | 1 => Duration::ZERO,
            _ => wait.unwrap_or(RECONNECT_WAIT),
        })
        .event_callback(move |event| {
            set_link.send_modify(|link| match event {
                Event::Connected => link.up = true,
                Event::Disconnected => {
                    link.up = false;
                    link.breaks += 1;
                }
                Event::Closed | Event::ClientError(async_nats::ClientError::MaxReconnects) => {
                    link.up = false;
                    link.closed = true;
                }
                _ => {}
            });
            std::future::ready(())
        });
    if let Some(name) = options.name {
        config = config.name(name);
    }
    if let Some(prefix) = options.inbox_prefix {
        config = config.custom_inbox_prefix(prefix);
    }
    if options.no_echo {
        config = config.no_echo();
    }
    if let (Some(user), Some(password)) = (options.user, options.password) {
        config = config.user_and_password(user, password);
    }
    if let Some(token) = options.token {
        config = config.token(token);
    }
    if let Some(path) = options.credentials {
        config = config
            .credentials_file(&path)
            .await
            .map_err(|e| JetError::Value(format!("cannot use the credentials file {path:?}: {}", e.kind())))?;
    }
    Ok(config)
}

/// Percent-encoding undone, as far as it is one.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).filter(|_| *first == b'%').and_then(|h| std::str::from_utf8(h).ok());
        match hex.and_then(|h| u8::from_str_radix(h, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// The innermost cause: "Connection refused", not the three wrappers around it.
fn root_cause(err: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = err;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_info_is_decoded() {
        for (text, plain) in
            [("p%40ss%3a", "p@ss:"), ("100%", "100%"), ("%zz%4", "%zz%4"), ("gr%C3%BCn", "grün"), ("%ff", "%ff")]
        {
            assert_eq!(decode(text), plain);
        }
    }

    #[test]
    fn shown_servers_have_no_password() {
        let servers = ["nats://me:s3cret@host:4222".to_owned(), "tls://other:1".into(), "127.0.0.1:4222".into()];
        assert_eq!(display_servers(&servers), "host:4222, tls://other:1, 127.0.0.1:4222");
    }
}

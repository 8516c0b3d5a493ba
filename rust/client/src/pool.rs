//! Server pool: the servers of a connection, and the order of attempts.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use base::error::{JetError, Result};
use wire::nats::ServerAddr;

/// Minimum wait between attempts. A wait of zero would keep a core busy with refused attempts.
const LEAST_WAIT: Duration = Duration::from_millis(2);

/// A server of the pool. `addr` has no user and no password; they are kept apart from it.
#[derive(Clone, Debug)]
pub struct Server {
    pub addr: ServerAddr,
    pub user: Option<String>,
    pub password: Option<String>,
    /// Another server announced this one in its INFO.
    pub discovered: bool,
    /// Host name that the certificate of a discovered server may carry instead of its address.
    pub tls_name: Option<String>,
    /// Failed attempts since the last success.
    pub failures: u32,
    last_attempt: Option<Instant>,
}

impl Server {
    fn new(addr: ServerAddr) -> Self {
        Server { addr, user: None, password: None, discovered: false, tls_name: None, failures: 0, last_attempt: None }
    }
}

/// Returns `host:port`, for messages.
pub fn place(addr: &ServerAddr) -> String {
    let host = addr.host();
    if host.contains(':') { format!("[{host}]:{}", addr.port()) } else { format!("{host}:{}", addr.port()) }
}

/// Returns the full address without user and password.
pub fn url(addr: &ServerAddr) -> String {
    let websocket = addr.scheme().starts_with("ws");
    let path =
        if websocket { addr.clone().into_inner().path().trim_end_matches('/').to_owned() } else { String::new() };
    format!("{}://{}{path}", addr.scheme(), place(addr))
}

/// Formats the server list for messages, without user info and without the default scheme.
pub fn display_servers(servers: &[String]) -> String {
    let bare = |url: &String| {
        // A part with a colon or an @ before it is a user or a password, whatever follows.
        let is_scheme = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| is_scheme(scheme)).unwrap_or(("", url));
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        if scheme.is_empty() || scheme == "nats" { host.to_owned() } else { format!("{scheme}://{host}") }
    };
    servers.iter().map(bare).collect::<Vec<_>>().join(", ")
}

fn parse(text: &str) -> Result<Server> {
    let bad = |cause: String| JetError::BadAddress { address: display_servers(&[text.to_owned()]), cause };
    // The URL parser would drop line breaks, and messages show the text as it was passed.
    if text.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        return Err(bad("it has a control character or a line break".into()));
    }
    let given: ServerAddr = text.parse().map_err(|e: std::io::Error| {
        bad(e.to_string().trim_start_matches("NATS server URL is invalid: ").to_owned())
    })?;
    if given.host().is_empty() {
        return Err(bad("it names no host".into()));
    }
    // These characters end the host, so the address in a message would show part of a password.
    let whole = given.clone().into_inner();
    if [Some(whole.path()), whole.query(), whole.fragment()].into_iter().flatten().any(|part| part.contains('@')) {
        return Err(bad("in user and password / is written %2F, ? is %3F and # is %23".into()));
    }
    if given.host().contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(bad("white space in the host name".into()));
    }
    let user = given.username().map(decode);
    let password = given.password().map(decode);
    let mut bare = given.into_inner();
    let cleared = bare.set_username("").and_then(|()| bare.set_password(None));
    if cleared.is_err() && (user.is_some() || password.is_some()) {
        return Err(bad("it cannot carry a user".into()));
    }
    let addr = ServerAddr::from_url(bare).map_err(|e| bad(e.to_string()))?;
    Ok(Server { user, password, ..Server::new(addr) })
}

/// Decodes percent-encoding. Invalid sequences remain.
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

/// Rules for the order of attempts. The servers hold the rest of the state.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub randomize: bool,
    /// Failed attempts after which a server is removed; `None`: never.
    pub max_failures: Option<u32>,
    /// Wait between two attempts at one server.
    pub wait: Duration,
    /// The wait doubles with each failed attempt up to this.
    pub wait_max: Duration,
    /// Waits are longer by up to this, so that the clients of a server do not reconnect at the same time.
    pub jitter: Duration,
    /// The same for connections with TLS, whose handshakes cost a server more.
    pub jitter_tls: Duration,
    /// All connections use TLS, whatever their address.
    pub always_tls: bool,
    /// Servers that other servers announce are not used.
    pub ignore_discovered: bool,
}

impl Rules {
    fn pause(&self, tls: bool, failures: u32) -> Duration {
        let jitter = if tls { self.jitter_tls } else { self.jitter };
        let doubled = self.wait.saturating_mul(1 << failures.saturating_sub(1).min(16));
        doubled.min(self.wait_max).max(self.wait).max(LEAST_WAIT) + jitter.mul_f64(random())
    }
}

#[derive(Debug)]
pub struct Pool {
    servers: VecDeque<Server>,
    rules: Rules,
    /// Attempts of the first round still to make.
    first_round: usize,
}

impl Pool {
    pub fn new(addresses: &[String], rules: Rules) -> Result<Self> {
        let servers = addresses.iter().map(|text| parse(text)).collect::<Result<VecDeque<_>>>()?;
        if servers.is_empty() {
            return Err(JetError::BadAddress { address: String::new(), cause: "no server address given".into() });
        }
        check_schemes(&servers)?;
        let first_round = servers.len();
        let mut pool = Pool { servers, rules, first_round };
        pool.shuffle();
        Ok(pool)
    }

    pub fn count(&self) -> usize {
        self.servers.len()
    }

    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter()
    }

    pub fn get_mut(&mut self, addr: &ServerAddr) -> Option<&mut Server> {
        self.servers.iter_mut().find(|server| server.addr == *addr)
    }

    /// True if one address requires TLS. All servers then use TLS, so that a discovered server is never contacted in
    /// clear text.
    pub fn wants_tls(&self) -> bool {
        self.servers.iter().any(|server| server.addr.tls_required())
    }

    pub fn is_websocket(&self) -> bool {
        self.servers.iter().any(|server| server.addr.is_websocket())
    }

    /// Replaces the list of servers. Servers in both lists keep their state.
    pub fn replace(&mut self, addresses: &[String]) -> Result<()> {
        let mut fresh = Pool::new(addresses, self.rules)?;
        if fresh.is_websocket() != self.is_websocket() {
            return Err(JetError::BadAddress {
                address: display_servers(addresses),
                cause: "the connection's transport (WebSocket or not) cannot change".into(),
            });
        }
        for server in &mut fresh.servers {
            if let Some(known) = self.servers.iter().find(|known| place(&known.addr) == place(&server.addr)) {
                server.failures = known.failures;
                server.last_attempt = known.last_attempt;
            }
        }
        self.servers = fresh.servers;
        Ok(())
    }

    /// Adds the servers that `from` announced; true if one is new.
    pub fn discover(&mut self, from: &ServerAddr, urls: &[String], tls: bool) -> bool {
        if self.rules.ignore_discovered {
            return false;
        }
        let scheme = match from.scheme() {
            "nats" if tls => "tls",
            scheme => scheme,
        };
        let mut fresh = Vec::new();
        for url in urls {
            let host = url.split_once("://").map_or(url.as_str(), |(_, host)| host);
            let Ok(server) = parse(&format!("{scheme}://{host}")) else { continue };
            let known = |other: &Server| place(&other.addr) == place(&server.addr);
            if !self.servers.iter().any(known) && !fresh.iter().any(known) {
                let tls_name = server.addr.host().parse::<std::net::IpAddr>().is_ok().then(|| from.host().to_owned());
                fresh.push(Server { discovered: true, tls_name, ..server });
            }
        }
        if self.rules.randomize {
            shuffle(&mut fresh);
        }
        let any = !fresh.is_empty();
        self.servers.extend(fresh);
        any
    }

    pub fn shuffle(&mut self) {
        if self.rules.randomize {
            shuffle(self.servers.make_contiguous());
        }
    }

    /// Returns the next server of the first round, which tries each server once without a wait.
    pub fn first(&mut self) -> Option<ServerAddr> {
        self.first_round = self.first_round.checked_sub(1)?;
        let server = self.servers.pop_front()?;
        let addr = server.addr.clone();
        self.servers.push_back(server);
        Some(addr)
    }

    /// Returns the servers that a handler may choose from, with their failures so far.
    pub fn candidates(&self) -> Vec<(ServerAddr, u32)> {
        let given_up = |failures| self.rules.max_failures.is_some_and(|most| failures > most);
        let eligible = self.servers.iter().filter(|server| !given_up(server.failures));
        eligible.map(|server| (server.addr.clone(), server.failures)).collect()
    }

    /// Returns the next server in turn, and the wait before the attempt. `None`: no server is left.
    pub fn next_in_turn(&mut self) -> Option<(ServerAddr, Duration)> {
        if let Some(most) = self.rules.max_failures {
            self.servers.retain(|server| server.failures <= most);
        }
        let server = self.servers.pop_front()?;
        let addr = server.addr.clone();
        let tls = self.rules.always_tls || self.wants_tls() || server.addr.tls_required();
        let wait = server.last_attempt.map(|last| {
            let due = last + self.rules.pause(tls, server.failures);
            due.saturating_duration_since(Instant::now())
        });
        self.servers.push_back(server);
        Some((addr, wait.unwrap_or_default()))
    }

    /// Delays the next attempt at this server as after a failed attempt.
    pub fn suspect(&mut self, addr: &ServerAddr) {
        if let Some(server) = self.get_mut(addr) {
            server.last_attempt = Some(Instant::now());
        }
    }

    pub fn failed(&mut self, addr: &ServerAddr) {
        if let Some(server) = self.get_mut(addr) {
            server.failures += 1;
            server.last_attempt = Some(Instant::now());
        }
    }

    pub fn succeeded(&mut self, addr: &ServerAddr) {
        if let Some(server) = self.get_mut(addr) {
            server.failures = 0;
            server.last_attempt = None;
        }
    }
}

fn check_schemes(servers: &VecDeque<Server>) -> Result<()> {
    let websocket = servers.iter().filter(|server| server.addr.is_websocket()).count();
    if websocket == 0 || websocket == servers.len() {
        return Ok(());
    }
    let all: Vec<_> = servers.iter().map(|server| url(&server.addr)).collect();
    Err(JetError::BadAddress {
        address: all.join(", "),
        cause: "mixing of websocket and non websocket URLs is not allowed".into(),
    })
}

/// Returns a random number from 0 to 1. The keys of a new hasher are random enough to spread clients.
pub fn random() -> f64 {
    RandomState::new().hash_one(0) as f64 / u64::MAX as f64
}

fn shuffle<T>(items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, (random() * last as f64).round() as usize);
    }
}

#[cfg(test)]
mod tests;

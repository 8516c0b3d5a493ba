//! Connection state: merges reports of several tasks into one sequence of events.
//!
//! Every disconnect produces one `Disconnected` event, every reconnect one `Reconnected` event.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};

use crate::auth::{CallbackAnswer, Credentials};
use crate::connection_state::link::Link;
pub use crate::disconnect_reason::DisconnectReason;
use crate::disconnect_reason::{self, AttemptDetails};
use crate::pool::{Pool, place};
use crate::refusals::{RefusalSender, Refusals};

use base::error::{JetError, Result};
use base::lock::{Guard, lock};
use wire::ack_subject::AckSubject;
use wire::message::Message;
use wire::nats::{ServerAddr, ServerInfo};
use wire::unique;

mod connect_attempt;
pub mod link;
mod server_events;

pub use connect_attempt::ConnectAttempt;
pub use server_events::ServerEvents;

use link::Outage;

/// Event for the user's callbacks.
#[derive(Clone, Debug, PartialEq)]
pub enum ConnectionEvent {
    Error(JetError),
    Disconnected,
    Reconnected,
    Closed,
    Discovered,
    LameDuck,
}

/// Counts of PINGs written and PONGs read. `attempts` increases with every connection, and both counts restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pings {
    pub attempts: u64,
    pub written: u64,
    pub answered: u64,
}

/// The user's server choice: from the servers with their failures and the last server's INFO, returns index and wait.
/// `None` selects the first server.
pub type Choose =
    Arc<dyn Fn(Vec<(ServerAddr, u32)>, ServerInfo) -> CallbackAnswer<(Option<usize>, Duration)> + Send + Sync>;

/// Event queue, and the callback that wakes its reader.
pub struct EventQueue {
    pub waiting: Arc<Mutex<Vec<ConnectionEvent>>>,
    pub wake: Box<dyn Fn() + Send + Sync>,
}

pub struct StateSettings {
    /// Name of the connection.
    pub name: Option<String>,
    pub credentials: Credentials,
    pub connect_timeout: Duration,
    pub reconnect_timeout: Duration,
    pub allow_reconnect: bool,
    /// Continues after the first round over all servers.
    pub retry_first: bool,
    pub choose: Option<Choose>,
    pub inbox_prefix: Option<String>,
    /// `None`: no events are queued.
    pub notices: Option<EventQueue>,
}

#[derive(Default)]
struct Inner {
    /// True after the first connection.
    was_up: bool,
    /// Server of the current attempt or connection.
    current: Option<ServerAddr>,
    /// Details of the current attempt.
    attempt: Option<AttemptDetails>,
    /// Reason of the disconnect that is about to be noticed.
    reason: Option<JetError>,
    lame_duck: bool,
    last_error: Option<JetError>,
    /// Failures of the first round, until the first connection.
    failures: Vec<(String, JetError)>,
    first: Option<oneshot::Sender<Result<()>>>,
    /// Start of the outage and results of the attempts to reconnect, while the link is down.
    outage: Option<Outage>,
    reconnects: u64,
    errors: u64,
}

pub struct ConnectionState {
    pub settings: StateSettings,
    /// Failure of one of the connection's own tasks, after which the connection is unusable.
    failure: OnceLock<JetError>,
    /// Reason for the end of attempts.
    ended: OnceLock<String>,
    pool: Mutex<Pool>,
    /// Addresses of all servers, for messages.
    pub servers: Arc<str>,
    pub link: watch::Sender<Link>,
    pub pings: watch::Sender<Pings>,
    /// Distributor of permission errors of publishes and subscriptions.
    refusals: RefusalSender,
    pub closing: watch::Sender<bool>,
    /// Signals that the server is about to shut down.
    pub lame_duck: Notify,
    state: Mutex<Inner>,
}

/// Above this many queued events, errors are counted and dropped. Other clients can cause errors at any rate.
const MOST_WAITING: usize = 10_000;

impl ConnectionState {
    pub fn new(settings: StateSettings, pool: Pool, servers: Arc<str>, first: oneshot::Sender<Result<()>>) -> Self {
        ConnectionState {
            settings,
            failure: OnceLock::new(),
            ended: OnceLock::new(),
            pool: Mutex::new(pool),
            servers,
            link: watch::Sender::new(Link::default()),
            pings: watch::Sender::default(),
            refusals: RefusalSender::default(),
            closing: watch::Sender::new(false),
            lame_duck: Notify::new(),
            state: Mutex::new(Inner { first: Some(first), ..Inner::default() }),
        }
    }

    fn lock(&self) -> Guard<'_, Inner> {
        lock(&self.state)
    }

    pub fn pool(&self) -> Guard<'_, Pool> {
        lock(&self.pool)
    }

    /// Changes the state, and queues its events in the order of the changes.
    fn change(&self, change: impl FnOnce(&mut Inner, &mut Vec<ConnectionEvent>)) {
        let any = {
            let mut state = self.lock();
            let mut notices = Vec::new();
            change(&mut state, &mut notices);
            for notice in &notices {
                if let ConnectionEvent::Error(error) = notice {
                    state.errors += 1;
                    state.last_error = Some(error.clone());
                }
            }
            let any = !notices.is_empty();
            if let Some(taker) = &self.settings.notices {
                let mut waiting = lock(&taker.waiting);
                if waiting.len() >= MOST_WAITING {
                    notices.retain(|notice| !matches!(notice, ConnectionEvent::Error(_)));
                }
                waiting.append(&mut notices);
            }
            any
        };
        // Called without the lock, because it may wait for the GIL.
        if any && let Some(taker) = &self.settings.notices {
            (taker.wake)();
        }
    }

    /// Builds the error of a closed connection.
    pub fn closed_error(&self) -> JetError {
        let closed = || JetError::Closed { servers: self.servers.to_string(), why: self.ended.get().cloned() };
        self.failure.get().cloned().unwrap_or_else(closed)
    }

    /// Error of one of the connection's own tasks, if that ended the connection.
    pub fn failure(&self) -> Option<JetError> {
        self.failure.get().cloned()
    }

    /// Records the failure of one of the connection's own tasks. Later calls fail with it. Does not lock.
    pub fn doomed(&self, error: JetError) {
        let _first_one_counts = self.failure.set(error);
    }

    /// Ends the connection with the error of one of its own tasks.
    pub fn failed_within(&self, error: JetError) {
        self.doomed(error.clone());
        self.stop();
        self.closed(Some(error));
    }

    /// Returns a unique inbox subject.
    pub fn new_inbox(&self) -> Result<String> {
        Ok(format!("{}.{}", self.inbox_prefix(), unique::id()?))
    }

    /// Returns an inbox with a short name, which saves a server 4 % of its time per message of 128 B.
    pub fn new_short_inbox(&self) -> Result<String> {
        Ok(format!("{}.{}", self.inbox_prefix(), unique::short_id()?))
    }

    fn inbox_prefix(&self) -> &str {
        self.settings.inbox_prefix.as_deref().unwrap_or("_INBOX")
    }

    /// Returns a receiver of permission errors from now on. A publish without permission ends with such an error, not
    /// with a reply.
    pub fn watch_refusals(&self) -> Refusals {
        self.refusals.subscribe()
    }

    pub fn last_error(&self) -> Option<JetError> {
        self.lock().last_error.clone()
    }

    /// Returns the numbers of reconnects and errors so far.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        (state.reconnects, state.errors)
    }

    /// Returns the connected server.
    pub fn current(&self) -> Option<ServerAddr> {
        let current = self.lock().current.clone();
        current.filter(|_| self.link.borrow().up)
    }

    pub fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Waits until the user closes the connection, before queued data is sent and the link is down.
    pub async fn ending(&self) {
        let mut closing = self.closing.subscribe();
        let _gone = closing.wait_for(|closing| *closing).await;
    }

    /// Ends all attempts to connect, from now on.
    pub fn stop(&self) {
        self.closing.send_replace(true);
    }

    /// Records that the current attempt succeeded.
    pub fn connected(&self) {
        self.change(|state, notices| {
            if self.link.borrow().closed {
                return;
            }
            state.was_up = true;
            state.attempt = None;
            state.reason = None;
            state.outage = None;
            state.lame_duck = false;
            state.failures.clear();
            if let Some(current) = &state.current {
                self.pool().succeeded(current);
            }
            self.link.send_modify(|link| link.up = true);
            match state.first.take() {
                Some(first) => drop(first.send(Ok(()))),
                None => {
                    state.reconnects += 1;
                    notices.push(ConnectionEvent::Reconnected);
                }
            }
        });
    }

    /// Records that the link is down. Without a reason the user requested it.
    pub fn lost(&self) {
        self.change(|state, notices| {
            if !self.link.borrow().up {
                return;
            }
            self.link.send_modify(|link| {
                link.up = false;
                link.breaks += 1;
            });
            state.outage = Some(Outage::new(state.reason.as_ref()));
            notices.extend(state.reason.take().map(ConnectionEvent::Error));
            notices.push(ConnectionEvent::Disconnected);
        });
    }

    /// Records that no attempts follow, with the error that ended them.
    pub fn closed(&self, error: Option<JetError>) {
        self.lost();
        let error = error.or_else(|| self.failure());
        if let Some(JetError::NoServers { cause, .. }) = &error {
            let _first_one_counts = self.ended.set(cause.clone());
        }
        self.change(|state, notices| {
            if self.link.borrow().closed {
                return;
            }
            self.link.send_modify(|link| link.closed = true);
            if let Some(first) = state.first.take() {
                let failures = std::mem::take(&mut state.failures);
                let _nobody_waits =
                    first.send(Err(error.unwrap_or_else(|| disconnect_reason::verdict(&self.servers, failures))));
                return;
            }
            notices.extend(error.map(ConnectionEvent::Error));
            notices.push(ConnectionEvent::Closed);
        });
    }

    /// Builds the error of the first round so far, for a connect that takes too long.
    pub fn verdict(&self) -> Option<JetError> {
        let failures = self.lock().failures.clone();
        (!failures.is_empty()).then(|| disconnect_reason::verdict(&self.servers, failures))
    }

    /// True if the server has announced its shutdown.
    pub fn is_lame_duck(&self) -> bool {
        self.lock().lame_duck
    }

    /// Timeout of one attempt at one address.
    pub fn attempt_timeout(&self) -> Duration {
        if self.was_up() { self.settings.reconnect_timeout } else { self.settings.connect_timeout }
    }

    /// True after the first connection.
    pub fn was_up(&self) -> bool {
        self.lock().was_up
    }

    /// Counts a sent PING; returns its number.
    pub fn pinged(&self) -> u64 {
        self.pings.send_modify(|pings| pings.written += 1);
        self.pings.borrow().written
    }

    /// Reports malformed headers of a message about to be delivered. `meta` gives the stored position of a message that
    /// does not carry it.
    pub fn report_malformed(&self, message: &Message, meta: Option<&AckSubject<'_>>) {
        disconnect_reason::malformed(message, meta).into_iter().for_each(|error| self.tell(error));
    }

    /// Queues an error that no call waits for.
    pub fn tell(&self, error: JetError) {
        self.change(|_, notices| notices.push(ConnectionEvent::Error(error)));
    }

    /// The attempt to connect that is under way.
    pub fn attempt(&self) -> ConnectAttempt<'_> {
        ConnectAttempt(self)
    }

    /// The events that the server causes.
    pub fn events(&self) -> ServerEvents<'_> {
        ServerEvents(self)
    }
}

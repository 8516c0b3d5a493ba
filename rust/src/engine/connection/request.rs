//! Requests: one inbox for all of a connection, and a number in the reply subject to tell the answers apart.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode, Subject};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::{Notify, OnceCell, oneshot, watch};
use tokio::task::unconstrained;
use tokio::time::Instant;

use crate::engine::connection::outbox::Outgoing;
use crate::engine::connection::refusals::{Refusals, Refused};
use crate::engine::connection::{Connection, Link, Traffic};
use crate::engine::publish::inflight::{read_token, write_token};
use crate::engine::publish::puback::ApiError;
use crate::error::{JetError, Result};

/// What is to be sent, and how long its answer may take.
pub struct Request {
    pub subject: String,
    pub payload: Bytes,
    pub headers: Option<HeaderMap>,
    pub timeout: Duration,
}

/// Told the answer, from a task that must not be kept waiting.
type Done = Box<dyn FnOnce(Result<Message>) + Send>;

struct Pending {
    done: Done,
    subject: String,
    timeout: Duration,
    deadline: Instant,
}

/// The answers that are awaited. An entry goes with its request, answered or not: async-nats's own would stay.
#[derive(Default)]
pub struct Requests {
    inbox: OnceCell<String>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// A deadline earlier than all others was added.
    earlier: Notify,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    pending: HashMap<u64, Pending>,
    deadlines: BTreeSet<(Instant, u64)>,
    closed: bool,
    /// The server does not let answers through.
    deaf: Option<JetError>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, number: u64) -> Option<Pending> {
        let mut waiting = self.lock();
        let pending = waiting.pending.remove(&number)?;
        waiting.deadlines.remove(&(pending.deadline, number));
        Some(pending)
    }
}

impl Requests {
    /// Subscribes to the inbox where that was not done yet.
    async fn open(&self, conn: &Connection) -> Result<()> {
        let subscribe = async || {
            let prefix = format!("{}.", conn.client.new_inbox());
            let refusals = conn.refusals();
            let answers = conn.client.subscribe(format!("{prefix}*")).await.map_err(|_| conn.closed())?;
            tokio::spawn(unconstrained(sort(
                answers,
                prefix.len(),
                Arc::downgrade(&self.shared),
                conn.traffic.clone(),
                conn.closed(),
            )));
            tokio::spawn(expire(Arc::downgrade(&self.shared)));
            tokio::spawn(refuse(Arc::downgrade(&self.shared), refusals, conn.link.clone(), format!("{prefix}*")));
            Ok(prefix)
        };
        self.inbox.get_or_try_init(subscribe).await.map(drop)
    }

    /// True once `start` can be used: after the first `request`.
    pub fn is_open(&self) -> bool {
        self.inbox.initialized()
    }

    /// How many wait for an answer.
    pub fn pending(&self) -> usize {
        self.shared.lock().pending.len()
    }

    /// Holds the request in the outbox and returns its number; `done` is told the answer. Only while open.
    pub fn start(&self, conn: &Connection, request: Request, done: Done) -> Result<u64> {
        let Some(prefix) = self.inbox.get() else { return Err(JetError::Internal("no inbox".into())) };
        let Request { subject, payload, headers, timeout } = request;
        let mut reply = prefix.as_bytes().to_vec();
        let to = Subject::from(subject.as_str());
        let deadline = Instant::now() + timeout;
        let number = {
            let mut waiting = self.shared.lock();
            if waiting.closed {
                return Err(conn.closed());
            }
            if let Some(cause) = &waiting.deaf {
                return Err(cause.clone());
            }
            waiting.last += 1;
            let number = waiting.last;
            waiting.deadlines.insert((deadline, number));
            if waiting.deadlines.first() == Some(&(deadline, number)) {
                self.shared.earlier.notify_one();
            }
            waiting.pending.insert(number, Pending { done, subject, timeout, deadline });
            number
        };
        write_token(number, &mut reply);
        let reply = Subject::from(String::from_utf8_lossy(&reply).as_ref());
        conn.outbox.hold(Outgoing { subject: to, reply: Some(reply), headers, payload });
        Ok(number)
    }
}

/// Hands each answer to the request that waits for it, until the connection closes or is gone.
async fn sort(
    mut answers: async_nats::Subscriber,
    prefix: usize,
    shared: Weak<Shared>,
    traffic: Arc<Traffic>,
    closed: JetError,
) {
    while let Some(message) = answers.next().await {
        traffic.received(message.payload.len());
        let Some(shared) = shared.upgrade() else { return };
        let number = message.subject.as_bytes().get(prefix..).and_then(read_token);
        let Some(Pending { done, subject, .. }) = number.and_then(|number| shared.take(number)) else { continue };
        done(match message.status {
            Some(StatusCode::NO_RESPONDERS) => Err(JetError::NoResponders { subject }),
            _ => Ok(message),
        });
    }
    if let Some(shared) = shared.upgrade() {
        let pending = {
            let mut waiting = shared.lock();
            waiting.closed = true;
            waiting.deadlines.clear();
            std::mem::take(&mut waiting.pending)
        };
        pending.into_values().for_each(|pending| (pending.done)(Err(closed.clone())));
    }
}

/// Ends the requests that nobody answered in time.
async fn expire(weak: Weak<Shared>) {
    /// With nothing to expire, how long until the next look whether the connection is still there.
    const IDLE: Duration = Duration::from_secs(60);
    while let Some(shared) = weak.upgrade() {
        let now = Instant::now();
        let first = shared.lock().deadlines.first().copied();
        match first {
            Some((deadline, number)) if deadline <= now => {
                if let Some(Pending { done, subject, timeout, .. }) = shared.take(number) {
                    done(Err(JetError::Timeout { what: format!("the request to {subject:?}"), after: timeout }));
                }
            }
            _ => {
                let next = first.map_or(now + IDLE, |(deadline, _)| deadline);
                let _either = tokio::time::timeout_at(next, shared.earlier.notified()).await;
            }
        }
    }
}

/// Ends the requests that the server does not let through, or whose answers it would not.
async fn refuse(weak: Weak<Shared>, mut refusals: Refusals, mut link: watch::Receiver<Link>, inbox: String) {
    let mut breaks = link.borrow().breaks;
    loop {
        let refused = tokio::select! {
            refused = refusals.wait() => refused,
            changed = link.changed() => changed.is_ok().then(Refused::default),
        };
        let (Some(refused), Some(shared)) = (refused, weak.upgrade()) else { return };
        let hit: Vec<_> = {
            let mut waiting = shared.lock();
            let now = link.borrow().breaks;
            if std::mem::replace(&mut breaks, now) != now {
                // Another server, or other permissions: it is asked anew.
                waiting.deaf = None;
            }
            if let Some(cause) = refused.subscription(&inbox) {
                waiting.deaf = Some(cause.clone());
            }
            let cause =
                |pending: &Pending| waiting.deaf.as_ref().or_else(|| refused.publish(&pending.subject)).cloned();
            waiting.pending.iter().filter_map(|(number, pending)| Some((*number, cause(pending)?))).collect()
        };
        for (number, cause) in hit {
            if let Some(pending) = shared.take(number) {
                (pending.done)(Err(cause));
            }
        }
    }
}

/// Takes the entry away where the request is dropped while it waits.
struct Entry<'a>(&'a Shared, u64);

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.take(self.1);
    }
}

/// Publishes and waits for the first answer.
pub async fn request(
    conn: &Connection,
    subject: String,
    payload: Bytes,
    headers: Option<HeaderMap>,
    timeout: Duration,
) -> Result<Message> {
    let late = || JetError::Timeout { what: format!("the request to {subject:?}"), after: timeout };
    // Subscribing waits while the link is down.
    let open = tokio::time::timeout(timeout, conn.requests.open(conn)).await;
    open.map_err(|_| if conn.link.borrow().closed { conn.closed() } else { late() })??;
    let (send, answer) = oneshot::channel();
    let done = Box::new(move |answer| {
        let _nobody_waits = send.send(answer);
    });
    let number = conn.requests.start(conn, Request { subject, payload, headers, timeout }, done)?;
    conn.outbox.kick();
    let _entry = Entry(&conn.requests.shared, number);
    answer.await.unwrap_or_else(|_| Err(conn.closed()))
}

/// How long the engine's own API requests may take before they are tried again or given up.
pub const API_TIMEOUT: Duration = Duration::from_secs(5);

/// A JetStream API request: JSON there and back, the server's error as `JetError::Api`.
pub async fn api<T: serde::de::DeserializeOwned>(
    conn: &Connection,
    prefix: &str,
    verb: &str,
    body: &serde_json::Value,
) -> Result<T> {
    let subject = format!("{prefix}.{verb}");
    let payload = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let answer = request(conn, subject.clone(), payload, None, API_TIMEOUT).await?;
    #[derive(serde::Deserialize)]
    struct Failure {
        error: ApiError,
    }
    if let Ok(Failure { error }) = serde_json::from_slice(&answer.payload) {
        return Err(error.into());
    }
    serde_json::from_slice(&answer.payload)
        .map_err(|e| JetError::Protocol { what: format!("{subject:?}"), answer: e.to_string() })
}

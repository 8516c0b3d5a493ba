//! Requests: one inbox for all of a connection, and a number in the reply subject to match answers with requests.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use async_nats::{Client, HeaderMap, Message, StatusCode, Subject};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::{Notify, OnceCell, oneshot, watch};
use tokio::task::unconstrained;
use tokio::time::Instant;

use crate::engine::connection::connect::failing;
use crate::engine::connection::hub::Hub;
use crate::engine::connection::link::{Link, Traffic};
use crate::engine::connection::outbox::{Outbox, Outgoing};
use crate::engine::connection::refusals::{Refusals, Refused};
use crate::engine::connection::token::{read_token, write_token};
use crate::error::{JetError, Result};
use crate::lock::lock;
use crate::task::{Spot, spawn, weak_spot};

/// What is to be sent, and how long its answer may take.
pub struct Request {
    pub subject: String,
    pub payload: Bytes,
    pub headers: Option<HeaderMap>,
    pub timeout: Duration,
}

/// Gets the answer, in a task that must not be kept waiting.
pub type Done = Box<dyn FnOnce(Result<Message>) + Send>;

struct Pending {
    done: Done,
    subject: String,
    timeout: Duration,
    deadline: Instant,
}

/// The answers that are awaited. An entry goes with its request, answered or not: async-nats's own would stay.
pub struct Requests {
    client: Client,
    hub: Arc<Hub>,
    traffic: Arc<Traffic>,
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
        lock(&self.waiting)
    }

    fn take(&self, number: u64) -> Option<Pending> {
        let mut waiting = self.lock();
        let pending = waiting.pending.remove(&number)?;
        waiting.deadlines.remove(&(pending.deadline, number));
        Some(pending)
    }
}

impl Shared {
    /// No answer will come any more.
    fn end(&self, cause: &JetError) {
        let pending = {
            let mut waiting = self.lock();
            waiting.closed = true;
            waiting.deadlines.clear();
            std::mem::take(&mut waiting.pending)
        };
        pending.into_values().for_each(|pending| (pending.done)(Err(cause.clone())));
    }
}

impl Requests {
    pub fn new(client: Client, hub: Arc<Hub>, traffic: Arc<Traffic>) -> Self {
        Requests { client, hub, traffic, inbox: OnceCell::new(), shared: Arc::default() }
    }

    /// Subscribes to the inbox where that was not done yet.
    async fn open(&self) -> Result<()> {
        let subscribe = async || {
            let prefix = format!("{}.", self.hub.new_inbox()?);
            let inbox = format!("{prefix}*");
            let refusals = self.hub.watch_refusals();
            let answers = self.client.subscribe(inbox.clone()).await.map_err(|_| self.hub.closed_error())?;
            let shared = || Arc::downgrade(&self.shared);
            let failed = || {
                let (tell, shared) = (failing(&self.client, &self.hub), shared());
                move |error: JetError| {
                    tell(error.clone());
                    shared.upgrade().inspect(|shared| shared.end(&error));
                }
            };
            let dispatch = dispatch_answers(answers, prefix.len(), shared(), self.traffic.clone(), self.hub.clone());
            spawn(unconstrained(dispatch), failed())?;
            spawn(expire(shared()), failed())?;
            spawn(refuse(shared(), refusals, self.hub.link.subscribe(), inbox), failed())?;
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

    /// Holds the request in the outbox and returns its number; `done` gets the answer. Only while open.
    pub fn start(&self, outbox: &Outbox, request: Request, done: Done) -> Result<u64> {
        let Some(prefix) = self.inbox.get() else { return Err(JetError::Internal("no inbox".into())) };
        let Request { subject, payload, headers, timeout } = request;
        let mut reply = prefix.as_bytes().to_vec();
        let to = Subject::from(subject.as_str());
        let deadline = Instant::now() + timeout;
        let number = {
            let mut waiting = self.shared.lock();
            if waiting.closed {
                return Err(self.hub.closed_error());
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
        outbox.hold(Outgoing { subject: to, reply: Some(reply), headers, payload });
        Ok(number)
    }

    /// Sends one request and waits for the first answer.
    pub async fn request(&self, outbox: &Outbox, request: Request) -> Result<Message> {
        // Subscribing waits while the link is down.
        let open = tokio::time::timeout(request.timeout, self.open()).await;
        open.map_err(|_| match self.hub.link.borrow().closed {
            true => self.hub.closed_error(),
            false => late(&request.subject, request.timeout),
        })??;
        let (send, answer) = oneshot::channel();
        let done = Box::new(move |answer| {
            let _cancelled = send.send(answer);
        });
        let number = self.start(outbox, request, done)?;
        outbox.kick();
        let _entry = Entry(&self.shared, number);
        answer.await.unwrap_or_else(|_| Err(self.hub.closed_error()))
    }
}

fn late(subject: &str, timeout: Duration) -> JetError {
    JetError::Timeout { what: format!("the request to {subject:?}"), after: timeout }
}

/// Hands each answer to the request that waits for it, until the connection closes or is gone.
async fn dispatch_answers(
    mut answers: async_nats::Subscriber,
    prefix: usize,
    shared: Weak<Shared>,
    traffic: Arc<Traffic>,
    hub: Arc<Hub>,
) {
    while let Some(message) = answers.next().await {
        weak_spot(Spot::Answers);
        traffic.received(message.payload.len());
        let Some(shared) = shared.upgrade() else { return };
        let number = message.subject.as_bytes().get(prefix..).and_then(read_token);
        let Some(Pending { done, subject, .. }) = number.and_then(|number| shared.take(number)) else { continue };
        done(match message.status {
            Some(StatusCode::NO_RESPONDERS) => Err(JetError::NoResponders { subject }),
            _ => Ok(message),
        });
    }
    shared.upgrade().inspect(|shared| shared.end(&hub.closed_error()));
}

/// Ends the requests that got no answer in time.
async fn expire(weak: Weak<Shared>) {
    /// With nothing to expire, how long until the next look whether the connection is still there.
    const IDLE: Duration = Duration::from_secs(60);
    while let Some(shared) = weak.upgrade() {
        weak_spot(Spot::Expiry);
        let now = Instant::now();
        let first = shared.lock().deadlines.first().copied();
        match first {
            Some((deadline, number)) if deadline <= now => {
                if let Some(Pending { done, subject, timeout, .. }) = shared.take(number) {
                    done(Err(late(&subject, timeout)));
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
        weak_spot(Spot::Refusals);
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

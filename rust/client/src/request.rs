//! Requests: one inbox per connection; a number in the reply subject matches replies with requests.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use rustc_hash::FxBuildHasher;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::unconstrained;
use tokio::time::Instant;

use crate::connect::failing;
use crate::connection_state::ConnectionState;
use crate::connection_state::link::Link;
use crate::outbox::{CancelHandle, Outbox, Outgoing};
use crate::refusals::{Refusal, Refusals};
use crate::traffic::{Traffic, Verb};
use crate::transport::{Client, Subscriber};
use base::error::{JetError, Result};
use base::lock::{Guard, lock};
use runtime::task::{Spot, spawn, weak_spot};
use wire::arena::Arena;
use wire::message::Message;
use wire::nats::{HeaderMap, Subject};
use wire::size::message_size;
use wire::token::{read_token, write_token};

/// A request, with the timeout of its reply.
pub struct Request {
    pub subject: Subject,
    pub payload: Bytes,
    pub headers: Option<HeaderMap>,
    pub timeout: Duration,
    /// Verb under which it is counted.
    pub verb: Verb,
}

/// Callback for the reply. It runs in a task that must not block.
pub type Done = Box<dyn FnOnce(Result<Message>) + Send>;

struct PendingRequest {
    done: Done,
    subject: Subject,
    timeout: Duration,
    deadline: Instant,
    /// Place in the outbox.
    place: u64,
    /// Identifier that its caller cancels it by; 0 is none.
    tag: usize,
    verb: Verb,
}

/// Requests of a connection that wait for a reply. Each entry is removed with its request, answered or not.
pub struct Requests {
    client: Client,
    state: Arc<ConnectionState>,
    traffic: Arc<Traffic>,
    inbox: OnceLock<String>,
    opening: Mutex<()>,
    shared: Arc<RequestState>,
}

struct RequestState {
    waiting: Mutex<RequestCall>,
    outbox: CancelHandle,
    /// Signals a new earliest deadline.
    earlier: Notify,
}

#[derive(Default)]
struct RequestCall {
    last: u64,
    pending: HashMap<u64, PendingRequest, FxBuildHasher>,
    /// Numbers of the requests that have a tag.
    tagged: HashMap<usize, u64>,
    deadlines: BTreeSet<(Instant, u64)>,
    closed: bool,
    /// Permission error of the inbox: the server does not deliver replies.
    deaf: Option<JetError>,
    /// Buffers that reply subjects are built in.
    reply: Vec<u8>,
    arena: Arena,
}

impl RequestState {
    fn lock(&self) -> Guard<'_, RequestCall> {
        lock(&self.waiting)
    }

    fn take_pending(&self, number: u64) -> Option<PendingRequest> {
        let mut waiting = self.lock();
        let pending = waiting.pending.remove(&number)?;
        waiting.deadlines.remove(&(pending.deadline, number));
        if pending.tag != 0 {
            waiting.tagged.remove(&pending.tag);
        }
        Some(pending)
    }

    /// Ends a request without a reply. The flag is false if it was cancelled in the outbox, so it is never sent.
    fn end(&self, number: u64) -> Option<(PendingRequest, bool)> {
        let pending = self.take_pending(number)?;
        let sent = !self.outbox.cancel(pending.place);
        Some((pending, sent))
    }

    /// Ends all requests with this error.
    fn end_all(&self, cause: &JetError) {
        let pending = {
            let mut waiting = self.lock();
            waiting.closed = true;
            waiting.deadlines.clear();
            waiting.tagged.clear();
            std::mem::take(&mut waiting.pending)
        };
        pending.into_values().for_each(|pending| (pending.done)(Err(cause.clone())));
    }
}

impl Requests {
    pub fn new(client: Client, state: Arc<ConnectionState>, traffic: Arc<Traffic>, outbox: CancelHandle) -> Self {
        let shared = RequestState { waiting: Mutex::default(), outbox, earlier: Notify::new() };
        Requests { client, state, traffic, inbox: OnceLock::new(), opening: Mutex::default(), shared: Arc::new(shared) }
    }

    /// Rejects a message of `bytes` if the link is down and the queue is at its limit.
    pub fn check_room(&self, outbox: &Outbox, bytes: usize) -> Result<()> {
        let full = !self.state.link.borrow().up && outbox.bytes().saturating_add(bytes) > outbox.limit;
        if full { Err(JetError::OutboundLimit { limit: outbox.limit }) } else { Ok(()) }
    }

    /// Returns the prefix of reply subjects. On first use it enqueues the subscription ahead of the request.
    fn open(&self, outbox: &Outbox) -> Result<&str> {
        if let Some(prefix) = self.inbox.get() {
            return Ok(prefix);
        }
        let _one_of_many_threads = lock(&self.opening);
        if let Some(prefix) = self.inbox.get() {
            return Ok(prefix);
        }
        let prefix = format!("{}.", self.state.new_inbox()?);
        let inbox = format!("{prefix}*");
        let refusals = self.state.watch_refusals();
        let answers = outbox.subscribe(inbox.as_str().into(), None);
        let shared = || Arc::downgrade(&self.shared);
        let failed = || {
            let (tell, shared) = (failing(&self.client, &self.state), shared());
            move |error: JetError| {
                tell(error.clone());
                shared.upgrade().inspect(|shared| shared.end_all(&error));
            }
        };
        let dispatch = dispatch_answers(answers, prefix.len(), shared(), self.traffic.clone(), self.state.clone());
        spawn(unconstrained(dispatch), failed())?;
        let link = || self.state.link.subscribe();
        spawn(while_open(link(), expire(shared())), failed())?;
        spawn(while_open(link(), refuse(shared(), refusals, link(), inbox)), failed())?;
        Ok(self.inbox.get_or_init(|| prefix))
    }

    /// Number of requests that wait for a reply.
    pub fn pending(&self) -> usize {
        self.shared.lock().pending.len()
    }

    /// A handle for tasks of the connection.
    pub fn pending_requests(&self) -> PendingRequests {
        PendingRequests(Arc::downgrade(&self.shared))
    }

    /// Enqueues the request in the outbox and returns its number; `done` gets the reply.
    pub fn start(&self, outbox: &Outbox, request: Request, tag: usize, done: Done) -> Result<u64> {
        let Request { subject, payload, headers, timeout, verb } = request;
        let mut message = Outgoing { subject: subject.clone(), reply: None, headers, payload };
        self.check_room(outbox, message_size(&message))?;
        let prefix = self.open(outbox)?;
        let deadline = Instant::now() + timeout;
        let mut waiting = self.shared.lock();
        if waiting.closed {
            return Err(self.state.closed_error());
        }
        if let Some(cause) = &waiting.deaf {
            return Err(cause.clone());
        }
        waiting.last += 1;
        let number = waiting.last;
        let RequestCall { reply, arena, .. } = &mut *waiting;
        reply.clear();
        reply.extend_from_slice(prefix.as_bytes());
        write_token(number, reply);
        let reply = Subject::from_utf8(arena.copy(reply));
        message.reply = Some(reply.map_err(|_| JetError::Internal("reply subject".into()))?);
        // Under the lock, so that its reply or its end finds a complete entry.
        let place = outbox.hold(message, verb).place;
        waiting.deadlines.insert((deadline, number));
        if waiting.deadlines.first() == Some(&(deadline, number)) {
            self.shared.earlier.notify_one();
        }
        if tag != 0 {
            waiting.tagged.insert(tag, number);
        }
        waiting.pending.insert(number, PendingRequest { done, subject, timeout, deadline, place, tag, verb });
        Ok(number)
    }

    /// Cancels the request without a result. If it is still in the outbox, it is never sent.
    pub fn cancel(&self, tag: usize) {
        let number = self.shared.lock().tagged.get(&tag).copied();
        drop(number.and_then(|number| self.shared.end(number)));
    }

    /// Sends one request. The returned future waits for the first reply; dropping it ends the request.
    pub fn request(
        &self,
        outbox: &Outbox,
        request: Request,
    ) -> Result<impl Future<Output = Result<Message>> + Send + use<>> {
        let (send, answer) = oneshot::channel();
        let done = Box::new(move |answer| {
            let _cancelled = send.send(answer);
        });
        let number = self.start(outbox, request, 0, done)?;
        outbox.flush_now();
        let (entry, state) = (RequestEntry(self.shared.clone(), number), self.state.clone());
        Ok(async move {
            let _entry = entry;
            answer.await.unwrap_or_else(|_| Err(state.closed_error()))
        })
    }
}

/// The requests that wait for a reply.
pub struct PendingRequests(Weak<RequestState>);

impl PendingRequests {
    /// Number of the last request so far.
    pub fn last(&self) -> u64 {
        self.0.upgrade().map_or(0, |shared| shared.lock().last)
    }

    /// True if one of the requests up to this number waits for its reply.
    pub fn is_any(&self, last: u64) -> bool {
        self.0.upgrade().is_some_and(|shared| shared.lock().pending.keys().any(|number| *number <= last))
    }
}

fn late(subject: &Subject, after: Duration, sent: bool) -> JetError {
    JetError::Unanswered { verb: "request", subject: subject.to_string(), after, sent }
}

/// Dispatches replies to their requests, until the connection is closed or dropped.
async fn dispatch_answers(
    made: oneshot::Receiver<Subscriber>,
    prefix: usize,
    shared: Weak<RequestState>,
    traffic: Arc<Traffic>,
    state: Arc<ConnectionState>,
) {
    // Without a subscriber the connection is closed.
    let mut answers = stream::iter(made.await.ok()).flatten();
    while let Some(message) = answers.next().await {
        weak_spot(Spot::Answers);
        let Some(shared) = shared.upgrade() else { return };
        let number = message.subject_bytes().get(prefix..).and_then(read_token);
        let pending = number.and_then(|number| shared.take_pending(number));
        // A reply without a waiting request is counted all the same.
        traffic.received(pending.as_ref().map_or(Verb::Request, |pending| pending.verb), message.payload().len());
        let Some(PendingRequest { done, subject, .. }) = pending else { continue };
        done(match message.says_no_responders() {
            true => Err(JetError::NoResponders { subject: subject.to_string() }),
            false => Ok(message),
        });
    }
    shared.upgrade().inspect(|shared| shared.end_all(&state.closed_error()));
}

/// Runs `work` until the connection is closed. The task holds the connection to report panics, and must not outlive it.
async fn while_open(mut link: watch::Receiver<Link>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        _ = link.wait_for(|link| link.closed) => {}
    }
}

/// Ends requests at their deadline.
async fn expire(weak: Weak<RequestState>) {
    /// Without a deadline, interval at which the task checks that the connection still exists.
    const IDLE: Duration = Duration::from_secs(60);
    while let Some(shared) = weak.upgrade() {
        weak_spot(Spot::Expiry);
        let now = Instant::now();
        let first = shared.lock().deadlines.first().copied();
        match first {
            Some((deadline, number)) if deadline <= now => {
                if let Some((PendingRequest { done, subject, timeout, .. }, sent)) = shared.end(number) {
                    done(Err(late(&subject, timeout, sent)));
                }
            }
            _ => {
                let next = first.map_or(now + IDLE, |(deadline, _)| deadline);
                let _either = tokio::time::timeout_at(next, shared.earlier.notified()).await;
            }
        }
    }
}

/// Ends requests for which the server denies the publish or the delivery of replies.
async fn refuse(weak: Weak<RequestState>, mut refusals: Refusals, mut link: watch::Receiver<Link>, inbox: String) {
    let mut breaks = link.borrow().breaks;
    loop {
        let refused = tokio::select! {
            refused = refusals.wait() => refused,
            _ = link.changed() => Refusal::default(),
        };
        weak_spot(Spot::Refusals);
        let Some(shared) = weak.upgrade() else { return };
        let hit: Vec<_> = {
            let mut waiting = shared.lock();
            let now = link.borrow().breaks;
            if std::mem::replace(&mut breaks, now) != now {
                // Another server or other permissions: the next request tries again.
                waiting.deaf = None;
            }
            if let Some(cause) = refused.subscription(&inbox) {
                waiting.deaf = Some(cause.clone());
            }
            let cause =
                |pending: &PendingRequest| waiting.deaf.as_ref().or_else(|| refused.publish(&pending.subject)).cloned();
            waiting.pending.iter().filter_map(|(number, pending)| Some((*number, cause(pending)?))).collect()
        };
        for (number, cause) in hit {
            if let Some((pending, _)) = shared.end(number) {
                (pending.done)(Err(cause));
            }
        }
    }
}

/// Guard that ends the request if it is dropped while it waits.
struct RequestEntry(Arc<RequestState>, u64);

impl Drop for RequestEntry {
    fn drop(&mut self) {
        drop(self.0.end(self.1));
    }
}

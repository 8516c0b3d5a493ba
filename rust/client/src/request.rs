//! Requests: one inbox for all of a connection, and a number in the reply subject to match answers with requests.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
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
use wire::int_hasher::BuildIntHasher;
use wire::message::Message;
use wire::nats::{HeaderMap, Subject};
use wire::size::message_size;
use wire::token::{read_token, write_token};

/// What is to be sent, and how long its answer may take.
pub struct Request {
    pub subject: Subject,
    pub payload: Bytes,
    pub headers: Option<HeaderMap>,
    pub timeout: Duration,
    /// What it is counted as.
    pub verb: Verb,
}

/// Gets the answer, in a task that must not be kept waiting.
pub type Done = Box<dyn FnOnce(Result<Message>) + Send>;

struct PendingRequest {
    done: Done,
    subject: Subject,
    timeout: Duration,
    deadline: Instant,
    /// In the outbox.
    place: u64,
    /// What its caller knows it by; 0 is nothing.
    tag: usize,
    verb: Verb,
}

/// The answers that are awaited. An entry goes with its request, answered or not.
pub struct Requests {
    client: Client,
    hub: Arc<ConnectionState>,
    traffic: Arc<Traffic>,
    inbox: OnceLock<String>,
    opening: Mutex<()>,
    shared: Arc<RequestState>,
}

struct RequestState {
    waiting: Mutex<RequestCall>,
    outbox: CancelHandle,
    /// A deadline earlier than all others was added.
    earlier: Notify,
}

#[derive(Default)]
struct RequestCall {
    last: u64,
    pending: HashMap<u64, PendingRequest, BuildIntHasher>,
    /// Numbers of the requests that have a tag.
    tagged: HashMap<usize, u64>,
    deadlines: BTreeSet<(Instant, u64)>,
    closed: bool,
    /// The server does not let answers through.
    deaf: Option<JetError>,
    /// What reply subjects are made in.
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

    /// Ends a request that has no answer, and says whether it may have been sent; where not it never will be.
    fn end(&self, number: u64) -> Option<(PendingRequest, bool)> {
        let pending = self.take_pending(number)?;
        let sent = !self.outbox.cancel(pending.place);
        Some((pending, sent))
    }

    /// No answer will come any more.
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
    pub fn new(client: Client, hub: Arc<ConnectionState>, traffic: Arc<Traffic>, outbox: CancelHandle) -> Self {
        let shared = RequestState { waiting: Mutex::default(), outbox, earlier: Notify::new() };
        Requests { client, hub, traffic, inbox: OnceLock::new(), opening: Mutex::default(), shared: Arc::new(shared) }
    }

    /// Refuses a message of so many bytes where the link is down and what is queued meanwhile is at its limit.
    pub fn check_room(&self, outbox: &Outbox, bytes: usize) -> Result<()> {
        let full = !self.hub.link.borrow().up && outbox.bytes().saturating_add(bytes) > outbox.limit;
        if full { Err(JetError::OutboundLimit { limit: outbox.limit }) } else { Ok(()) }
    }

    /// What reply subjects begin with. Subscribes where that was not done yet: before the first request, in its turn.
    fn open(&self, outbox: &Outbox) -> Result<&str> {
        if let Some(prefix) = self.inbox.get() {
            return Ok(prefix);
        }
        let _one_of_many_threads = lock(&self.opening);
        if let Some(prefix) = self.inbox.get() {
            return Ok(prefix);
        }
        let prefix = format!("{}.", self.hub.new_inbox()?);
        let inbox = format!("{prefix}*");
        let refusals = self.hub.watch_refusals();
        let answers = outbox.subscribe(inbox.as_str().into(), None);
        let shared = || Arc::downgrade(&self.shared);
        let failed = || {
            let (tell, shared) = (failing(&self.client, &self.hub), shared());
            move |error: JetError| {
                tell(error.clone());
                shared.upgrade().inspect(|shared| shared.end_all(&error));
            }
        };
        let dispatch = dispatch_answers(answers, prefix.len(), shared(), self.traffic.clone(), self.hub.clone());
        spawn(unconstrained(dispatch), failed())?;
        let link = || self.hub.link.subscribe();
        spawn(while_open(link(), expire(shared())), failed())?;
        spawn(while_open(link(), refuse(shared(), refusals, link(), inbox)), failed())?;
        Ok(self.inbox.get_or_init(|| prefix))
    }

    /// How many wait for an answer.
    pub fn pending(&self) -> usize {
        self.shared.lock().pending.len()
    }

    /// Holds the request in the outbox and returns its number; `done` gets the answer.
    pub fn start(&self, outbox: &Outbox, request: Request, tag: usize, done: Done) -> Result<u64> {
        let Request { subject, payload, headers, timeout, verb } = request;
        let mut message = Outgoing { subject: subject.clone(), reply: None, headers, payload };
        self.check_room(outbox, message_size(&message))?;
        let prefix = self.open(outbox)?;
        let deadline = Instant::now() + timeout;
        let mut waiting = self.shared.lock();
        if waiting.closed {
            return Err(self.hub.closed_error());
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
        // Under the lock, so that its answer and its end find it complete.
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

    /// Ends the request without a result. Where it was not sent it never will be.
    pub fn cancel(&self, tag: usize) {
        let number = self.shared.lock().tagged.get(&tag).copied();
        drop(number.and_then(|number| self.shared.end(number)));
    }

    /// Sends one request; what is returned waits for the first answer, and ends the request when it is dropped.
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
        let (entry, hub) = (RequestEntry(self.shared.clone(), number), self.hub.clone());
        Ok(async move {
            let _entry = entry;
            answer.await.unwrap_or_else(|_| Err(hub.closed_error()))
        })
    }
}

fn late(subject: &Subject, after: Duration, sent: bool) -> JetError {
    JetError::Unanswered { verb: "request", subject: subject.to_string(), after, sent }
}

/// Hands each answer to the request that waits for it, until the connection closes or is gone.
async fn dispatch_answers(
    made: oneshot::Receiver<Subscriber>,
    prefix: usize,
    shared: Weak<RequestState>,
    traffic: Arc<Traffic>,
    hub: Arc<ConnectionState>,
) {
    // Without one the connection is closed.
    let mut answers = stream::iter(made.await.ok()).flatten();
    while let Some(message) = answers.next().await {
        weak_spot(Spot::Answers);
        let Some(shared) = shared.upgrade() else { return };
        let number = message.subject_bytes().get(prefix..).and_then(read_token);
        let pending = number.and_then(|number| shared.take_pending(number));
        // One that nobody waits for any more has come all the same.
        traffic.received(pending.as_ref().map_or(Verb::Request, |pending| pending.verb), message.payload().len());
        let Some(PendingRequest { done, subject, .. }) = pending else { continue };
        done(match message.says_no_responders() {
            true => Err(JetError::NoResponders { subject: subject.to_string() }),
            false => Ok(message),
        });
    }
    shared.upgrade().inspect(|shared| shared.end_all(&hub.closed_error()));
}

/// Does the work until the connection is closed: a task holds what it reports a panic to, and must not outlive it.
async fn while_open(mut link: watch::Receiver<Link>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        _ = link.wait_for(|link| link.closed) => {}
    }
}

/// Ends the requests that got no answer in time.
async fn expire(weak: Weak<RequestState>) {
    /// With nothing to expire, how long until the next look whether the connection is still there.
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

/// Ends the requests that the server does not let through, or whose answers it would not.
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
                // Another server, or other permissions: it is asked anew.
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

/// Ends the request where it is dropped while it waits.
struct RequestEntry(Arc<RequestState>, u64);

impl Drop for RequestEntry {
    fn drop(&mut self) {
        drop(self.0.end(self.1));
    }
}

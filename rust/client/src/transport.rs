//! The connection's own client: what is sent is gathered here as bytes, what comes is read and handed to subscriptions,
//! by one task that also connects, and connects anew.
//!
//! async-nats lends the types that its users know, and nothing of how it works inside: a message passes two channels
//! there, which cost more than all that we do with it (benches/README.md), its bounds are numbers of messages, and
//! much of what happens is told to nobody.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;

use crate::connection_state::ConnectionState;
use base::lock::{Guard, lock};
use wire::int_hasher::BuildIntHasher;
use wire::nats::OutboundMessage;
use wire::nats::{ServerInfo, Statistics, Subject};
use wire::size::message_size;

mod connect_attempt;
mod run;
mod subscriber;
mod websocket;
mod write_buffer;

pub use connect_attempt::{AttemptFailure, Greeting};
use write_buffer::WriteBuffer;

pub use run::{TransportSettings, run};
use subscriber::Inbox;
pub use subscriber::Subscriber;
use wire::frames::{self, PublishFrame};

/// What the server takes until it has said so.
const DEFAULT_PAYLOAD: usize = 1 << 20;

/// The connection is closed.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed;

/// Why a message was not taken.
#[derive(Debug, PartialEq, Eq)]
pub enum SendRejected {
    /// The server takes no message of this size.
    TooLarge,
    /// The link is gone for which it waited.
    LinkLost,
    Closed,
}

struct ServerSubscription {
    subject: Subject,
    queue: Option<String>,
    inbox: Arc<Inbox>,
    delivered: u64,
    most: Option<u64>,
    /// The server knows nothing of it any more.
    withdrawn: bool,
}

#[derive(Default)]
struct ServerSubscriptions {
    last: u64,
    by_sid: HashMap<u64, ServerSubscription, BuildIntHasher>,
}

struct TransportState {
    out: Mutex<WriteBuffer>,
    /// Taken before `out` where both are.
    subscriptions: Mutex<ServerSubscriptions>,
    /// The connection's task.
    task: AtomicWaker,
    /// Something was written, or never will be.
    written: Notify,
    info: Mutex<ServerInfo>,
    max_payload: AtomicUsize,
    statistics: Arc<Statistics>,
    hub: Arc<ConnectionState>,
}

/// A handle on the connection; a clone is the same one.
#[derive(Clone)]
pub struct Client(Arc<TransportState>);

impl Client {
    /// Nothing moves before `run`.
    pub fn new(hub: Arc<ConnectionState>) -> Self {
        Client(Arc::new(TransportState {
            out: Mutex::default(),
            subscriptions: Mutex::default(),
            task: AtomicWaker::new(),
            written: Notify::new(),
            info: Mutex::default(),
            max_payload: AtomicUsize::new(DEFAULT_PAYLOAD),
            statistics: Arc::default(),
            hub,
        }))
    }

    pub fn statistics(&self) -> Arc<Statistics> {
        self.0.statistics.clone()
    }

    /// The first INFO of the link that stands, or stood last.
    pub fn server_info(&self) -> ServerInfo {
        lock(&self.0.info).clone()
    }

    /// Most bytes of headers and payload together.
    pub fn max_payload(&self) -> usize {
        self.0.max_payload.load(Ordering::Relaxed)
    }

    fn put(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut out = lock(&self.0.out);
        out.put(write);
        self.wake(out);
    }

    /// Has what was put in written.
    fn wake(&self, mut out: Guard<'_, WriteBuffer>) {
        let told = std::mem::replace(&mut out.told, true);
        drop(out);
        if !told {
            self.0.task.wake();
        }
    }

    /// Has what is held written.
    pub fn flush_now(&self) {
        let out = lock(&self.0.out);
        if !out.buffer.is_empty() {
            self.wake(out);
        }
    }

    /// There is a link, and room for one message of this size. Once the connection is closed there is no need of any.
    pub fn has_room(&self, bytes: usize) -> bool {
        lock(&self.0.out).has_room(bytes)
    }

    async fn until(&self, enough: impl Fn(&WriteBuffer) -> bool) {
        loop {
            let written = self.0.written.notified();
            if enough(&lock(&self.0.out)) {
                return;
            }
            written.await;
        }
    }

    /// Waits for room for one message of this size.
    pub async fn room(&self, bytes: usize) {
        self.until(|out| out.has_room(bytes)).await;
    }

    /// `bytes` is its `size`, of which the server counts headers and payload.
    fn check(&self, message: &OutboundMessage, bytes: usize) -> Result<(), SendRejected> {
        let subjects = message.subject.len() + message.reply.as_ref().map_or(0, |reply| reply.len());
        if bytes - subjects > self.max_payload() { Err(SendRejected::TooLarge) } else { Ok(()) }
    }

    /// Sends a message, for which there should be a link and room. From here on it goes with the link.
    pub fn send(&self, message: &OutboundMessage, bytes: usize) -> Result<(), SendRejected> {
        self.check(message, bytes)?;
        let mut out = lock(&self.0.out);
        if out.closed {
            return Err(SendRejected::Closed);
        }
        if out.connected {
            out.put_message(message, &self.0.statistics);
            self.wake(out);
        }
        Ok(())
    }

    /// Sends a message over the link that stands, where it can go at once; else it was not sent.
    pub fn send_now(&self, frame: &PublishFrame<'_>) -> bool {
        if frame.counted() > self.max_payload() {
            return false;
        }
        let mut out = lock(&self.0.out);
        let sent = !out.closed && out.has_room(frame.size());
        if sent {
            out.put_frame(frame, &self.0.statistics);
            self.wake(out);
        }
        sent
    }

    /// Takes a message that is sent now, or at the next `kick`; says how many bytes wait by then. None where it cannot go at
    /// once.
    pub fn enqueue(&self, message: &OutboundMessage, bytes: usize, now: bool) -> Option<usize> {
        self.check(message, bytes).ok()?;
        let mut out = lock(&self.0.out);
        if out.closed || !out.has_room(bytes) {
            return None;
        }
        out.put_message(message, &self.0.statistics);
        let waiting = out.buffer.len();
        if now {
            self.wake(out);
        }
        Some(waiting)
    }

    /// Sends a message over the link that stands, once there is room; dropped before that, it is never sent.
    pub async fn publish(&self, message: OutboundMessage) -> Result<(), SendRejected> {
        let bytes = message_size(&message);
        let mut link = None;
        loop {
            self.check(&message, bytes)?;
            {
                let mut out = lock(&self.0.out);
                if out.closed {
                    return Err(SendRejected::Closed);
                }
                if !out.connected || *link.get_or_insert(out.links) != out.links {
                    return Err(SendRejected::LinkLost);
                }
                if out.has_room(bytes) {
                    out.put_message(&message, &self.0.statistics);
                    self.wake(out);
                    return Ok(());
                }
            }
            self.until(|out| !out.connected || out.has_room(bytes)).await;
        }
    }

    /// Bytes that were written, or lost with their link.
    pub fn gone(&self) -> u64 {
        lock(&self.0.out).gone
    }

    pub fn subscribe(&self, subject: Subject, queue: Option<String>) -> Result<Subscriber, Closed> {
        let inbox = Arc::new(Inbox::default());
        let mut subscriptions = lock(&self.0.subscriptions);
        if lock(&self.0.out).closed {
            return Err(Closed);
        }
        subscriptions.last += 1;
        let sid = subscriptions.last;
        self.tell(|out| out.put_subscription(sid, &subject, queue.as_deref(), self.0.hub.pinged()));
        let subscription =
            ServerSubscription { subject, queue, inbox: inbox.clone(), delivered: 0, most: None, withdrawn: false };
        subscriptions.by_sid.insert(sid, subscription);
        drop(subscriptions);
        Ok(Subscriber::new(self.clone(), sid, inbox))
    }

    /// Tells the server, where there is one; another one is told all that holds then.
    fn tell(&self, write: impl FnOnce(&mut WriteBuffer)) {
        let mut out = lock(&self.0.out);
        if out.connected {
            write(&mut out);
            self.wake(out);
        }
    }

    fn unsubscribe(&self, sid: u64) {
        let mut subscriptions = lock(&self.0.subscriptions);
        let Some(ended) = subscriptions.by_sid.remove(&sid) else { return };
        if !ended.withdrawn {
            self.tell(|out| out.put(|bytes| frames::unsubscribe(bytes, sid, None)));
        }
        drop(subscriptions);
        ended.inbox.end();
    }

    fn unsubscribe_after(&self, sid: u64, most: u64) {
        let mut subscriptions = lock(&self.0.subscriptions);
        let Some(subscription) = subscriptions.by_sid.get_mut(&sid) else { return };
        subscription.most = Some(most);
        self.tell(|out| out.put(|bytes| frames::unsubscribe(bytes, sid, Some(most))));
        if subscription.delivered >= most
            && let Some(ended) = subscriptions.by_sid.remove(&sid)
        {
            drop(subscriptions);
            ended.inbox.end();
        }
    }

    fn withdraw(&self, sid: u64) {
        let mut subscriptions = lock(&self.0.subscriptions);
        let Some(subscription) = subscriptions.by_sid.get_mut(&sid) else { return };
        if !std::mem::replace(&mut subscription.withdrawn, true) {
            self.tell(|out| out.put(|bytes| frames::unsubscribe(bytes, sid, None)));
        }
    }

    /// Sends a PING, which `ConnectionState::pings` counts; false where there is no link to send it on.
    pub fn ping(&self) -> bool {
        let mut out = lock(&self.0.out);
        let connected = out.connected;
        if connected {
            // Counted in the order in which they are sent.
            self.0.hub.pinged();
            out.put(|buffer| buffer.extend_from_slice(frames::PING));
            self.wake(out);
        }
        connected
    }

    /// Waits until all that was sent so far is written, or lost with its link.
    pub async fn flush(&self) {
        let mark = lock(&self.0.out).queued;
        self.until(|out| out.gone >= mark).await;
    }

    /// Drops the link, and connects anew.
    pub fn force_reconnect(&self) {
        let mut out = lock(&self.0.out);
        out.renew = out.connected;
        drop(out);
        self.0.task.wake();
    }

    /// Ends the connection once all is written, or cannot be soon. `ConnectionState::stop` ends attempts to connect.
    pub fn end(&self) {
        lock(&self.0.out).end = true;
        self.0.task.wake();
    }

    /// Nothing more will come or go.
    pub fn close(&self) {
        let ended = std::mem::take(&mut lock(&self.0.subscriptions).by_sid);
        let unwritten = {
            let mut out = lock(&self.0.out);
            out.closed = true;
            out.take_unwritten()
        };
        drop(unwritten);
        ended.into_values().for_each(|subscription| subscription.inbox.end());
        self.0.written.notify_waiters();
    }
}

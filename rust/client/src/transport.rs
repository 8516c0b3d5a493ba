//! Transport of a connection. One task connects, reconnects, reads and writes; senders append to a shared write buffer.
//!
//! Only types are used from async-nats. Its client passes each message through two channels, which cost more than all
//! work done here (benches/history/diary.md). It bounds numbers of messages instead of bytes, and many of its events are
//! not reported.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::task::AtomicWaker;
use rustc_hash::FxBuildHasher;
use tokio::sync::Notify;

use crate::connection_state::ConnectionState;
use base::lock::{Guard, lock};
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

/// Payload limit until the server's INFO names one.
const DEFAULT_PAYLOAD: usize = 1 << 20;

/// Error of a closed connection.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed;

/// Reason for which a message was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum SendRejected {
    /// Above the server's `max_payload`.
    TooLarge,
    /// The link that the message waited for is down.
    LinkLost,
    Closed,
}

struct ServerSubscription {
    subject: Subject,
    queue: Option<String>,
    inbox: Arc<Inbox>,
    delivered: u64,
    /// Those of former links, which the server does not count.
    before: u64,
    most: Option<u64>,
    /// The server no longer has this subscription.
    withdrawn: bool,
}

#[derive(Default)]
struct ServerSubscriptions {
    last: u64,
    by_sid: HashMap<u64, ServerSubscription, FxBuildHasher>,
}

struct TransportState {
    out: Mutex<WriteBuffer>,
    /// Locked before `out` if both are needed.
    subscriptions: Mutex<ServerSubscriptions>,
    /// Waker of the transport's task.
    task: AtomicWaker,
    /// Signals that data was written or discarded.
    written: Notify,
    info: Mutex<ServerInfo>,
    max_payload: AtomicUsize,
    statistics: Arc<Statistics>,
    state: Arc<ConnectionState>,
}

/// Handle to the transport; clones share it.
#[derive(Clone)]
pub struct Client(Arc<TransportState>);

impl Client {
    /// Creates a transport. No data moves before `run`.
    pub fn new(state: Arc<ConnectionState>) -> Self {
        Client(Arc::new(TransportState {
            out: Mutex::default(),
            subscriptions: Mutex::default(),
            task: AtomicWaker::new(),
            written: Notify::new(),
            info: Mutex::default(),
            max_payload: AtomicUsize::new(DEFAULT_PAYLOAD),
            statistics: Arc::default(),
            state,
        }))
    }

    pub fn statistics(&self) -> Arc<Statistics> {
        self.0.statistics.clone()
    }

    /// Returns the first INFO of the current or the last link.
    pub fn server_info(&self) -> ServerInfo {
        lock(&self.0.info).clone()
    }

    /// Maximum bytes of headers and payload together.
    pub fn max_payload(&self) -> usize {
        self.0.max_payload.load(Ordering::Relaxed)
    }

    fn put(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut out = lock(&self.0.out);
        out.put(write);
        self.wake(out);
    }

    /// Wakes the task to write the buffer.
    fn wake(&self, mut out: Guard<'_, WriteBuffer>) {
        let told = std::mem::replace(&mut out.told, true);
        drop(out);
        if !told {
            self.0.task.wake();
        }
    }

    /// Flushes the write buffer.
    pub fn flush_now(&self) {
        let out = lock(&self.0.out);
        if !out.buffer.is_empty() {
            self.wake(out);
        }
    }

    /// True if the link is up and the buffer has room for a message of this size. A closed connection has room for any
    /// message.
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

    /// Checks the server's limit. `bytes` is `message_size`, of which the server counts headers and payload.
    fn check(&self, message: &OutboundMessage, bytes: usize) -> Result<(), SendRejected> {
        let subjects = message.subject.len() + message.reply.as_ref().map_or(0, |reply| reply.len());
        if bytes - subjects > self.max_payload() { Err(SendRejected::TooLarge) } else { Ok(()) }
    }

    /// Appends a message to the write buffer. The caller checks link and room first. On disconnect the message is
    /// discarded.
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

    /// Appends a message if the link is up and there is room; otherwise it is not sent.
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

    /// Appends a message, to be written now or at the next `flush_now`. Returns the buffered bytes; `None` if there is
    /// no link or no room.
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

    /// Sends a message over the current link once there is room. If dropped before that, the message is never sent.
    pub async fn publish(&self, message: OutboundMessage) -> Result<(), SendRejected> {
        let bytes = message_size(&message);
        let mut link = None;
        while !self.try_publish(&message, bytes, &mut link)? {
            self.room_or_disconnect(bytes).await;
        }
        Ok(())
    }

    /// Sends a message if there is room; false if there is none. `link` is the number of the link of the first try, and
    /// the message is sent over no other one.
    pub fn try_publish(
        &self,
        message: &OutboundMessage,
        bytes: usize,
        link: &mut Option<u64>,
    ) -> Result<bool, SendRejected> {
        self.check(message, bytes)?;
        let mut out = lock(&self.0.out);
        if out.closed {
            return Err(SendRejected::Closed);
        }
        if !out.connected || *link.get_or_insert(out.links) != out.links {
            return Err(SendRejected::LinkLost);
        }
        let has_room = out.has_room(bytes);
        if has_room {
            out.put_message(message, &self.0.statistics);
            self.wake(out);
        }
        Ok(has_room)
    }

    /// Waits for room for one message of this size, or for the end of the link.
    pub async fn room_or_disconnect(&self, bytes: usize) {
        self.until(|out| !out.connected || out.has_room(bytes)).await;
    }

    /// Bytes that were written, or discarded on disconnect.
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
        self.tell(|out| out.put_subscription(sid, &subject, queue.as_deref(), self.0.state.pinged()));
        let subscription = ServerSubscription {
            subject,
            queue,
            inbox: inbox.clone(),
            delivered: 0,
            before: 0,
            most: None,
            withdrawn: false,
        };
        subscriptions.by_sid.insert(sid, subscription);
        drop(subscriptions);
        Ok(Subscriber::new(self.clone(), sid, inbox))
    }

    /// Writes a protocol line if the link is up. A new link gets the current state instead.
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
        let left = Some(most.saturating_sub(subscription.before)).filter(|left| *left > 0);
        self.tell(|out| out.put(|bytes| frames::unsubscribe(bytes, sid, left)));
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

    /// Ends all subscriptions on this link; the next link gets them again.
    pub fn take_no_more(&self) {
        let sids: Vec<u64> = lock(&self.0.subscriptions).by_sid.keys().copied().collect();
        self.tell(|out| out.put(|buffer| sids.iter().for_each(|sid| frames::unsubscribe(buffer, *sid, None))));
    }

    /// Sends a PING, which `ConnectionState::pings` counts; false if there is no link.
    pub fn ping(&self) -> bool {
        let mut out = lock(&self.0.out);
        let connected = out.connected;
        if connected {
            // Counted under the lock, in the order of sending.
            self.0.state.pinged();
            out.put(|buffer| buffer.extend_from_slice(frames::PING));
            self.wake(out);
        }
        connected
    }

    /// Waits until all data sent so far is written or discarded on disconnect.
    pub async fn flush(&self) {
        let mark = lock(&self.0.out).queued;
        self.until(|out| out.gone >= mark).await;
    }

    /// Drops the link and reconnects.
    pub fn force_reconnect(&self) {
        let mut out = lock(&self.0.out);
        out.renew = out.connected;
        drop(out);
        self.0.task.wake();
    }

    /// Ends the connection once all data is written, or shortly after. `ConnectionState::stop` ends attempts to
    /// connect.
    pub fn end(&self) {
        lock(&self.0.out).end = true;
        self.0.task.wake();
    }

    /// Discards all unsent data and ends all subscriptions.
    pub fn close(&self) {
        let (ended, unwritten) = {
            // Both locked at once, or a subscription made in between never ends.
            let mut subscriptions = lock(&self.0.subscriptions);
            let mut out = lock(&self.0.out);
            out.closed = true;
            (std::mem::take(&mut subscriptions.by_sid), out.take_unwritten())
        };
        drop(unwritten);
        ended.into_values().for_each(|subscription| subscription.inbox.end());
        self.0.written.notify_waiters();
    }
}

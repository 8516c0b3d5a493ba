//! A subscription: messages are kept, within limits, until somebody takes them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode, Subject, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::task::unconstrained;

use crate::engine::columns::meta::parse_meta;
use crate::engine::connection::Connection;
use crate::engine::connection::outbox::Outgoing;
use crate::engine::connection::withdraw::withdraw;
use crate::error::{JetError, Result};
use crate::lock::lock;

/// So many messages are taken from the connection before those who wait are woken.
const BURST: usize = 1024;

/// How much may wait; 0 is no limit. What comes beyond it is dropped and counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub messages: usize,
    pub bytes: usize,
}

/// What is done with a push consumer's status messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: they are messages like others.
    Core,
    /// Heartbeats are taken note of, flow control is answered when its turn comes.
    Push,
    /// The same, and each message must follow the one before by the consumer's sequence.
    Ordered,
}

impl FromStr for Kind {
    type Err = JetError;

    fn from_str(word: &str) -> Result<Kind> {
        match word {
            "core" => Ok(Kind::Core),
            "push" => Ok(Kind::Push),
            "ordered" => Ok(Kind::Ordered),
            other => Err(JetError::Value(format!("unknown kind of subscription {other:?}"))),
        }
    }
}

/// What the owner of a subscription should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// So many messages were dropped because of the limits.
    Dropped(u64),
    /// A heartbeat of a push consumer tells another last message than the one that came last.
    Missed { seq: i64, consumer_seq: i64, last: i64 },
}

pub type OnNotice = Box<dyn Fn(Notice) + Send + Sync>;

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    Messages,
    /// No more will come.
    Ended,
    /// A message is missing in an ordered subscription.
    Gap,
    /// Nothing came for the time that was given, not even a heartbeat.
    Silent,
}

enum Waiting {
    Message(Message),
    /// To be answered once all before it were taken.
    FlowControl(Subject),
}

#[derive(Default)]
struct State {
    queue: VecDeque<Waiting>,
    messages: usize,
    bytes: usize,
    delivered: u64,
    dropped: u64,
    ended: bool,
    gap: bool,
    /// Of the last message in order.
    consumer_seq: i64,
    seq: i64,
    /// Of the last one that was not dropped.
    held_seq: i64,
}

struct Shared {
    state: Mutex<State>,
    limits: Limits,
    kind: Kind,
    /// Something came, or nothing more will.
    changed: Notify,
    /// Somebody took the last message.
    emptied: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

enum Control {
    Unsubscribe,
    After(u64),
    /// No more from the server; told once the connection knows.
    Withdraw(oneshot::Sender<()>),
}

pub struct Subscription {
    shared: Arc<Shared>,
    control: UnboundedSender<Control>,
    conn: Arc<Connection>,
}

/// Counts of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub pending: usize,
    pub pending_bytes: usize,
    pub delivered: u64,
    pub dropped: u64,
}

pub async fn subscribe(
    conn: Arc<Connection>,
    subject: String,
    queue: Option<String>,
    limits: Limits,
    kind: Kind,
    on_notice: OnNotice,
) -> Result<Subscription> {
    // What was published before must not come back to this subscription.
    conn.in_order().await;
    let subscriber = match queue {
        None => conn.client.subscribe(subject).await,
        Some(queue) => conn.client.queue_subscribe(subject, queue).await,
    };
    let subscriber = subscriber.map_err(|_| conn.closed())?;
    let shared =
        Arc::new(Shared { state: Mutex::default(), limits, kind, changed: Notify::new(), emptied: Notify::new() });
    let (control, orders) = unbounded_channel();
    let pump = Pump { subscriber, orders, shared: shared.clone(), conn: conn.clone(), on_notice };
    tokio::spawn(unconstrained(pump.run()));
    Ok(Subscription { shared, control, conn })
}

impl Subscription {
    /// The next message, if one waits.
    pub fn take(&self) -> Option<Message> {
        loop {
            let (next, empty) = {
                let mut state = self.shared.lock();
                let next = state.queue.pop_front()?;
                if let Waiting::Message(message) = &next {
                    state.messages -= 1;
                    state.bytes -= message.payload.len();
                }
                (next, state.queue.is_empty())
            };
            if empty {
                self.shared.emptied.notify_waiters();
            }
            match next {
                Waiting::Message(message) => return Some(message),
                Waiting::FlowControl(subject) => answer(&self.conn, subject),
            }
        }
    }

    /// Waits until a message waits or none will come; with `silence`, at most for so long after the last sign of life.
    pub async fn ready(&self, silence: Option<Duration>) -> Ready {
        loop {
            let changed = self.shared.changed.notified();
            {
                let state = self.shared.lock();
                if state.messages > 0 {
                    return Ready::Messages;
                } else if state.gap {
                    return Ready::Gap;
                } else if state.ended {
                    return Ready::Ended;
                }
            }
            match silence {
                None => changed.await,
                Some(silence) => {
                    if tokio::time::timeout(silence, changed).await.is_err() {
                        return Ready::Silent;
                    }
                }
            }
            // Only flow control waits: nobody has to look at it.
            self.answer_first();
        }
    }

    fn answer_first(&self) {
        let mut state = self.shared.lock();
        while matches!(state.queue.front(), Some(Waiting::FlowControl(_))) {
            if let Some(Waiting::FlowControl(subject)) = state.queue.pop_front() {
                answer(&self.conn, subject);
            }
        }
    }

    pub fn counts(&self) -> Counts {
        let state = self.shared.lock();
        let State { messages, bytes, delivered, dropped, .. } = *state;
        Counts { pending: messages, pending_bytes: bytes, delivered, dropped }
    }

    /// The stream's sequence of the last message in order; 0 before the first.
    pub fn last_seq(&self) -> i64 {
        self.shared.lock().seq
    }

    /// No more messages; those that wait can still be taken.
    pub fn unsubscribe(&self) {
        let _already_over = self.control.send(Control::Unsubscribe);
    }

    /// The same once `limit` messages have come, counted from the beginning.
    pub fn unsubscribe_after(&self, limit: u64) {
        let _already_over = self.control.send(Control::After(limit));
    }

    /// Unsubscribes, and returns when all that the server had sent by then has come.
    pub async fn drain(&self, timeout: Duration) -> Result<()> {
        let (send, done) = oneshot::channel();
        if self.control.send(Control::Withdraw(send)).is_ok() {
            let _over = done.await;
        }
        let trip = self.conn.round_trip(timeout).await;
        self.unsubscribe();
        trip
    }

    /// Waits until somebody has taken the last message.
    pub async fn emptied(&self) {
        loop {
            let emptied = self.shared.emptied.notified();
            if self.shared.lock().queue.is_empty() {
                return;
            }
            emptied.await;
        }
    }
}

fn answer(conn: &Connection, subject: Subject) {
    conn.outbox.push(Outgoing { subject, reply: None, headers: None, payload: Bytes::new() });
}

/// The task that moves messages from the connection's channel, which drops silently when full, into the queue.
struct Pump {
    subscriber: Subscriber,
    orders: UnboundedReceiver<Control>,
    shared: Arc<Shared>,
    conn: Arc<Connection>,
    on_notice: OnNotice,
}

impl Pump {
    async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(Control::After(limit)) => {
                        if self.subscriber.unsubscribe_after(limit).await.is_err() {
                            break;
                        }
                    }
                    Some(Control::Withdraw(done)) => {
                        let known = withdraw(&mut self.subscriber).await;
                        let _nobody_waits = done.send(());
                        if known.is_err() {
                            break;
                        }
                    }
                    // Nobody can ask for a message any more, or nobody wants to.
                    Some(Control::Unsubscribe) | None => {
                        let _closed = self.subscriber.unsubscribe().await;
                        break;
                    }
                },
                more = Self::burst(&mut self.subscriber, &self.shared, &self.conn, &self.on_notice) => {
                    self.shared.changed.notify_waiters();
                    if !more {
                        break;
                    }
                }
            }
        }
        self.shared.lock().ended = true;
        self.shared.changed.notify_waiters();
    }

    /// Takes what is there, at least one message; false at the end.
    async fn burst(subscriber: &mut Subscriber, shared: &Shared, conn: &Connection, on_notice: &OnNotice) -> bool {
        poll_fn(|cx| {
            let mut taken = 0;
            let mut dropped = 0;
            let more = loop {
                match subscriber.poll_next_unpin(cx) {
                    Poll::Pending if taken == 0 => return Poll::Pending,
                    Poll::Pending => break true,
                    Poll::Ready(None) => break false,
                    Poll::Ready(Some(message)) => {
                        match shared.keep(conn, message) {
                            None => (),
                            Some(Notice::Dropped(more)) => dropped += more,
                            Some(notice) => on_notice(notice),
                        }
                        taken += 1;
                        if taken == BURST {
                            break true;
                        }
                    }
                }
            };
            if dropped > 0 {
                on_notice(Notice::Dropped(dropped));
            }
            Poll::Ready(more)
        })
        .await
    }
}

impl Shared {
    fn keep(&self, conn: &Connection, message: Message) -> Option<Notice> {
        conn.traffic.received(message.payload.len());
        let mut state = self.lock();
        if self.kind != Kind::Core {
            if message.status == Some(StatusCode::IDLE_HEARTBEAT) {
                return state.heartbeat(conn, self.kind, message);
            }
            let meta = message.reply.as_deref().and_then(parse_meta);
            // Lost on the way, or the consumer began anew: nothing after it is in order.
            let in_order = meta.is_some_and(|meta| meta.consumer_seq == state.consumer_seq + 1);
            if self.kind == Kind::Ordered && (state.gap || !in_order) {
                state.gap = true;
                return None;
            }
            if let Some(meta) = meta {
                state.consumer_seq = meta.consumer_seq;
                state.seq = meta.seq;
            }
        }
        state.delivered += 1;
        let full = |limit: usize, held: usize| limit > 0 && held > limit;
        if full(self.limits.messages, state.messages + 1)
            || full(self.limits.bytes, state.bytes + message.payload.len())
        {
            state.dropped += 1;
            if self.kind == Kind::Ordered {
                // It is read again, from here.
                state.gap = true;
                state.seq = state.held_seq;
            }
            return Some(Notice::Dropped(1));
        }
        state.held_seq = state.seq;
        state.messages += 1;
        state.bytes += message.payload.len();
        state.queue.push_back(Waiting::Message(message));
        None
    }
}

impl State {
    /// Flow control is answered once all before it were taken (ADR-15).
    fn heartbeat(&mut self, conn: &Connection, kind: Kind, message: Message) -> Option<Notice> {
        if let Some(reply) = message.reply {
            self.queue.push_back(Waiting::FlowControl(reply));
            return None;
        }
        let header = |name: &str| message.headers.as_ref().and_then(|h: &HeaderMap| h.get(name));
        // The server waits for an answer that it asked for; it comes by itself unless that request was lost.
        if let Some(stalled) = header("Nats-Consumer-Stalled")
            && self.queue.is_empty()
        {
            answer(conn, stalled.as_str().into());
        }
        let last = header("Nats-Last-Consumer").and_then(|v| v.as_str().parse::<i64>().ok())?;
        if last == self.consumer_seq {
            return None;
        }
        if kind == Kind::Ordered {
            self.gap = true;
            return None;
        }
        // Nothing has come yet: the consumer is older than this subscription.
        (self.consumer_seq > 0).then_some(Notice::Missed { seq: self.seq, consumer_seq: self.consumer_seq, last })
    }
}

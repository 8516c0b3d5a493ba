//! A subscription: messages are kept, within limits, until somebody takes them.

use std::collections::VecDeque;
use std::str::FromStr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::unconstrained;
use tokio::time::Instant;

use crate::receive::message::Received;
use crate::receive::rollback::{Mark, Marks};
use base::error::{JetError, Result};
use base::lock::{Guard, lock};
use client::Connection;
use client::outbox::OutboxSlot;
use runtime::task::spawn;
use wire::message::Message;

mod flow;
mod pump;
mod wait;

use flow::FlowControl;
use pump::Pump;
pub use wait::Ready;

/// How much may wait; 0 is no limit. What comes beyond it is dropped and counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubscriptionLimits {
    pub messages: usize,
    pub bytes: usize,
}

/// What is done with a push consumer's status messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// Nothing: they are messages like others.
    Core,
    /// Heartbeats are taken note of, flow control is answered.
    Push,
    /// As `Push`, and each message must follow the one before by the consumer's sequence.
    Ordered,
}

impl FromStr for SubscriptionKind {
    type Err = JetError;

    fn from_str(word: &str) -> Result<SubscriptionKind> {
        match word {
            "core" => Ok(SubscriptionKind::Core),
            "push" => Ok(SubscriptionKind::Push),
            "ordered" => Ok(SubscriptionKind::Ordered),
            other => Err(JetError::Value(format!("unknown kind of subscription {other:?}"))),
        }
    }
}

/// What the owner of a subscription should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionNotice {
    /// This many messages were dropped because of the limits.
    Dropped(u64),
    /// A heartbeat of a push consumer names a last message that did not come.
    Missed { seq: i64, consumer_seq: i64, last: i64 },
}

pub type OnNotice = Box<dyn Fn(SubscriptionNotice) + Send + Sync>;

/// What waits is no longer part of the connection's read buffer, of which every piece keeps 64 KiB, unless it is so large
/// itself that a copy would cost more than it saves.
enum WaitingMessages {
    Message(Received),
    Large(Box<Message>),
}

impl WaitingMessages {
    /// Behind so many bytes that wait already: with many of them it counts how much memory each takes.
    fn behind(bytes: usize, message: Message) -> Self {
        const LARGE: usize = 16 << 10;
        const MANY: usize = 1 << 20;
        if message.payload().len() >= LARGE {
            WaitingMessages::Large(Box::new(message))
        } else if bytes >= MANY {
            WaitingMessages::Message(Received::one_of_many(&message))
        } else {
            WaitingMessages::Message(message.into())
        }
    }

    /// Bytes of the payload.
    fn payload(&self) -> usize {
        match self {
            WaitingMessages::Message(message) => message.data().len(),
            WaitingMessages::Large(message) => message.payload().len(),
        }
    }
}

#[derive(Default)]
struct SubscriptionState {
    queue: VecDeque<WaitingMessages>,
    messages: usize,
    bytes: usize,
    flow: FlowControl,
    delivered: u64,
    dropped: u64,
    ended: bool,
    /// Why, where nobody had asked for it.
    failure: Option<JetError>,
    gap: bool,
    /// Of the last message in order.
    consumer_seq: i64,
    seq: i64,
    /// Of the last one that was not dropped.
    held_seq: i64,
    /// When that one was stored, and marks of older ones.
    held_nanos: i64,
    marks: Marks,
}

struct SharedSubscription {
    state: Mutex<SubscriptionState>,
    limits: SubscriptionLimits,
    kind: SubscriptionKind,
    /// Something came, or nothing more will.
    changed: Notify,
    /// The last message was taken.
    emptied: Notify,
    /// When something came last, a heartbeat at least.
    alive: Mutex<Instant>,
}

impl SharedSubscription {
    fn lock(&self) -> Guard<'_, SubscriptionState> {
        lock(&self.state)
    }

    /// Something did, a heartbeat at least.
    fn came(&self) {
        *lock(&self.alive) = Instant::now();
        self.changed.notify_waiters();
    }

    /// No more messages will come.
    fn end(&self, failure: Option<JetError>) {
        {
            let mut state = self.lock();
            if state.ended {
                return;
            }
            state.ended = true;
            state.failure = failure;
        }
        self.changed.notify_waiters();
    }
}

/// What is to become of the interest; the server is told in its turn.
enum Order {
    /// Nothing that comes from now on is kept.
    Unsubscribe,
    After(u64),
    /// No more from the server; what is on its way is kept.
    Withdraw,
}

pub struct Subscription {
    shared: Arc<SharedSubscription>,
    orders: UnboundedSender<(Order, OutboxSlot)>,
    conn: Arc<Connection>,
    /// How often the link had broken when an ordered subscription was told of it last.
    breaks: AtomicU64,
}

/// Counts of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryCounts {
    pub pending: usize,
    pub pending_bytes: usize,
    pub delivered: u64,
    pub dropped: u64,
}

pub fn subscribe(
    conn: Arc<Connection>,
    subject: String,
    queue: Option<String>,
    limits: SubscriptionLimits,
    kind: SubscriptionKind,
    on_notice: OnNotice,
) -> Result<Subscription> {
    if conn.link.borrow().closed {
        return Err(conn.closed());
    }
    // After all that was published before, which must not come back to it; and nobody waits for the server.
    let subscriber = conn.outbox.subscribe(subject.into(), queue);
    let shared = Arc::new(SharedSubscription {
        state: Mutex::default(),
        limits,
        kind,
        changed: Notify::new(),
        emptied: Notify::new(),
        alive: Mutex::new(Instant::now()),
    });
    let (send, orders) = unbounded_channel();
    let pump = Pump { subscriber, orders, shared: shared.clone(), conn: conn.clone(), on_notice };
    let ended = shared.clone();
    spawn(unconstrained(pump.run()), move |error| ended.end(Some(error)))?;
    let breaks = AtomicU64::new(conn.breaks());
    Ok(Subscription { shared, orders: send, conn, breaks })
}

impl Subscription {
    /// The next message, if one waits.
    pub fn take_message(&self) -> Option<Received> {
        let (next, empty) = {
            let mut state = self.shared.lock();
            let next = state.queue.pop_front()?;
            let bytes = next.payload();
            state.messages -= 1;
            state.bytes -= bytes;
            state.flow.taken(&self.conn, bytes, self.shared.limits);
            (next, state.queue.is_empty())
        };
        if empty {
            self.shared.emptied.notify_waiters();
        }
        Some(match next {
            WaitingMessages::Message(message) => message,
            WaitingMessages::Large(message) => (*message).into(),
        })
    }

    pub fn counts(&self) -> DeliveryCounts {
        let state = self.shared.lock();
        let SubscriptionState { messages, bytes, delivered, dropped, .. } = *state;
        DeliveryCounts { pending: messages, pending_bytes: bytes, delivered, dropped }
    }

    /// The stream's sequence of the last message in order; 0 before the first.
    pub fn last_seq(&self) -> i64 {
        self.shared.lock().seq
    }

    /// Marks of the messages that were kept; empty for core subscriptions.
    pub fn marks(&self) -> Marks {
        let state = self.shared.lock();
        let mut marks = state.marks.clone();
        if state.held_seq > 0 {
            marks.push(Mark { seq: state.held_seq as u64, nanos: state.held_nanos });
        }
        marks
    }

    /// No more messages; those that have come can still be taken.
    pub fn unsubscribe(&self) {
        self.order(Order::Unsubscribe);
    }

    /// Unsubscribes once `limit` messages have come, counted from the beginning.
    pub fn unsubscribe_after(&self, limit: u64) {
        self.order(Order::After(limit));
    }

    fn order(&self, order: Order) {
        // After the end there is nobody to take a turn.
        if !self.orders.is_closed() {
            let _just_ended = self.orders.send((order, self.conn.outbox.turn()));
        }
    }

    /// Unsubscribes, and returns when all that the server had sent by then has come.
    pub async fn drain(&self, timeout: Duration) -> Result<()> {
        self.order(Order::Withdraw);
        let trip = self.conn.round_trip(timeout).await;
        self.unsubscribe();
        trip
    }

    /// Waits until the last message was taken.
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

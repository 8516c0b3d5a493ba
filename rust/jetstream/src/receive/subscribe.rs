//! Subscription: buffers messages within limits until the caller reads them.

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

mod flow_control_replies;
mod pump;
mod wait;

use flow_control_replies::FlowControlReplies;
use pump::Pump;
pub use wait::Ready;

/// Limits of buffered messages; 0: no limit. Further messages are discarded and counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubscriptionLimits {
    pub messages: usize,
    pub bytes: usize,
}

/// Handling of a push consumer's status messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// None: they are messages like others.
    Core,
    /// Records heartbeats, answers flow control.
    Push,
    /// Like `Push`; in addition each message must follow its predecessor in the consumer's sequence.
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

/// Notice to the owner of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionNotice {
    /// This many messages were discarded because of the limits.
    Dropped(u64),
    /// A push consumer's heartbeat names a last message that was not received.
    Missed { seq: i64, consumer_seq: i64, last: i64 },
}

pub type OnNotice = Box<dyn Fn(SubscriptionNotice) + Send + Sync>;

/// Called once, at the next message or at the end.
pub type OnArrival = Box<dyn FnOnce() + Send>;

/// A buffered message, copied out of the connection's read buffer, of which every slice keeps 64 KiB. A large message
/// is not copied, because the copy would cost more than it saves.
enum WaitingMessages {
    Message(Received),
    Large(Box<Message>),
}

impl WaitingMessages {
    /// Creates the entry behind this many buffered bytes. Above 1 MiB the exact allocator is used.
    fn behind(bytes: usize, message: Message) -> Self {
        const LARGE_PAYLOAD: usize = 16 << 10;
        const MANY_BYTES: usize = 1 << 20;
        if message.payload().len() >= LARGE_PAYLOAD {
            WaitingMessages::Large(Box::new(message))
        } else if bytes >= MANY_BYTES {
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
    limits: SubscriptionLimits,
    queue: VecDeque<WaitingMessages>,
    messages: usize,
    bytes: usize,
    flow: FlowControlReplies,
    on_arrival: Option<OnArrival>,
    delivered: u64,
    dropped: u64,
    dropped_bytes: u64,
    /// Number of messages after which it ends, if it is not the server that counts them.
    limit: Option<u64>,
    ended: bool,
    /// Cause of an end that the caller did not request.
    failure: Option<JetError>,
    gap: bool,
    /// Sequences of the last message in order.
    consumer_seq: i64,
    seq: i64,
    /// Sequence of the last message that was not discarded.
    held_seq: i64,
    /// Its time, and marks of older messages.
    held_nanos: i64,
    marks: Marks,
}

struct SharedSubscription {
    state: Mutex<SubscriptionState>,
    kind: SubscriptionKind,
    /// Signals a message or the end.
    changed: Notify,
    /// Signals that the buffer is empty.
    emptied: Notify,
    /// Time of the last message or heartbeat.
    alive: Mutex<Instant>,
}

impl SharedSubscription {
    fn lock(&self) -> Guard<'_, SubscriptionState> {
        lock(&self.state)
    }

    /// Records a message or heartbeat.
    fn came(&self) {
        *lock(&self.alive) = Instant::now();
        self.changed.notify_waiters();
        self.arrived();
    }

    fn arrived(&self) {
        let on_arrival = {
            let mut state = self.lock();
            if state.is_waiting() { None } else { state.on_arrival.take() }
        };
        on_arrival.into_iter().for_each(|call| call());
    }

    /// Ends the subscription: no more messages follow.
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
        self.arrived();
    }
}

/// Change of the interest. The server gets it in order with other messages.
enum Order {
    /// Discards all messages from now on.
    Unsubscribe,
    After(u64),
    /// Ends the server's side; messages in transit are kept.
    Withdraw,
}

pub struct Subscription {
    shared: Arc<SharedSubscription>,
    orders: UnboundedSender<(Order, OutboxSlot)>,
    conn: Arc<Connection>,
    /// Number of disconnects at the last notice to an ordered subscription.
    breaks: AtomicU64,
}

/// Counters of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryCounts {
    pub pending: usize,
    pub pending_bytes: usize,
    pub delivered: u64,
    pub dropped: u64,
    pub dropped_bytes: u64,
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
    // Ordered after all earlier publishes, which this subscription must not receive. The call does not wait for the
    // server.
    let subscriber = conn.outbox.subscribe(subject.into(), queue);
    let shared = Arc::new(SharedSubscription {
        state: Mutex::new(SubscriptionState { limits, ..SubscriptionState::default() }),
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
    /// Returns the next buffered message.
    pub fn take_message(&self) -> Option<Received> {
        let (next, empty) = {
            let mut state = self.shared.lock();
            let next = state.queue.pop_front()?;
            let bytes = next.payload();
            state.messages -= 1;
            state.bytes -= bytes;
            let limits = state.limits;
            state.flow.taken(&self.conn, bytes, limits);
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

    /// Sets the limits of messages that arrive from now on.
    pub fn set_limits(&self, limits: SubscriptionLimits) {
        self.shared.lock().limits = limits;
    }

    pub fn counts(&self) -> DeliveryCounts {
        let state = self.shared.lock();
        let SubscriptionState { messages, bytes, delivered, dropped, dropped_bytes, .. } = *state;
        DeliveryCounts { pending: messages, pending_bytes: bytes, delivered, dropped, dropped_bytes }
    }

    /// Returns the stream sequence of the last message in order; 0 before the first.
    pub fn last_seq(&self) -> i64 {
        self.shared.lock().seq
    }

    /// Returns marks of the received messages; empty for core subscriptions.
    pub fn marks(&self) -> Marks {
        let state = self.shared.lock();
        let mut marks = state.marks.clone();
        if state.held_seq > 0 {
            marks.push(Mark { seq: state.held_seq as u64, nanos: state.held_nanos });
        }
        marks
    }

    /// Unsubscribes. Buffered messages can still be read.
    pub fn unsubscribe(&self) {
        self.order(Order::Unsubscribe);
    }

    /// Unsubscribes, and discards all messages that arrive from now on, so that `last_seq` and `marks` are final.
    /// Buffered messages can still be read.
    pub fn end(&self) {
        self.shared.end(None);
        self.unsubscribe();
    }

    /// Unsubscribes after `limit` messages since the start.
    pub fn unsubscribe_after(&self, limit: u64) {
        if self.shared.kind == SubscriptionKind::Core {
            return self.order(Order::After(limit));
        }
        // The server would count heartbeats and flow control messages too.
        let is_reached = {
            let mut state = self.shared.lock();
            state.limit = Some(limit);
            state.is_limit_reached()
        };
        if is_reached {
            self.end();
        }
    }

    fn order(&self, order: Order) {
        // After the end there is no task to perform the order.
        if !self.orders.is_closed() {
            let _just_ended = self.orders.send((order, self.conn.outbox.turn()));
        }
    }

    /// Unsubscribes, and waits until all messages that the server has sent by then are received.
    pub async fn drain(&self, timeout: Duration) -> Result<()> {
        self.order(Order::Withdraw);
        let trip = self.conn.round_trip(timeout).await;
        self.unsubscribe();
        trip
    }

    /// Waits until the buffer is empty.
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

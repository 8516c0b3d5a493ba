//! What is on its way to the connection: core messages, requests, subscriptions and their ends. Handed in without
//! waiting, sent in order by one task, and every message can be taken back until that task has handed it over.
//!
//! What several tasks ask for has its place in this queue from that moment: else whoever is woken first would be first.
//! What only its owner can do (a `Subscriber` ends itself) has an `OutboxSlot` there, which the queue waits for. Held in place
//! by tests/compat/test_order.py.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, oneshot, watch};
use tokio::task::unconstrained;

use crate::connection_state::link::Link;
use crate::traffic::{Traffic, Verb};
use crate::transport::{Client, Subscriber};
use base::error::{JetError, Result};
use base::lock::lock;
use fence::{Fence, Fences};
use runtime::task::spawn;
use wire::nats::Subject;
use wire::size::message_size;

pub mod fence;
mod writer;

pub use wire::nats::OutboundMessage as Outgoing;
use writer::write_queued;

/// A longer queue gives its memory back once it is empty.
const MAX_RETAINED_ENTRIES: usize = 1024;
/// So many messages, or so many bytes of them, are sent without waiting for more.
const BURST_MESSAGES: usize = 128;
const BURST_BYTES: usize = 16 << 10;
/// So many entries that were taken back may lie between the others, and always as many as there are others.
const MAX_GAPS: usize = 64;

/// What waits in the queue.
enum OutboxEntry {
    /// With its size, and what it is for.
    Message(Outgoing, usize, Verb),
    Subscribe {
        subject: Subject,
        queue: Option<String>,
        done: oneshot::Sender<Subscriber>,
    },
    /// Somebody else does what is due here: is told so, and then waited for.
    Slot {
        come: oneshot::Sender<()>,
        over: oneshot::Receiver<()>,
    },
    Fence(Fence),
    /// It was taken back.
    Gone,
}

impl OutboxEntry {
    fn bytes(&self) -> usize {
        match self {
            OutboxEntry::Message(_, bytes, _) => *bytes,
            OutboxEntry::Subscribe { .. } | OutboxEntry::Slot { .. } | OutboxEntry::Fence(_) | OutboxEntry::Gone => 0,
        }
    }
}

#[derive(Default)]
struct OutboxQueue {
    /// Each with its place.
    entries: VecDeque<(u64, OutboxEntry)>,
    /// Among them those that were taken back.
    gone: usize,
    /// How many were ever queued: the place of the next one.
    queued: u64,
    /// All before this place have been handed over, or taken back.
    taken: u64,
    /// Bytes of whole messages: of what is queued, and of the one that the task is handing over.
    bytes: usize,
    fences: Fences,
    closed: bool,
}

impl OutboxQueue {
    fn add(&mut self, entry: OutboxEntry) -> QueueReceipt {
        let (idle, place) = (self.queued == self.taken, self.queued);
        if !self.closed {
            self.bytes += entry.bytes();
            if let OutboxEntry::Fence(fence) = &entry {
                self.fences.add(place, fence);
            }
            self.entries.push_back((place, entry));
            self.queued += 1;
        }
        QueueReceipt {
            messages: self.entries.len(),
            bytes: self.bytes,
            idle,
            enough: self.entries.len() >= BURST_MESSAGES,
            place,
        }
    }

    fn cancel(&mut self, place: u64) -> Option<OutboxEntry> {
        let index = self.entries.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        let entry = std::mem::replace(&mut self.entries.get_mut(index)?.1, OutboxEntry::Gone);
        self.bytes -= entry.bytes();
        self.gone += 1;
        if self.gone > MAX_GAPS && self.gone * 2 > self.entries.len() {
            self.entries.retain(|(_, entry)| !matches!(entry, OutboxEntry::Gone));
            self.gone = 0;
        }
        Some(entry)
    }
}

#[derive(Default)]
struct OutboxState {
    queue: Mutex<OutboxQueue>,
    /// There is something to send, or no more will come.
    filled: Notify,
    /// Some of it was sent.
    drained: Notify,
}

/// What waits to be sent, one message just queued included.
pub struct QueueReceipt {
    pub messages: usize,
    pub bytes: usize,
    /// Nothing else was on its way.
    pub idle: bool,
    /// More need not be waited for.
    pub enough: bool,
    /// To take it back with.
    pub place: u64,
}

/// The way out. Dropping it lets the task end, after all that is queued.
pub struct Outbox {
    shared: Arc<OutboxState>,
    client: Client,
    traffic: Arc<Traffic>,
    /// Most bytes that are queued while the link is down.
    pub limit: usize,
}

/// Takes messages back, and outlives the outbox.
pub struct CancelHandle(Arc<OutboxState>);

impl CancelHandle {
    /// Bytes of whole messages that the connection has not taken yet.
    pub fn bytes(&self) -> usize {
        lock(&self.0.queue).bytes
    }

    /// True where the message at this place was not handed over; it never will be.
    pub fn cancel(&self, place: u64) -> bool {
        let taken = lock(&self.0.queue).cancel(place);
        if taken.is_some() {
            self.0.drained.notify_waiters();
        }
        taken.is_some()
    }
}

impl Outbox {
    /// Starts the task on the current runtime.
    pub fn start(
        client: Client,
        link: watch::Receiver<Link>,
        traffic: Arc<Traffic>,
        limit: usize,
        refused: impl Fn(JetError) + Send + Sync + 'static,
        failed: impl FnOnce(JetError) + Send + 'static,
    ) -> Result<Self> {
        let shared = Arc::new(OutboxState::default());
        let ended = shared.clone();
        let failed = move |error| {
            failed(error);
            ended.close();
        };
        let work = write_queued(client.clone(), shared.clone(), link, traffic.clone(), refused);
        spawn(unconstrained(work), failed)?;
        Ok(Outbox { shared, client, traffic, limit })
    }

    pub fn recall(&self) -> CancelHandle {
        CancelHandle(self.shared.clone())
    }

    /// Queues one message and has it sent.
    pub fn push(&self, message: Outgoing, verb: Verb) -> QueueReceipt {
        let held = self.pass(message, verb, true);
        // What is on its way takes this one along.
        if held.idle && held.messages > 0 {
            self.shared.filled.notify_one();
        }
        held
    }

    /// Queues one message that is sent at the next `kick`, together with what comes until then.
    pub fn hold(&self, message: Outgoing, verb: Verb) -> QueueReceipt {
        self.pass(message, verb, false)
    }

    /// Where nothing is on its way the message passes the queue by.
    fn pass(&self, message: Outgoing, verb: Verb, now: bool) -> QueueReceipt {
        let bytes = message_size(&message);
        let mut queue = lock(&self.shared.queue);
        if queue.queued == queue.taken
            && !queue.closed
            && let Some(waiting) = self.client.enqueue(&message, bytes, now)
        {
            self.traffic.sent(verb, message.payload.len());
            let place = queue.queued;
            queue.queued += 1;
            queue.taken += 1;
            return QueueReceipt { messages: 0, bytes: 0, idle: true, enough: waiting > BURST_BYTES, place };
        }
        queue.add(OutboxEntry::Message(message, bytes, verb))
    }

    /// Queues a subscription and has it made. Its channel stays empty where the connection is closed before.
    pub fn subscribe(&self, subject: Subject, queue: Option<String>) -> oneshot::Receiver<Subscriber> {
        let (done, made) = oneshot::channel();
        self.add(OutboxEntry::Subscribe { subject, queue, done });
        self.flush_now();
        made
    }

    /// Queues a turn, which comes at once where nothing else is on its way.
    pub fn turn(&self) -> OutboxSlot {
        let (turn, come, over) = OutboxSlot::new();
        self.add(OutboxEntry::Slot { come, over });
        self.flush_now();
        turn
    }

    /// What follows waits until the gate is open.
    pub fn add_fence(&self, fence: Fence) {
        // Whoever queues a message behind it takes the queue for one that is on its way.
        if self.add(OutboxEntry::Fence(fence)).idle {
            self.flush_now();
        }
    }

    fn add(&self, entry: OutboxEntry) -> QueueReceipt {
        lock(&self.shared.queue).add(entry)
    }

    /// Has what is queued sent.
    pub fn flush_now(&self) {
        if !lock(&self.shared.queue).entries.is_empty() {
            self.shared.filled.notify_one();
        }
        self.client.flush_now();
    }

    /// Bytes of whole messages that the connection has not taken yet.
    pub fn bytes(&self) -> usize {
        lock(&self.shared.queue).bytes
    }

    /// What is queued, sent; for when the outbox itself is going.
    pub fn rest(&self) -> impl Future<Output = ()> + Send + 'static {
        let shared = self.shared.clone();
        async move { shared.until(|queue| queue.queued == queue.taken).await }
    }

    /// The place after all that is queued now, for `has_passed`.
    pub fn mark(&self) -> u64 {
        lock(&self.shared.queue).queued
    }

    /// As `mark`, without what waits for a publisher: for publishers, which would wait for themselves.
    pub fn mark_before_fences(&self) -> u64 {
        let mut queue = lock(&self.shared.queue);
        let taken = queue.taken;
        queue.fences.first_closed(taken).unwrap_or(queue.queued)
    }

    /// How many have left the queue so far.
    pub fn taken(&self) -> u64 {
        lock(&self.shared.queue).taken
    }

    /// True once the connection has taken, or will never take, all before the mark.
    pub fn has_passed(&self, mark: u64) -> bool {
        let queue = lock(&self.shared.queue);
        queue.closed || queue.taken >= mark
    }

    /// Waits for it: what is sent then comes after all that was queued at the mark.
    pub async fn passed(&self, mark: u64) {
        self.shared.until(|queue| queue.closed || queue.taken >= mark).await;
    }

    /// Waits until at most `bytes` are queued.
    pub async fn room(&self, bytes: usize) {
        self.shared.until(|queue| queue.bytes <= bytes).await;
    }
}

impl OutboxState {
    /// The connection is closed: nothing will be sent any more.
    fn close(&self) {
        let left = {
            let mut queue = lock(&self.queue);
            let queued = queue.queued;
            std::mem::replace(
                &mut *queue,
                OutboxQueue { closed: true, queued, taken: queued, ..OutboxQueue::default() },
            )
        };
        drop(left);
        self.drained.notify_waiters();
    }

    async fn until(&self, enough: impl Fn(&OutboxQueue) -> bool) {
        loop {
            let drained = self.drained.notified();
            {
                let queue = lock(&self.queue);
                if enough(&queue) {
                    return;
                }
            }
            self.filled.notify_one();
            drained.await;
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.filled.notify_one();
    }
}

/// A place in the queue for what only its owner can hand over. Dropping it lets the queue go on.
pub struct OutboxSlot {
    come: oneshot::Receiver<()>,
    over: oneshot::Sender<()>,
}

impl OutboxSlot {
    /// The turn, what tells that it has come, and what tells that it is over.
    pub fn new() -> (Self, oneshot::Sender<()>, oneshot::Receiver<()>) {
        let ((told, come), (over, passed)) = (oneshot::channel(), oneshot::channel());
        (OutboxSlot { come, over }, told, passed)
    }

    /// Waits until all before it was handed over; false where the connection is closed before that. Safe to give up.
    pub async fn wait(&mut self) -> bool {
        (&mut self.come).await.is_ok()
    }

    /// It was handed over; what was asked for later follows.
    pub fn pass(self) {
        let _closed = self.over.send(());
    }
}

//! Outbox: ordered queue of core messages, requests, subscriptions and unsubscribes on their way to the connection.
//!
//! Enqueueing never waits. One task hands the entries over in order, and every message can be cancelled until then.
//!
//! Entries of several tasks keep the order of their calls, not the order in which the scheduler wakes the tasks. If
//! only the owner can perform an entry (a `Subscriber` ends itself), the queue has an `OutboxSlot` for it and waits.
//! tests/compat/test_order.py tests the order.

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

/// Entries up to which an empty queue keeps its memory.
const MAX_RETAINED_ENTRIES: usize = 1024;
/// Messages or bytes at which the queue is sent without waiting for more.
const BURST_MESSAGES: usize = 128;
const BURST_BYTES: usize = 16 << 10;
/// Cancelled entries that may remain between the others. As many as there are others may always remain.
const MAX_GAPS: usize = 64;

/// An entry of the queue.
enum OutboxEntry {
    /// A message with its size and verb.
    Message(Outgoing, usize, Verb),
    Subscribe {
        subject: Subject,
        queue: Option<String>,
        done: oneshot::Sender<Subscriber>,
    },
    /// Another task performs this entry: the writer notifies it, then waits for it.
    Slot {
        come: oneshot::Sender<()>,
        over: oneshot::Receiver<()>,
    },
    Fence(Fence),
    /// A cancelled entry.
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
    /// Each entry with its place.
    entries: VecDeque<(u64, OutboxEntry)>,
    /// Number of cancelled entries among them.
    gone: usize,
    /// Number of entries ever queued, which is the place of the next one.
    queued: u64,
    /// Place before which all entries are handed over or cancelled.
    taken: u64,
    /// Bytes of whole messages: those queued, and the one that the task is handing over.
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
    /// Signals that there is something to send, or that the queue is closed.
    filled: Notify,
    /// Signals that part of the queue was sent.
    drained: Notify,
}

/// Queue state after a message was enqueued, including that message.
pub struct QueueReceipt {
    pub messages: usize,
    pub bytes: usize,
    /// The queue was empty before.
    pub idle: bool,
    /// The queue is long enough to be sent without waiting for more.
    pub enough: bool,
    /// Place for `cancel`.
    pub place: u64,
}

/// Outbox of a connection. After it is dropped, the task sends the queue and ends.
pub struct Outbox {
    shared: Arc<OutboxState>,
    client: Client,
    link: watch::Receiver<Link>,
    traffic: Arc<Traffic>,
    /// Maximum bytes queued while the link is down.
    pub limit: usize,
}

/// Handle that cancels queued messages; it outlives the outbox.
pub struct CancelHandle(Arc<OutboxState>);

impl CancelHandle {
    /// Bytes of whole messages that are not handed over yet.
    pub fn bytes(&self) -> usize {
        lock(&self.0.queue).bytes
    }

    /// Cancels the message at this place; false if it was handed over.
    pub fn cancel(&self, place: u64) -> bool {
        let taken = lock(&self.0.queue).cancel(place);
        if taken.is_some() {
            self.0.drained.notify_waiters();
        }
        taken.is_some()
    }
}

impl Outbox {
    /// Starts the writer task on the current runtime.
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
        let work = write_queued(client.clone(), shared.clone(), link.clone(), traffic.clone(), refused);
        spawn(unconstrained(work), failed)?;
        Ok(Outbox { shared, client, link, traffic, limit })
    }

    pub fn recall(&self) -> CancelHandle {
        CancelHandle(self.shared.clone())
    }

    /// Enqueues one message and flushes.
    pub fn push(&self, message: Outgoing, verb: Verb) -> QueueReceipt {
        let held = self.pass(message, verb, true);
        // A flush under way sends this message too.
        if held.idle && held.messages > 0 {
            self.shared.filled.notify_one();
        }
        held
    }

    /// Enqueues one message for the next `flush_now`, together with all messages until then.
    pub fn hold(&self, message: Outgoing, verb: Verb) -> QueueReceipt {
        self.pass(message, verb, false)
    }

    /// If the queue is empty, the message is handed to the connection directly, unless that is about to move: a
    /// response would be lost with the old link.
    fn pass(&self, message: Outgoing, verb: Verb, now: bool) -> QueueReceipt {
        let bytes = message_size(&message);
        let mut queue = lock(&self.shared.queue);
        if queue.queued == queue.taken
            && !queue.closed
            && !self.link.borrow().moving
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

    /// Enqueues a subscription. The channel stays empty if the connection is closed before.
    pub fn subscribe(&self, subject: Subject, queue: Option<String>) -> oneshot::Receiver<Subscriber> {
        let (done, made) = oneshot::channel();
        self.add(OutboxEntry::Subscribe { subject, queue, done });
        self.flush_now();
        made
    }

    /// Enqueues a slot, which is reached at once if the queue is empty.
    pub fn turn(&self) -> OutboxSlot {
        let (turn, come, over) = OutboxSlot::new();
        self.add(OutboxEntry::Slot { come, over });
        self.flush_now();
        turn
    }

    /// Enqueues a fence: later entries wait until it opens.
    pub fn add_fence(&self, fence: Fence) {
        // A message behind the fence finds the queue in use, so it does not flush.
        if self.add(OutboxEntry::Fence(fence)).idle {
            self.flush_now();
        }
    }

    fn add(&self, entry: OutboxEntry) -> QueueReceipt {
        lock(&self.shared.queue).add(entry)
    }

    /// Flushes the queue.
    pub fn flush_now(&self) {
        if !lock(&self.shared.queue).entries.is_empty() {
            self.shared.filled.notify_one();
        }
        self.client.flush_now();
    }

    /// Bytes of whole messages that are not handed over yet.
    pub fn bytes(&self) -> usize {
        lock(&self.shared.queue).bytes
    }

    /// Waits until the queue is sent; for an outbox about to be dropped.
    pub fn rest(&self) -> impl Future<Output = ()> + Send + 'static {
        let shared = self.shared.clone();
        async move { shared.until(|queue| queue.queued == queue.taken).await }
    }

    /// Returns the place after the current queue, for `has_passed`.
    pub fn mark(&self) -> u64 {
        lock(&self.shared.queue).queued
    }

    /// Returns the place before the first closed fence, for publishers, which would otherwise wait for themselves.
    pub fn mark_before_fences(&self) -> u64 {
        let mut queue = lock(&self.shared.queue);
        let taken = queue.taken;
        queue.fences.first_closed(taken).unwrap_or(queue.queued)
    }

    /// Number of entries that have left the queue so far.
    pub fn taken(&self) -> u64 {
        lock(&self.shared.queue).taken
    }

    /// True once all entries before the mark are handed over or discarded.
    pub fn has_passed(&self, mark: u64) -> bool {
        let queue = lock(&self.shared.queue);
        queue.closed || queue.taken >= mark
    }

    /// Waits for `has_passed`: messages sent then follow all that were queued at the mark.
    pub async fn passed(&self, mark: u64) {
        self.shared.until(|queue| queue.closed || queue.taken >= mark).await;
    }

    /// Waits until at most `bytes` are queued.
    pub async fn room(&self, bytes: usize) {
        self.shared.until(|queue| queue.bytes <= bytes).await;
    }
}

impl OutboxState {
    /// Discards the queue, because the connection is closed.
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

/// Slot in the queue for an entry that only its owner can hand over. Dropping it lets the queue continue.
pub struct OutboxSlot {
    come: oneshot::Receiver<()>,
    over: oneshot::Sender<()>,
}

impl OutboxSlot {
    /// Creates a slot, the sender that signals its turn, and the receiver for its end.
    pub fn new() -> (Self, oneshot::Sender<()>, oneshot::Receiver<()>) {
        let ((told, come), (over, passed)) = (oneshot::channel(), oneshot::channel());
        (OutboxSlot { come, over }, told, passed)
    }

    /// Waits until all entries before it are handed over; false if the connection is closed first. Cancel safe.
    pub async fn wait(&mut self) -> bool {
        (&mut self.come).await.is_ok()
    }

    /// Ends the slot, and the queue continues.
    pub fn pass(self) {
        let _closed = self.over.send(());
    }
}

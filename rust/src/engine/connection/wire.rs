//! The last step out: into async-nats's command channel, which nothing can be taken back from, not even by a break.
//!
//! Missing upstream: a say in how much that channel holds. It is bounded by commands, not by bytes, and a capacity small
//! enough to bound bytes would cost a switch of tasks for every few messages. How we get it: whatever publishes first
//! reserves its bytes here, `ROOM` of them for the whole connection. They come back with async-nats's `flush`, a command
//! in the same channel, which is answered once all before it has gone to the socket: one of them for every half of
//! `ROOM` that was used. So a server that stands still, or is gone, finds at most `ROOM` bytes (or one larger message)
//! beyond what the sockets hold; everything else waits where it can be taken back. Held in place by
//! tests/survive/test_stall.py.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_nats::client::traits::Publisher;
use async_nats::message::OutboundMessage;
use async_nats::{Client, PublishError};
use tokio::sync::{Notify, Semaphore};

use crate::engine::publish::size::header_size;
use crate::error::{JetError, Result};
use crate::task::spawn;

/// Bytes that async-nats may hold: four times what it gathers for one write, so that writing does not wait for us.
const ROOM: usize = 256 * 1024;
/// What a message costs beside its bytes: so the channel is never full of messages.
const OVERHEAD: usize = 256;
/// Commands in async-nats's channel: all messages that there is room for, and as many subscriptions, flushes and drains.
pub const CHANNEL: usize = 2 * ROOM / OVERHEAD;

/// Bytes of a whole message: subjects, headers, payload.
pub fn size(message: &OutboundMessage) -> usize {
    let reply = message.reply.as_ref().map_or(0, |reply| reply.len());
    message.subject.len() + reply + message.headers.as_ref().map_or(0, header_size) + message.payload.len()
}

pub struct Wire {
    client: Client,
    room: Semaphore,
    /// Reserved since the last flush was sent.
    spent: AtomicUsize,
    /// How many wait for room. Whoever spends while one does asks for a flush: nothing else might.
    waiting: AtomicUsize,
    /// Half is used, or somebody waits.
    low: Arc<Notify>,
}

/// One that waits, for as long as it does.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Wire {
    /// Starts the task that makes room, on the current runtime.
    pub fn start(client: Client, failed: impl FnOnce(JetError) + Send + 'static) -> Result<Arc<Self>> {
        let low = Arc::new(Notify::new());
        let wire = Arc::new(Wire {
            client,
            room: Semaphore::new(ROOM),
            spent: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            low: low.clone(),
        });
        let weak = Arc::downgrade(&wire);
        let make_room = async move {
            loop {
                low.notified().await;
                let Some(wire) = weak.upgrade() else { return };
                let spent = wire.spent.swap(0, Ordering::SeqCst);
                if spent > 0 && wire.client.flush().await.is_err() {
                    // Closed: whoever waits goes on, and is told so.
                    wire.room.close();
                    return;
                }
                wire.room.add_permits(spent);
            }
        };
        spawn(make_room, failed)?;
        Ok(wire)
    }

    fn cost(bytes: usize) -> u32 {
        bytes.saturating_add(OVERHEAD).min(ROOM) as u32
    }

    fn spend(&self, cost: u32) {
        let before = self.spent.fetch_add(cost as usize, Ordering::SeqCst);
        let half = before < ROOM / 2 && before + cost as usize >= ROOM / 2;
        if half || self.waiting.load(Ordering::SeqCst) > 0 {
            self.low.notify_one();
        }
    }

    /// Reserves room for one message of this size, if there is some.
    pub fn try_reserve(&self, bytes: usize) -> bool {
        let cost = Self::cost(bytes);
        let free = self.room.try_acquire_many(cost).map(|permit| permit.forget()).is_ok();
        if free {
            self.spend(cost);
        }
        free
    }

    /// Waits for room for one message of this size. Once the connection is closed there is no need of any.
    pub async fn reserve(&self, bytes: usize) {
        if self.try_reserve(bytes) {
            return;
        }
        let cost = Self::cost(bytes);
        let _waiting = Waiting::new(&self.waiting);
        self.low.notify_one();
        if let Ok(permit) = self.room.acquire_many(cost).await {
            permit.forget();
            self.spend(cost);
        }
    }

    /// Hands a message over, for which there is room. It counts as sent from here on.
    pub async fn hand_over(&self, message: OutboundMessage) -> std::result::Result<(), PublishError> {
        self.client.publish_message(message).await
    }

    /// Hands a message over once there is room; dropped before that, it is never sent.
    pub async fn publish(&self, message: OutboundMessage) -> std::result::Result<(), PublishError> {
        self.reserve(size(&message)).await;
        self.hand_over(message).await
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.low.notify_one();
    }
}

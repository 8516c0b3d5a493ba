//! The state of the link to the server, and how much went over it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The state of the link to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// How often the link broke. What was in flight when it rises may be lost.
    pub breaks: u64,
    pub up: bool,
    /// No reconnect will be tried any more.
    pub closed: bool,
    /// How many publishes and subscriptions the server refused.
    pub refusals: u64,
}

/// Payload bytes so far. async-nats counts something else: bytes read from the socket, and those written twice.
#[derive(Default)]
pub struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
}

impl Traffic {
    pub fn received(&self, bytes: usize) {
        add(&self.received, bytes);
    }

    pub fn sent(&self, bytes: usize) {
        add(&self.sent, bytes);
    }

    /// Received and sent.
    pub fn counts(&self) -> (u64, u64) {
        (self.received.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed))
    }
}

/// The runtime's one thread is the only one that counts: nothing to lock the bus for, once for every message.
fn add(count: &AtomicU64, bytes: usize) {
    count.store(count.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
}

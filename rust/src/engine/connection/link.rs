//! The state of the link to the server, and how much went over it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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

/// Bounds of what acks take: 1, 2, 4, ... microseconds, up to 134 s; whatever takes longer is beyond the last.
const LATENCIES: usize = 28;

/// How many acks took up to so many seconds, and more than the bound before; how many took longer; seconds of all.
pub type Latency = (Vec<(f64, u64)>, u64, f64);

/// Payload bytes so far. async-nats counts something else: bytes read from the socket, and those written twice.
#[derive(Default)]
pub struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
    /// Acks by what they took, and the microseconds of all.
    acks: [AtomicU64; LATENCIES + 1],
    ack_micros: AtomicU64,
    resent: AtomicU64,
    dropped: AtomicU64,
}

impl Traffic {
    pub fn received(&self, bytes: usize) {
        add(&self.received, bytes);
    }

    pub fn sent(&self, bytes: usize) {
        add(&self.sent, bytes);
    }

    /// A publish was acknowledged so long after it was sent first.
    pub fn acked(&self, after: Duration) {
        let micros = after.as_micros() as u64;
        // The first power of two that is not less.
        let place = (u64::BITS - micros.saturating_sub(1).leading_zeros()) as usize;
        add(&self.acks[place.min(LATENCIES)], 1);
        add(&self.ack_micros, micros as usize);
    }

    /// What acks took.
    pub fn ack_latency(&self) -> Latency {
        let counts = self.acks.iter().map(|count| count.load(Ordering::Relaxed));
        let bounded = counts.take(LATENCIES).enumerate().map(|(place, count)| ((1u64 << place) as f64 / 1e6, count));
        let beyond = self.acks[LATENCIES].load(Ordering::Relaxed);
        (bounded.collect(), beyond, self.ack_micros.load(Ordering::Relaxed) as f64 / 1e6)
    }

    /// A message is published once more, after a break or because nobody was there to take it.
    pub fn resent(&self) {
        add(&self.resent, 1);
    }

    /// Messages that a subscription had no room for.
    pub fn dropped(&self, messages: u64) {
        add(&self.dropped, messages as usize);
    }

    /// Published once more, and dropped.
    pub fn troubles(&self) -> (u64, u64) {
        (self.resent.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_are_counted_by_what_they_took() {
        let traffic = Traffic::default();
        for micros in [0, 1, 2, 3, 4, 1_000, 1_024, 1_025, 1 << 40] {
            traffic.acked(Duration::from_micros(micros));
        }
        let (bounded, beyond, sum) = traffic.ack_latency();
        let some: Vec<_> = bounded.iter().copied().filter(|(_, count)| *count > 0).collect();
        assert_eq!(some, [(1e-6, 2), (2e-6, 1), (4e-6, 2), (1_024e-6, 2), (2_048e-6, 1)]);
        assert_eq!((bounded.len(), beyond), (LATENCIES, 1));
        assert!(sum > 1e6);
    }
}

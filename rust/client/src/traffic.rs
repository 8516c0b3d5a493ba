//! Traffic counters of a connection by verb, and a histogram of ack latency.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of latency buckets. Their upper bounds are 1, 2, 4, ... µs up to 134 s; longer latencies have one more
/// bucket.
const LATENCY_BUCKETS: usize = 28;

/// Ack latency: pairs of upper bound in seconds and count, the count above the last bound, and the sum in seconds.
pub type Latency = (Vec<(f64, u64)>, u64, f64);

/// Purpose of a message, in the user's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Core messages, including replies to requests.
    Publish,
    /// Requests and their replies, including those of the JetStream API.
    Request,
    /// Messages published to a stream one at a time, and their acks.
    Publisher,
    /// Messages of batch publish calls, and their acks.
    PublishBatch,
    /// Messages received by subscriptions, including push consumers.
    Subscribe,
    /// Pull requests, and the messages they returned.
    Fetch,
    /// Requests of readers, and the messages they returned.
    Read,
    /// Acks of consumed messages, and the server's confirmations.
    Ack,
}

impl Verb {
    pub const ALL: [Verb; 8] = [
        Verb::Publish,
        Verb::Request,
        Verb::Publisher,
        Verb::PublishBatch,
        Verb::Subscribe,
        Verb::Fetch,
        Verb::Read,
        Verb::Ack,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Verb::Publish => "publish",
            Verb::Request => "request",
            Verb::Publisher => "publisher",
            Verb::PublishBatch => "publish_batch",
            Verb::Subscribe => "subscribe",
            Verb::Fetch => "fetch",
            Verb::Read => "read",
            Verb::Ack => "ack",
        }
    }
}

/// Messages and payload bytes of one verb so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteCounts {
    pub in_msgs: u64,
    pub in_bytes: u64,
    pub out_msgs: u64,
    pub out_bytes: u64,
    /// Messages published or requested again.
    pub resent: u64,
}

#[derive(Default)]
struct VerbCounts {
    in_msgs: AtomicU64,
    in_bytes: AtomicU64,
    out_msgs: AtomicU64,
    out_bytes: AtomicU64,
    resent: AtomicU64,
}

/// Counters of messages and payload bytes. The client's own statistics count bytes of the protocol instead.
#[derive(Default)]
pub struct Traffic {
    /// Indexed by verb.
    verbs: [VerbCounts; Verb::ALL.len()],
    /// Unacknowledged messages and bytes of batch publish calls.
    flying: AtomicU64,
    flying_bytes: AtomicU64,
    /// Unacknowledged messages of all publish loops.
    unanswered: AtomicU64,
    /// Acks by latency bucket, and the sum of latencies in µs.
    acks: [AtomicU64; LATENCY_BUCKETS + 1],
    ack_micros: AtomicU64,
    dropped: AtomicU64,
}

impl Traffic {
    pub fn received(&self, verb: Verb, bytes: usize) {
        let counts = &self.verbs[verb as usize];
        add(&counts.in_msgs, 1);
        add(&counts.in_bytes, bytes);
    }

    pub fn sent(&self, verb: Verb, bytes: usize) {
        let counts = &self.verbs[verb as usize];
        add(&counts.out_msgs, 1);
        add(&counts.out_bytes, bytes);
    }

    /// Returns the counters of a verb.
    pub fn moved(&self, verb: Verb) -> ByteCounts {
        let counts = &self.verbs[verb as usize];
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ByteCounts {
            in_msgs: read(&counts.in_msgs),
            in_bytes: read(&counts.in_bytes),
            out_msgs: read(&counts.out_msgs),
            out_bytes: read(&counts.out_bytes),
            resent: read(&counts.resent),
        }
    }

    /// Returns the unacknowledged messages and bytes of batch publish calls.
    pub fn flying(&self) -> (u64, u64) {
        (self.flying.load(Ordering::Relaxed), self.flying_bytes.load(Ordering::Relaxed))
    }

    /// Returns the unacknowledged messages of all publish loops.
    pub fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Records an ack, `after` its first publish.
    pub fn acked(&self, after: Duration) {
        let micros = after.as_micros() as u64;
        // Exponent of the first power of two that is not smaller.
        let place = (u64::BITS - micros.saturating_sub(1).leading_zeros()) as usize;
        add(&self.acks[place.min(LATENCY_BUCKETS)], 1);
        add(&self.ack_micros, micros as usize);
    }

    /// Returns the histogram of ack latency.
    pub fn ack_latency(&self) -> Latency {
        let counts = self.acks.iter().map(|count| count.load(Ordering::Relaxed));
        let bounded =
            counts.take(LATENCY_BUCKETS).enumerate().map(|(place, count)| ((1u64 << place) as f64 / 1e6, count));
        let beyond = self.acks[LATENCY_BUCKETS].load(Ordering::Relaxed);
        (bounded.collect(), beyond, self.ack_micros.load(Ordering::Relaxed) as f64 / 1e6)
    }

    /// Counts a message published again after a disconnect or after 503 No Responders.
    pub fn resent(&self, verb: Verb) {
        add(&self.verbs[verb as usize].resent, 1);
    }

    /// Counts messages discarded because a subscription's buffer was full.
    pub fn dropped(&self, messages: u64) {
        add(&self.dropped, messages as usize);
    }

    /// Returns the numbers of resent and of discarded messages.
    pub fn troubles(&self) -> (u64, u64) {
        (self.sum(|moved| moved.resent), self.dropped.load(Ordering::Relaxed))
    }

    /// Returns the payload bytes received and sent.
    pub fn counts(&self) -> (u64, u64) {
        (self.sum(|moved| moved.in_bytes), self.sum(|moved| moved.out_bytes))
    }

    fn sum(&self, of: impl Fn(ByteCounts) -> u64) -> u64 {
        Verb::ALL.into_iter().map(|verb| of(self.moved(verb))).sum()
    }
}

/// Share of one publish loop in the connection's unacknowledged messages and bytes; removed on drop.
pub struct InFlightGuard<'a> {
    traffic: &'a Traffic,
    told: (usize, usize),
    unanswered: usize,
}

impl<'a> InFlightGuard<'a> {
    pub fn new(traffic: &'a Traffic) -> Self {
        InFlightGuard { traffic, told: (0, 0), unanswered: 0 }
    }

    /// Updates the share of a batch publish call: once per poll, not per message.
    pub fn tell(&mut self, messages: usize, bytes: usize) {
        self.tell_publisher(messages);
        if self.told == (messages, bytes) {
            return;
        }
        change(&self.traffic.flying, messages, self.told.0);
        change(&self.traffic.flying_bytes, bytes, self.told.1);
        self.told = (messages, bytes);
    }

    /// Updates the share of a publisher, which counts its messages and bytes when they are published.
    pub fn tell_publisher(&mut self, messages: usize) {
        if self.unanswered != messages {
            change(&self.traffic.unanswered, messages, self.unanswered);
            self.unanswered = messages;
        }
    }
}

fn change(gauge: &AtomicU64, now: usize, before: usize) {
    gauge.fetch_add((now as u64).wrapping_sub(before as u64), Ordering::Relaxed);
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.tell(0, 0);
    }
}

/// Adds to a counter without a locked instruction. Only the runtime's single thread writes it.
fn add(count: &AtomicU64, bytes: usize) {
    count.store(count.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_are_counted_by_latency() {
        let traffic = Traffic::default();
        for micros in [0, 1, 2, 3, 4, 1_000, 1_024, 1_025, 1 << 40] {
            traffic.acked(Duration::from_micros(micros));
        }
        let (bounded, beyond, sum) = traffic.ack_latency();
        let some: Vec<_> = bounded.iter().copied().filter(|(_, count)| *count > 0).collect();
        assert_eq!(some, [(1e-6, 2), (2e-6, 1), (4e-6, 2), (1_024e-6, 2), (2_048e-6, 1)]);
        assert_eq!((bounded.len(), beyond), (LATENCY_BUCKETS, 1));
        assert!(sum > 1e6);
    }

    #[test]
    fn messages_are_counted_by_verb() {
        let traffic = Traffic::default();
        for (number, verb) in Verb::ALL.into_iter().enumerate() {
            assert_eq!(number, verb as usize);
            traffic.sent(verb, number);
            traffic.received(verb, 10);
        }
        traffic.resent(Verb::Publisher);
        let fetched = ByteCounts { in_msgs: 1, in_bytes: 10, out_msgs: 1, out_bytes: 5, resent: 0 };
        assert_eq!(traffic.moved(Verb::Fetch), fetched);
        assert_eq!((traffic.counts(), traffic.troubles()), ((80, 28), (1, 0)));
    }

    #[test]
    fn messages_in_flight_are_summed_over_calls_and_removed_with_them() {
        let traffic = Traffic::default();
        let (mut one, mut other) = (InFlightGuard::new(&traffic), InFlightGuard::new(&traffic));
        one.tell(5, 500);
        other.tell(2, 20);
        one.tell(3, 300);
        assert_eq!((traffic.flying(), traffic.unanswered()), ((5, 320), 5));
        let mut publisher = InFlightGuard::new(&traffic);
        publisher.tell_publisher(4);
        assert_eq!((traffic.flying(), traffic.unanswered()), ((5, 320), 9));
        drop(publisher);
        drop(one);
        assert_eq!(traffic.flying(), (2, 20));
        drop(other);
        assert_eq!((traffic.flying(), traffic.unanswered()), ((0, 0), 0));
    }
}

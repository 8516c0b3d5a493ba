//! Prefetch size of `js.read`: the congestion control of `client::congestion`, applied to messages on their way to the
//! client.
//!
//! A server sends all requested messages at once. On a slow link, more than two bandwidth-delay products queue, and
//! other replies of the connection wait behind them. With the 16 MiB that keep a fast link busy that takes seconds.
//!
//! The first requests are therefore small. Their duration beyond one RTT yields the first rate, so that a fast link
//! needs few round trips until its window is open.

use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::time::Instant;

use client::Connection;
use client::congestion::{AGGREGATION_ALLOWANCE, Congestion, MIN_MEASURABLE};

/// Concurrent requests: while one is served the next ones have arrived, although each takes half an RTT.
pub const OUTSTANDING_REQUESTS: usize = 4;
/// Initial window in bytes.
const FIRST_PREFETCH_BYTES: usize = 64 << 10;
/// Maximum growth factor after the first window.
const SECOND_PREFETCH_BYTES: usize = 16;
/// Minimum time worth of data in flight. It exceeds that of publishes: a message costs less to send than to store, so
/// the bursts are longer.
const MIN_PREFETCH_TIME: Duration = Duration::from_millis(25);

pub struct Prefetch {
    congestion: Congestion,
    /// Average size of a message in bytes.
    mean: usize,
    /// Maximum number of concurrent requests.
    requests: usize,
    /// Number of received messages.
    came: u64,
    /// First sample: no rate is known yet, only the duration of a small request.
    new: bool,
    trip: Duration,
    first: Option<Train>,
}

/// Messages requested together, with the time of the request and of the first message.
struct Train {
    places: RangeInclusive<u64>,
    asked: Instant,
    begun: Option<Instant>,
}

impl Train {
    /// Returns the rate in bytes per second after the last message. A busy client may read all messages at once, so the
    /// time since the request counts too.
    fn rate(&self, mean: usize, trip: Duration) -> f64 {
        let came = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        let took = came.max(self.asked.elapsed().saturating_sub(trip + AGGREGATION_ALLOWANCE)).max(MIN_MEASURABLE);
        self.bytes(mean) as f64 / took.as_secs_f64()
    }

    fn bytes(&self, mean: usize) -> usize {
        (self.places.end() + 1 - self.places.start()) as usize * mean
    }
}

impl Prefetch {
    /// Creates a prefetch of at most `most` bytes in at most `requests` requests.
    pub fn new(conn: &Connection, most: usize, mean: usize, requests: usize) -> Self {
        let breaks = conn.breaks();
        let congestion = Congestion::beginning(
            FIRST_PREFETCH_BYTES,
            MIN_PREFETCH_TIME,
            &conn.path_back,
            breaks,
            most,
            Default::default(),
        );
        let new = conn.path_back.known(breaks).rate == 0.0;
        let (mean, requests) = (mean.max(1), requests.clamp(1, OUTSTANDING_REQUESTS));
        Prefetch { congestion, mean, requests, came: 0, new, trip: Duration::ZERO, first: None }
    }

    /// Records the duration of a request with a small response.
    pub fn small(&mut self, took: Duration) {
        self.trip = took;
    }

    /// Returns the number of messages per request, at most `most`, and the outstanding number below which the next
    /// request is sent. The latter is 0 in a drain.
    pub fn rows(&self, most: usize) -> (usize, usize) {
        let rows = (self.congestion.window() / self.requests / self.mean).clamp(1, most.max(1));
        (rows, if self.congestion.is_draining() { 0 } else { rows * (self.requests - 1) })
    }

    /// Records a request for `rows` messages, with `owed` outstanding before it.
    pub fn asked(&mut self, rows: usize, owed: usize) {
        let begin = self.came + owed as u64;
        let places = begin + 1..=begin + rows as u64;
        let now = Instant::now();
        self.congestion.asked(places.clone(), owed, now);
        match &mut self.first {
            Some(train) if self.new && train.begun.is_none() => train.places = *train.places.start()..=*places.end(),
            None if self.new => self.first = Some(Train { places, asked: now, begun: None }),
            _ => {}
        }
    }

    /// Records that the window is full with `owed` messages.
    pub fn is_full(&mut self, owed: usize) {
        self.congestion.is_full(owed * self.mean, self.mean);
    }

    /// Records a received message.
    pub fn came(&mut self, conn: &Connection, breaks: u64) {
        self.came += 1;
        if self.congestion.is_timed(self.came) {
            self.congestion.answered(self.came, Instant::now(), &conn.path_back, breaks);
        }
        if let Some(train) = &mut self.first {
            if self.came == *train.places.start() {
                train.begun = Some(Instant::now());
            }
            if self.came == *train.places.end() {
                let rate = train.rate(self.mean, self.trip);
                let most = train.bytes(self.mean) * SECOND_PREFETCH_BYTES;
                self.congestion.carries(rate, most, &conn.path_back, breaks);
                (self.first, self.new) = (None, false);
            }
        }
    }

    /// Discards the samples under way, because something other than the link delays the messages.
    pub fn forget(&mut self) {
        self.congestion.forget();
        (self.first, self.new) = (None, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(came: u64, after: u64) -> Train {
        let ago = |millis| Instant::now().checked_sub(Duration::from_millis(millis));
        let (Some(asked), begun) = (ago(after), ago(came)) else {
            panic!("the clock is younger than the test's times")
        };
        Train { places: 1..=400, asked, begun }
    }

    #[test]
    fn duration_beyond_a_round_trip_lowers_the_rate() {
        let trip = Duration::from_millis(20);
        // 64,000 bytes: from the first to the last in 40 ms.
        let rate = train(40, 65).rate(160, trip);
        assert!((1.2e6..1.7e6).contains(&rate), "{rate}");
        // All messages were in a buffer when the first was read.
        let rate = train(0, 65).rate(160, trip);
        assert!((1.2e6..1.7e6).contains(&rate), "{rate}");
        // Server and machine may be a little late.
        let rate = train(0, 22).rate(160, trip);
        assert!(rate > 20e6, "{rate}");
    }
}

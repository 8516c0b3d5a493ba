//! How much a read asks for ahead: as `connection::congestion`, of the messages on their way to us.
//!
//! A server sends what it was asked for at once. Over a slow link more than it carries in two round trips stands in a
//! queue, and whatever else is answered over the connection waits behind it: seconds, with the 16 MiB that keep a fast
//! one busy. So the first requests are for little, and how long that takes beyond a round trip says at once how much the
//! next ones may be for: a fast link is not to wait for many round trips.

use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::time::Instant;

use client::Connection;
use client::congestion::{BURST, Congestion, SHORTEST};

/// Requests under way: while one is served the next ones are there, though they take half a round trip.
pub const REQUESTS: usize = 4;
/// Bytes asked for before anything is known.
const FIRST_PREFETCH_BYTES: usize = 64 << 10;
/// And for how many times as much after these have come, at most.
const SECOND_PREFETCH_BYTES: usize = 16;
/// What is under way at least, in time: a message costs less to send than to store, so more of them come in a burst.
const MIN_PREFETCH_TIME: Duration = Duration::from_millis(25);

pub struct Prefetch {
    congestion: Congestion,
    /// Bytes of a message, on average.
    mean: usize,
    /// Most requests under way.
    requests: usize,
    /// Messages that came.
    came: u64,
    /// Nothing is known of the link, but how long something small takes on it.
    new: bool,
    trip: Duration,
    first: Option<Train>,
}

/// Messages that were asked for together; when, and when the first of them came.
struct Train {
    places: RangeInclusive<u64>,
    asked: Instant,
    begun: Option<Instant>,
}

impl Train {
    /// Bytes a second, now that all of it has come. What was late together, as the client was busy, did not come fast.
    fn rate(&self, mean: usize, trip: Duration) -> f64 {
        let came = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        let took = came.max(self.asked.elapsed().saturating_sub(trip + BURST)).max(SHORTEST);
        self.bytes(mean) as f64 / took.as_secs_f64()
    }

    fn bytes(&self, mean: usize) -> usize {
        (self.places.end() + 1 - self.places.start()) as usize * mean
    }
}

impl Prefetch {
    /// At most `most` bytes, in at most `requests`.
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
        let (mean, requests) = (mean.max(1), requests.clamp(1, REQUESTS));
        Prefetch { congestion, mean, requests, came: 0, new, trip: Duration::ZERO, first: None }
    }

    /// How long a request with a small answer has taken, just now.
    pub fn small(&mut self, took: Duration) {
        self.trip = took;
    }

    /// Messages of one request, at most so many; and with how many under way there may be another one: none where it is
    /// to be measured how long one takes that waits for no other.
    pub fn rows(&self, most: usize) -> (usize, usize) {
        let rows = (self.congestion.window() / self.requests / self.mean).clamp(1, most.max(1));
        (rows, if self.congestion.is_draining() { 0 } else { rows * (self.requests - 1) })
    }

    /// So many are asked for, with others still to come.
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

    /// No more are asked for before some of them, so many, have come.
    pub fn is_full(&mut self, owed: usize) {
        self.congestion.is_full(owed * self.mean, self.mean);
    }

    /// One of them came.
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

    /// What is under way comes later than it could, or never.
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
        let (Some(asked), begun) = (ago(after), ago(came)) else { panic!("this clock has just begun") };
        Train { places: 1..=400, asked, begun }
    }

    #[test]
    fn what_took_longer_than_a_round_trip_came_slowly() {
        let trip = Duration::from_millis(20);
        // 64,000 bytes: from the first to the last in 40 ms.
        let rate = train(40, 65).rate(160, trip);
        assert!((1.2e6..1.7e6).contains(&rate), "{rate}");
        // All of them lay in a buffer when the first was looked at.
        let rate = train(0, 65).rate(160, trip);
        assert!((1.2e6..1.7e6).contains(&rate), "{rate}");
        // The server and the machine may be a little late.
        let rate = train(0, 22).rate(160, trip);
        assert!(rate > 20e6, "{rate}");
    }
}

//! Limit of the messages in flight after a stream refused one, because its queue was full.
//!
//! A server refuses messages with 429 once a stream has `max_buffered_msgs` unprocessed ones, 10,000 by default, of all
//! publishers. The limit is halved then, and doubled for every second without a refusal.

use std::time::Duration;

use tokio::time::Instant;

/// Smallest limit.
const MIN_MESSAGES: usize = 64;
/// Minimum time between two reductions: the answers to one overflow arrive together.
const REDUCTION_INTERVAL: Duration = Duration::from_millis(250);
const GROWTH_INTERVAL: Duration = Duration::from_secs(1);

pub struct QueueLimit {
    /// Value without a refusal.
    most: usize,
    limit: usize,
    changed_at: Option<Instant>,
}

impl QueueLimit {
    pub fn new(most: usize) -> Self {
        QueueLimit { most, limit: most, changed_at: None }
    }

    pub fn messages(&self) -> usize {
        self.limit
    }

    /// Records a refused message, with `in_flight` others without an answer.
    pub fn refused(&mut self, in_flight: usize, now: Instant) {
        if self.changed_at.is_none_or(|at| now.duration_since(at) >= REDUCTION_INTERVAL) {
            self.changed_at = Some(now);
            self.limit = (in_flight.min(self.limit) / 2).max(MIN_MESSAGES).min(self.most);
        }
    }

    /// Records an answered message.
    pub fn answered(&mut self, now: Instant) {
        if self.limit < self.most && self.changed_at.is_some_and(|at| now.duration_since(at) >= GROWTH_INTERVAL) {
            self.changed_at = Some(now);
            self.limit = self.limit.saturating_mul(2).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_halved_once_per_burst_and_grows_back() {
        let (begun, mut queue) = (Instant::now(), QueueLimit::new(1_000_000));
        let mut limits = Vec::new();
        for (milliseconds, in_flight) in [(0, 12_000), (1, 11_000), (300, 6_000), (600, 100), (900, 2)] {
            queue.refused(in_flight, begun + Duration::from_millis(milliseconds));
            limits.push(queue.messages());
        }
        assert_eq!(limits, [6_000, 6_000, 3_000, MIN_MESSAGES, MIN_MESSAGES]);
        for milliseconds in [950, 1_900, 1_950, 2_900] {
            queue.answered(begun + Duration::from_millis(milliseconds));
            limits.push(queue.messages());
        }
        assert_eq!(limits[5..], [64, 128, 128, 256]);
        (3..30).for_each(|seconds| queue.answered(begun + Duration::from_secs(seconds)));
        assert_eq!(queue.messages(), 1_000_000);
    }

    #[test]
    fn a_small_window_is_not_widened() {
        let mut queue = QueueLimit::new(8);
        queue.refused(8, Instant::now());
        assert_eq!(queue.messages(), 8);
    }
}

//! How many messages one request of a fetch may ask for.
//!
//! Each request costs a round trip in which nothing arrives. `RequestSize` doubles over links that are fast and long, and
//! halves over slow ones, where everything else waits behind the messages.
//!
//! `AckWindow` follows the consumer's `max_ack_pending`. The server does not answer a request that meets a full window: it
//! waits for acks, which the caller sends only once it has the messages. So no request asks for more than the window has
//! room for, as far as it is known. A request that falls silent has the server asked, because others may hold a part of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::ConsumerState;
use crate::receive::pull::{PULL_ROWS, PullOptions};

/// However fast they come.
const MAX_REQUEST_ROWS: usize = 4 * PULL_ROWS;
/// In less time a full request brings enough for a larger one; in more it was too large.
const QUICK: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_millis(400);

pub struct RequestSize(AtomicUsize);

impl Default for RequestSize {
    fn default() -> Self {
        RequestSize(AtomicUsize::new(PULL_ROWS))
    }
}

impl RequestSize {
    pub fn most(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A request has brought all that it was for, so many messages in so much time.
    pub fn learn(&self, rows: usize, took: Duration) {
        let most = self.most();
        if rows >= most && took < QUICK {
            self.0.store((most * 2).min(MAX_REQUEST_ROWS), Ordering::Relaxed);
        } else if took > SLOW {
            self.0.store((most / 2).max(PULL_ROWS), Ordering::Relaxed);
        }
    }
}

/// How long what the server said of the window counts: `update_consumer` may change it.
const FRESH: Duration = Duration::from_secs(10);
/// Silence on a request for what is at hand, after which the server is asked at first.
const PATIENCE: Duration = Duration::from_millis(20);
const MOST_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub struct AckWindow {
    /// Most unacknowledged messages, None for any number; and when the server said so.
    known: Option<(Option<usize>, Instant)>,
    /// How much longer than at first a request may be silent: on a slow link each one is.
    pub slow: u32,
}

impl AckWindow {
    fn fresh(&self) -> Option<Option<usize>> {
        self.known.filter(|(_, since)| since.elapsed() < FRESH).map(|(most, _)| most)
    }

    /// How many more a call may ask for that holds `rows` already; None when it has all that the consumer gives.
    pub fn room(&self, rows: usize) -> Option<usize> {
        let most = self.fresh().flatten().unwrap_or(usize::MAX);
        most.checked_sub(rows).filter(|room| *room > 0)
    }

    /// How long this request may be silent before the server is asked; None: it is not.
    pub fn patience(&self, request: &PullOptions) -> Option<Duration> {
        let limited = self.fresh() != Some(None);
        (request.no_wait && limited).then(|| PATIENCE.saturating_mul(1 << self.slow.min(16)).min(MOST_PATIENCE))
    }

    /// The size that the server said last.
    pub fn size(&self) -> Option<usize> {
        self.known.and_then(|(most, _)| most)
    }

    pub fn learn(&mut self, most: Option<usize>) {
        self.known = Some((most, Instant::now()));
    }
}

impl ConsumerState {
    pub fn ack_window(&self) -> Option<usize> {
        let limited = self.config.ack_policy != "none" && self.config.max_ack_pending > 0;
        limited.then(|| usize::try_from(self.config.max_ack_pending).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_requests_that_are_quick_grow() {
        let rows = RequestSize::default();
        rows.learn(PULL_ROWS - 1, Duration::ZERO);
        rows.learn(PULL_ROWS, QUICK * 2);
        assert_eq!(rows.most(), PULL_ROWS);
        for most in [2, 4, 4] {
            rows.learn(rows.most(), QUICK / 2);
            assert_eq!(rows.most(), most * PULL_ROWS);
        }
        for most in [2, 1, 1] {
            rows.learn(rows.most(), SLOW * 2);
            assert_eq!(rows.most(), most * PULL_ROWS);
        }
    }

    #[test]
    fn no_more_is_asked_for_than_the_window_has_room_for() {
        let mut window = AckWindow::default();
        assert_eq!(window.room(5), Some(usize::MAX - 5));
        window.learn(Some(1000));
        assert_eq!((window.room(0), window.room(999), window.room(1000)), (Some(1000), Some(1), None));
        window.learn(None);
        assert_eq!((window.room(0), window.size()), (Some(usize::MAX), None));
    }

    #[test]
    fn only_a_request_for_what_is_at_hand_is_asked_about() {
        let at_hand = PullOptions { batch: 1, no_wait: true, ..PullOptions::default() };
        let waiting = PullOptions { no_wait: false, ..at_hand };
        let mut window = AckWindow::default();
        assert_eq!((window.patience(&at_hand), window.patience(&waiting)), (Some(PATIENCE), None));
        window.slow = 2;
        assert_eq!(window.patience(&at_hand), Some(PATIENCE * 4));
        window.slow = 60;
        assert_eq!(window.patience(&at_hand), Some(MOST_PATIENCE));
        window.learn(None);
        assert_eq!(window.patience(&at_hand), None);
    }
}

//! Number of messages that one request of a fetch may ask for.
//!
//! Each request costs a round trip without messages. `RequestSize` doubles on fast links with a long RTT. It halves on
//! slow links, because other traffic waits behind the messages.
//!
//! `AckWindow` follows the consumer's `max_ack_pending`. The server does not answer a request that finds the window
//! full. It waits for acks, which the caller sends only once it has the messages. So no request asks for more than the
//! known room in the window. If a request gets no answer, the server is asked for the consumer's state, because other
//! clients may occupy the window.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::ConsumerState;
use crate::receive::pull::{PULL_ROWS, PullOptions};

/// Maximum number of messages per request, at any rate.
const MAX_REQUEST_ROWS: usize = 4 * PULL_ROWS;
/// Durations of a full request below which the size grows, and above which it shrinks.
const GROW_BELOW: Duration = Duration::from_millis(100);
const SHRINK_ABOVE: Duration = Duration::from_millis(400);

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

    /// Records a completed request: number of messages and duration.
    pub fn learn(&self, rows: usize, took: Duration) {
        let most = self.most();
        if rows >= most && took < GROW_BELOW {
            self.0.store((most * 2).min(MAX_REQUEST_ROWS), Ordering::Relaxed);
        } else if took > SHRINK_ABOVE {
            self.0.store((most / 2).max(PULL_ROWS), Ordering::Relaxed);
        }
    }
}

/// Time for which the server's `max_ack_pending` is cached. `update_consumer` may change it.
const ACK_WINDOW_TTL: Duration = Duration::from_secs(10);
/// Initial and maximum silence of a `no_wait` request before the server is asked.
const MIN_SILENCE: Duration = Duration::from_millis(20);
const MAX_SILENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub struct AckWindow {
    /// Maximum number of unacknowledged messages (`None`: unlimited), and the time of the server's response.
    known: Option<(Option<usize>, Instant)>,
    /// Exponent of the allowed silence. It grows on slow links, where every request is silent for longer.
    pub slow: u32,
}

impl AckWindow {
    fn fresh(&self) -> Option<Option<usize>> {
        self.known.filter(|(_, since)| since.elapsed() < ACK_WINDOW_TTL).map(|(most, _)| most)
    }

    /// Returns the number of messages that a call with `rows` of them may still ask for; `None` if the window is full.
    pub fn room(&self, rows: usize) -> Option<usize> {
        let most = self.fresh().flatten().unwrap_or(usize::MAX);
        most.checked_sub(rows).filter(|room| *room > 0)
    }

    /// Returns the silence of this request after which the server is asked; `None`: never.
    pub fn allowed_silence(&self, request: &PullOptions) -> Option<Duration> {
        let limited = self.fresh() != Some(None);
        (request.no_wait && limited).then(|| MIN_SILENCE.saturating_mul(1 << self.slow.min(16)).min(MAX_SILENCE))
    }

    /// Returns the last known window.
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
    fn fast_full_requests_grow() {
        let rows = RequestSize::default();
        rows.learn(PULL_ROWS - 1, Duration::ZERO);
        rows.learn(PULL_ROWS, GROW_BELOW * 2);
        assert_eq!(rows.most(), PULL_ROWS);
        for most in [2, 4, 4] {
            rows.learn(rows.most(), GROW_BELOW / 2);
            assert_eq!(rows.most(), most * PULL_ROWS);
        }
        for most in [2, 1, 1] {
            rows.learn(rows.most(), SHRINK_ABOVE * 2);
            assert_eq!(rows.most(), most * PULL_ROWS);
        }
    }

    #[test]
    fn requests_stay_within_the_ack_window() {
        let mut window = AckWindow::default();
        assert_eq!(window.room(5), Some(usize::MAX - 5));
        window.learn(Some(1000));
        assert_eq!((window.room(0), window.room(999), window.room(1000)), (Some(1000), Some(1), None));
        window.learn(None);
        assert_eq!((window.room(0), window.size()), (Some(usize::MAX), None));
    }

    #[test]
    fn server_is_asked_only_about_no_wait_requests() {
        let at_hand = PullOptions { batch: 1, no_wait: true, ..PullOptions::default() };
        let waiting = PullOptions { no_wait: false, ..at_hand };
        let mut window = AckWindow::default();
        assert_eq!((window.allowed_silence(&at_hand), window.allowed_silence(&waiting)), (Some(MIN_SILENCE), None));
        window.slow = 2;
        assert_eq!(window.allowed_silence(&at_hand), Some(MIN_SILENCE * 4));
        window.slow = 60;
        assert_eq!(window.allowed_silence(&at_hand), Some(MAX_SILENCE));
        window.learn(None);
        assert_eq!(window.allowed_silence(&at_hand), None);
    }
}

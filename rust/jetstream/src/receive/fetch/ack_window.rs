//! How many messages a consumer gives before it wants acks (its `max_ack_pending`).
//!
//! The server does not answer a request that meets a full window: it waits for acks, which only come once the caller has
//! what was fetched. So no request asks for more than the window has room for, as far as it is known; and when one falls
//! silent, others hold a part of the window, or it is not known: then the server is asked.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::{ConsumerTraits, PullSubscription};
use crate::api::{Api, ConsumerState};
use crate::receive::pull::PullRequest;
use base::lock::{Guard, lock};

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
    slow: u32,
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
    pub fn patience(&self, request: &PullRequest) -> Option<Duration> {
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
    fn window(&self) -> Option<usize> {
        let limited = self.config.ack_policy != "none" && self.config.max_ack_pending > 0;
        limited.then(|| usize::try_from(self.config.max_ack_pending).unwrap_or(usize::MAX))
    }
}

impl PullSubscription {
    pub fn ack_window(&self) -> Guard<'_, AckWindow> {
        lock(&self.ack_window)
    }

    /// Whether the consumer gives nothing more before it gets acks, as the server says.
    pub(super) async fn window_is_full(&self, deadline: Instant) -> bool {
        let api = Api::new(&self.conn, &self.prefix);
        let Ok(answer) = timeout_at(deadline, api.consumer_state(&self.stream, &self.consumer)).await else {
            return false;
        };
        let mut known = self.ack_window();
        let Ok(state) = answer else {
            // It may not ask, or there is nothing to ask about: as if there were no window, for a while.
            known.learn(None);
            return false;
        };
        self.learn(ConsumerTraits::from(&state));
        let window = state.window();
        known.learn(window);
        let full = window.is_some_and(|most| state.num_ack_pending >= most as u64);
        known.slow += u32::from(!full);
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let at_hand = PullRequest { batch: 1, no_wait: true, ..PullRequest::default() };
        let waiting = PullRequest { no_wait: false, ..at_hand };
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

//! How many messages one request of a fetch is for, at most: each costs a round trip, in which nothing comes. Where many
//! come soon, as over a fast link that is long, more of them are worth it; over a slow one all else waits behind them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::receive::pull::PULL_ROWS;

/// However fast they come.
const MAX_REQUEST_ROWS: usize = 4 * PULL_ROWS;
/// In less time a full request brings enough for a larger one; in more it was too large.
const QUICK: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_millis(400);

pub(super) struct RequestSize(AtomicUsize);

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
}

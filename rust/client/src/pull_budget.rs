//! Budget of bytes that all pull requests of a connection may have outstanding.
//!
//! A server disconnects a client if it cannot write 64 MiB to it, and the data in transit is lost. A client process
//! that pauses for one second is enough for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Total in bytes. Each request reserves at most half of the rest, so that others find some too.
const MAX_TOTAL_BYTES: usize = 28 << 20;
/// Minimum of one request in bytes, for any number of requests.
const MIN_REQUEST_BYTES: usize = 128 << 10;

#[derive(Default)]
pub struct PullBudget(AtomicUsize);

/// Reservation of one pull request; dropping it returns the bytes.
pub struct Reservation {
    pub bytes: usize,
    of: Arc<PullBudget>,
}

impl PullBudget {
    /// Reserves at most `wanted` bytes.
    pub fn share(self: &Arc<Self>, wanted: usize) -> Reservation {
        let left = MAX_TOTAL_BYTES.saturating_sub(self.0.load(Ordering::Relaxed));
        let bytes = wanted.min((left / 2).max(MIN_REQUEST_BYTES));
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Reservation { bytes, of: self.clone() }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_reservations_stay_below_the_limit_of_a_server() {
        let pull_budget = Arc::new(PullBudget::default());
        let shares: Vec<_> = (0..100).map(|_| pull_budget.share(16 << 20)).collect();
        assert_eq!(shares.iter().take(3).map(|share| share.bytes >> 20).collect::<Vec<_>>(), [14, 7, 3]);
        assert!(shares.iter().all(|share| share.bytes >= MIN_REQUEST_BYTES));
        assert!(shares.iter().map(|share| share.bytes).sum::<usize>() < 48 << 20);
        drop(shares);
        for (wanted, bytes) in [(5, 5), (usize::MAX, MAX_TOTAL_BYTES / 2)] {
            assert_eq!(pull_budget.share(wanted).bytes, bytes);
        }
    }
}

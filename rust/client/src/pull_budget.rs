//! How much pull requests may bring just now, of all calls of a connection together: a server cuts a client that it cannot
//! write 64 MiB to, and with it goes what is on its way. A process that stands still for a second is enough for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of all. Each takes half of what is left, so that others have some too.
const MAX_TOTAL_BYTES: usize = 28 << 20;
/// However many they are.
const MIN_REQUEST_BYTES: usize = 128 << 10;

#[derive(Default)]
pub struct PullBudget(AtomicUsize);

/// One request's part, until it is over.
pub struct Reservation {
    pub bytes: usize,
    of: Arc<PullBudget>,
}

impl PullBudget {
    /// At most so many bytes.
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
    fn all_together_they_stay_below_what_a_server_takes() {
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

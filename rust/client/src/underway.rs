//! How much pull requests may bring just now, of all calls of a connection together: a server cuts a client that it cannot
//! write 64 MiB to, and with it goes what is on its way. A process that stands still for a second is enough for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of all. Each takes half of what is left, so that others have some too.
const MOST: usize = 28 << 20;
/// However many they are.
const LEAST: usize = 128 << 10;

#[derive(Default)]
pub struct Underway(AtomicUsize);

/// One request's part, until it is over.
pub struct Share {
    pub bytes: usize,
    of: Arc<Underway>,
}

impl Underway {
    /// At most so many bytes.
    pub fn share(self: &Arc<Self>, wanted: usize) -> Share {
        let left = MOST.saturating_sub(self.0.load(Ordering::Relaxed));
        let bytes = wanted.min((left / 2).max(LEAST));
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Share { bytes, of: self.clone() }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_together_they_stay_below_what_a_server_takes() {
        let underway = Arc::new(Underway::default());
        let shares: Vec<_> = (0..100).map(|_| underway.share(16 << 20)).collect();
        assert_eq!(shares.iter().take(3).map(|share| share.bytes >> 20).collect::<Vec<_>>(), [14, 7, 3]);
        assert!(shares.iter().all(|share| share.bytes >= LEAST));
        assert!(shares.iter().map(|share| share.bytes).sum::<usize>() < 48 << 20);
        drop(shares);
        for (wanted, bytes) in [(5, 5), (usize::MAX, MOST / 2)] {
            assert_eq!(underway.share(wanted).bytes, bytes);
        }
    }
}

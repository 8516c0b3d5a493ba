//! Sizes of batches, and the number of batches that wait for the reader.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Range;

/// Maximum number of finished batches that wait for the reader; one more waits for its place.
pub(super) const BATCHES_AHEAD: usize = 3;
/// Number of doublings of growing batches up to the requested size, and the minimum size of the first one.
const DOUBLINGS: u32 = 6;
const MIN_BATCH_ROWS: usize = 1024;
const MIN_BATCH_BYTES: usize = 256 << 10;
/// Maximum size of a batch in KiB, the unit of the semaphore, which counts in 32 bits.
const MAX_BATCH_KIB: usize = 1 << 20;

pub(super) struct RequestSizes {
    rows: usize,
    bytes: usize,
    doublings: u32,
    room: Arc<Semaphore>,
}

/// Permit of a batch that waits for the reader.
pub(super) type Place = Option<OwnedSemaphorePermit>;

impl RequestSizes {
    pub(super) fn new(range: &Range) -> Self {
        RequestSizes {
            rows: range.batch_rows,
            bytes: range.batch_bytes,
            doublings: if range.grow { DOUBLINGS } else { 0 },
            room: Arc::new(Semaphore::new(kib(range.batch_bytes))),
        }
    }

    /// Returns the maximum rows and bytes of the current batch.
    pub(super) fn now(&self) -> (usize, usize) {
        let part = |most: usize, few: usize| (most >> self.doublings).max(few.min(most));
        (part(self.rows, MIN_BATCH_ROWS), part(self.bytes, MIN_BATCH_BYTES))
    }

    /// Waits for a permit for this many bytes. A batch of full size waits alone.
    pub(super) async fn place(&mut self, bytes: usize) -> Place {
        self.doublings = self.doublings.saturating_sub(1);
        let wanted = kib(bytes.min(self.bytes)) as u32;
        // `None` is a closed semaphore, and this one is never closed.
        self.room.clone().acquire_many_owned(wanted).await.ok()
    }
}

fn kib(bytes: usize) -> usize {
    (bytes >> 10).clamp(1, MAX_BATCH_KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(rows: usize, bytes: usize, doublings: u32) -> RequestSizes {
        RequestSizes { rows, bytes, doublings, room: Arc::new(Semaphore::new(kib(bytes))) }
    }

    #[tokio::test]
    async fn batches_double_up_to_the_requested_size() {
        let mut growing = sizes(65_536, 16 << 20, DOUBLINGS);
        let mut seen = Vec::new();
        for _ in 0..8 {
            seen.push(growing.now());
            drop(growing.place(1).await);
        }
        let doubled = (0..8).map(|n| 1usize << n.min(6));
        assert_eq!(seen, doubled.map(|n| (1024 * n, (256 << 10) * n)).collect::<Vec<_>>());
        assert_eq!(sizes(100, 5000, DOUBLINGS).now(), (100, 5000));
        assert_eq!(sizes(65_536, usize::MAX, 0).now(), (65_536, usize::MAX));
    }

    #[tokio::test]
    async fn small_batches_wait_together_and_a_large_one_alone() {
        let mut sizes = sizes(65_536, 1 << 20, 0);
        let room = sizes.room.clone();
        let few = [sizes.place(1 << 18).await, sizes.place(1 << 18).await];
        assert_eq!(room.available_permits(), 512);
        drop(few);
        let one = sizes.place(1 << 30).await;
        assert_eq!(room.available_permits(), 0);
        drop(one);
        assert_eq!(room.available_permits(), 1024);
    }
}

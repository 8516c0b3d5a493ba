//! Memory of a growing column.
//!
//! A large column has an anonymous memory mapping of its own, reserved for the expected size. Untouched pages use no
//! memory, and a column that grows into its mapping is never copied. Dropping the column unmaps it at once, while an
//! allocator would keep some memory: a read whose batches are built by one thread and dropped by another used 105 MB
//! instead of 50 MB.
//!
//! The next batch reuses the mapping of a dropped one, see [`SparePages`]. Fresh pages cost a page fault and a clear
//! per 4 KiB, which was a sixth of the time of a read of 16 KiB messages.

use std::sync::{Mutex, Weak};

use arrow_buffer::Buffer;
use bytes::Bytes;
use memmap2::{MmapMut, MmapOptions};

use base::lock::lock;

/// Bytes from which a column has a mapping. A mapping of a smaller column costs more than it saves.
const MIN_MAPPED_BYTES: usize = 1 << 20;
/// Maximum bytes of a spare mapping: a batch of the default size of a read, and an eighth more.
const MOST_SPARE: usize = 18 << 20;

/// Mapping of a dropped batch, for the next batch of the same read or subscription.
#[derive(Default)]
pub struct SparePages(Mutex<Option<MmapMut>>);

impl SparePages {
    fn take_pages(&self, bytes: usize) -> Option<MmapMut> {
        lock(&self.0).take_if(|map| (bytes..=2 * bytes).contains(&map.len()))
    }

    fn give(&self, map: MmapMut) {
        if map.len() <= MOST_SPARE {
            let _former = lock(&self.0).replace(map);
        }
    }
}

/// Bytes of a column, on the heap or in a mapping of its own.
pub enum ColumnBuffer {
    Heap(Vec<u8>),
    Mapped(Pages),
}

impl Default for ColumnBuffer {
    fn default() -> Self {
        ColumnBuffer::Heap(Vec::new())
    }
}

/// A mapping, which its drop passes to the next batch.
pub struct Pages {
    /// Is set until the drop.
    map: Option<MmapMut>,
    len: usize,
    spare: Weak<SparePages>,
}

impl Pages {
    /// Appends bytes; false if they do not fit.
    #[inline]
    fn extend(&mut self, bytes: &[u8]) -> bool {
        let end = self.len + bytes.len();
        let place = self.map.as_mut().and_then(|map| map.get_mut(self.len..end));
        let Some(place) = place else { return false };
        place.copy_from_slice(bytes);
        self.len = end;
        true
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let (Some(map), Some(spare)) = (self.map.take(), self.spare.upgrade()) {
            spare.give(map);
        }
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        self.map.as_ref().and_then(|map| map.get(..self.len)).unwrap_or_default()
    }
}

impl AsRef<[u8]> for ColumnBuffer {
    fn as_ref(&self) -> &[u8] {
        match self {
            ColumnBuffer::Heap(bytes) => bytes,
            ColumnBuffer::Mapped(pages) => pages.as_ref(),
        }
    }
}

impl ColumnBuffer {
    /// Creates a buffer for about `bytes` bytes, and an eighth more.
    pub fn expecting(bytes: usize, spare: &Weak<SparePages>) -> Self {
        if bytes < MIN_MAPPED_BYTES {
            return ColumnBuffer::Heap(Vec::with_capacity(bytes));
        }
        let enough = bytes + bytes / 8;
        let map = spare.upgrade().and_then(|spare| spare.take_pages(enough)).or_else(|| {
            // Most pages may stay untouched, so they do not count as used memory on systems with this option.
            MmapOptions::new().len(enough).no_reserve_swap().map_anon().ok()
        });
        match map {
            Some(map) => ColumnBuffer::Mapped(Pages { map: Some(map), len: 0, spare: spare.clone() }),
            // The system has less memory than expected to be needed, but the rows can need less.
            None => ColumnBuffer::Heap(Vec::new()),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            ColumnBuffer::Heap(bytes) => bytes.len(),
            ColumnBuffer::Mapped(pages) => pages.len,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes. If they do not fit, grows to at least `enough` bytes.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8], spare: &Weak<SparePages>, enough: impl Fn() -> usize) {
        while !self.try_extend(bytes) {
            self.outgrow(bytes.len(), spare, enough());
        }
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> bool {
        match self {
            ColumnBuffer::Heap(heap) => {
                let fits = heap.len() + bytes.len() <= heap.capacity().max(MIN_MAPPED_BYTES);
                if fits {
                    heap.extend_from_slice(bytes);
                }
                fits
            }
            ColumnBuffer::Mapped(pages) => pages.extend(bytes),
        }
    }

    #[cold]
    fn outgrow(&mut self, more: usize, spare: &Weak<SparePages>, enough: usize) {
        let least = 2 * (self.len() + more);
        let mut larger = ColumnBuffer::expecting(enough.max(least), spare);
        if let ColumnBuffer::Heap(heap) = &mut larger {
            heap.reserve_exact(least);
        }
        let _there_is_room = larger.try_extend(self.as_ref());
        *self = larger;
    }

    /// Returns the bytes with hardly any unused memory.
    pub fn finish(self) -> Buffer {
        match self {
            ColumnBuffer::Heap(mut bytes) => {
                bytes.shrink_to_fit();
                Buffer::from_vec(bytes)
            }
            ColumnBuffer::Mapped(pages) => Buffer::from(Bytes::from_owner(pages)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn none() -> Weak<SparePages> {
        Weak::new()
    }

    #[test]
    fn buffers_of_both_kinds_keep_their_bytes_when_they_outgrow_the_expectation() {
        for (expected, enough) in [(0, 0), (0, 64 << 20), (1 << 19, 0), (4 << 20, 0), (64 << 20, 0), (1 << 62, 0)] {
            let mut room = ColumnBuffer::expecting(expected, &none());
            let mapped = (MIN_MAPPED_BYTES..1 << 62).contains(&expected);
            assert_eq!(matches!(room, ColumnBuffer::Mapped(_)), mapped, "{expected}");
            let mut all = Vec::new();
            for part in 0..100u8 {
                let bytes = vec![part; 100_000];
                room.extend(&bytes, &none(), || enough);
                all.extend(bytes);
                assert_eq!(room.len(), all.len());
            }
            assert!(matches!(room, ColumnBuffer::Mapped(_)), "{expected}");
            assert_eq!(room.as_ref(), all);
            assert_eq!(room.finish().as_slice(), all);
        }
    }

    #[test]
    fn expected_bytes_are_appended_without_a_copy() {
        let mut room = ColumnBuffer::default();
        room.extend(&[1; MIN_MAPPED_BYTES], &none(), || 0);
        assert!(matches!(room, ColumnBuffer::Heap(_)));
        room.extend(b"more", &none(), || 64 << 20);
        let place = room.as_ref().as_ptr();
        (0..60).for_each(|_| room.extend(&[2; MIN_MAPPED_BYTES], &none(), || 0));
        assert_eq!(room.as_ref().as_ptr(), place);
        room.extend(&vec![3; 64 << 20], &none(), || usize::MAX / 2);
        assert_eq!((room.len(), room.finish().as_slice().last()), (125 * MIN_MAPPED_BYTES + 4, Some(&3)));
    }

    #[test]
    fn finish_of_a_mapping_does_not_copy() {
        let mut room = ColumnBuffer::expecting(4 << 20, &none());
        room.extend(b"some", &none(), || 0);
        let place = room.as_ref().as_ptr();
        let buffer = room.finish();
        assert_eq!((buffer.as_ptr(), buffer.as_slice()), (place, &b"some"[..]));
        assert!(ColumnBuffer::expecting(4 << 20, &none()).finish().is_empty());
    }

    #[test]
    fn dropped_mapping_is_reused_by_the_next_batch() {
        let spare = Arc::default();
        let batch = |bytes: usize, spare: &Arc<SparePages>| {
            let spare = Arc::downgrade(spare);
            let mut room = ColumnBuffer::expecting(bytes, &spare);
            room.extend(b"some", &spare, || 0);
            room.finish()
        };
        let first = batch(5 << 20, &spare);
        let (place, second) = (first.as_ptr(), batch(5 << 20, &spare));
        assert_ne!(second.as_ptr(), place, "both batches exist");
        let sliced = first.slice(2);
        drop(first);
        assert_ne!(batch(5 << 20, &spare).as_ptr(), place, "a slice of it exists");
        drop(sliced);
        let third = batch(4 << 20, &spare);
        assert_eq!((third.as_ptr(), third.as_slice()), (place, &b"some"[..]));
        // A mapping of another size, and one above `MOST_SPARE`.
        drop(third);
        assert_ne!(batch(6 << 20, &spare).as_ptr(), place);
        drop(batch(30 << 20, &spare));
        assert!(lock(&spare.0).as_ref().is_some_and(|map| map.len() < 8 << 20));
        // Spare pages are unmapped with the read. A batch that outlives the read unmaps its own.
        let left = batch(5 << 20, &spare);
        drop(spare);
        assert_eq!(left.as_slice(), b"some");
    }
}

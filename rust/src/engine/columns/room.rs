//! The bytes of a column while it grows, and what becomes of their memory.
//!
//! glibc takes blocks of up to 32 MiB from its arenas once a program has given some back, one arena a thread, and keeps
//! what it is given: a read whose batches are made by one thread and dropped by another had 105 MB where 50 do. So a
//! column that is expected to be that large lies in pages of its own, which go back as soon as it is dropped; those that
//! nothing is written to are never there. Or they are the next batch's: to the system fresh pages are a fault for every
//! 4 KiB, and to be cleared, a sixth of the time that a read of messages of 16 KiB takes.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, Weak};

use arrow_buffer::Buffer;
use bytes::Bytes;
use memmap2::MmapMut;

use crate::lock::lock;

/// Below, pages cost more than they save; above, malloc does the same by itself.
const MAPPED: RangeInclusive<usize> = 4 << 20..=32 << 20;
/// Bytes that are kept for batches to come: those of a read, unless it is asked for larger ones, and their eighth more.
const MOST_SPARE: usize = 18 << 20;

/// Pages of batches that were dropped, for the next ones of the same read, or subscription. They go with it.
#[derive(Default)]
pub struct Spare(Mutex<Option<MmapMut>>);

impl Spare {
    fn take(&self, bytes: usize) -> Option<MmapMut> {
        lock(&self.0).take_if(|map| (bytes..=2 * bytes).contains(&map.len()))
    }

    fn give(&self, map: MmapMut) {
        if map.len() <= MOST_SPARE {
            let _former = lock(&self.0).replace(map);
        }
    }
}

pub enum Room {
    Heap(Vec<u8>),
    Mapped(Pages),
}

impl Default for Room {
    fn default() -> Self {
        Room::Heap(Vec::new())
    }
}

pub struct Pages {
    /// There until it is dropped.
    map: Option<MmapMut>,
    len: usize,
    spare: Weak<Spare>,
}

impl Pages {
    /// False where there is no room.
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

impl AsRef<[u8]> for Room {
    fn as_ref(&self) -> &[u8] {
        match self {
            Room::Heap(bytes) => bytes,
            Room::Mapped(pages) => pages.as_ref(),
        }
    }
}

impl Room {
    /// For about so many bytes, and an eighth more.
    pub fn expecting(bytes: usize, spare: &Arc<Spare>) -> Self {
        let map = MAPPED.contains(&bytes).then(|| bytes + bytes / 8).and_then(|enough| {
            // Where the system has no more of them, malloc says so.
            spare.take(enough).or_else(|| MmapMut::map_anon(enough).ok())
        });
        match map {
            Some(map) => Room::Mapped(Pages { map: Some(map), len: 0, spare: Arc::downgrade(spare) }),
            None => Room::Heap(Vec::with_capacity(bytes)),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Room::Heap(bytes) => bytes.len(),
            Room::Mapped(pages) => pages.len,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        match self {
            Room::Heap(heap) => heap.extend_from_slice(bytes),
            Room::Mapped(pages) => {
                if !pages.extend(bytes) {
                    self.outgrow(bytes);
                }
            }
        }
    }

    #[cold]
    fn outgrow(&mut self, bytes: &[u8]) {
        let mut heap = Vec::with_capacity(2 * self.len() + bytes.len());
        heap.extend_from_slice(self.as_ref());
        heap.extend_from_slice(bytes);
        *self = Room::Heap(heap);
    }

    /// In hardly more memory than they need.
    pub fn finish(self) -> Buffer {
        match self {
            Room::Heap(mut bytes) => {
                bytes.shrink_to_fit();
                Buffer::from_vec(bytes)
            }
            Room::Mapped(pages) => Buffer::from(Bytes::from_owner(pages)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both kinds hold what they were given, however much more than expected it is.
    #[test]
    fn what_was_added_is_there() {
        for expected in [0, 1 << 20, 4 << 20, 64 << 20] {
            let mut room = Room::expecting(expected, &Arc::default());
            assert_eq!(matches!(room, Room::Mapped(_)), MAPPED.contains(&expected), "{expected}");
            let mut all = Vec::new();
            for part in 0..100u8 {
                let bytes = vec![part; 100_000];
                room.extend(&bytes);
                all.extend(bytes);
                assert_eq!(room.len(), all.len());
            }
            assert_eq!(room.as_ref(), all);
            assert_eq!(room.finish().as_slice(), all);
        }
    }

    #[test]
    fn a_mapping_is_handed_out_without_a_copy() {
        let mut room = Room::expecting(4 << 20, &Arc::default());
        room.extend(b"some");
        let place = room.as_ref().as_ptr();
        let buffer = room.finish();
        assert_eq!((buffer.as_ptr(), buffer.as_slice()), (place, &b"some"[..]));
        assert!(Room::expecting(4 << 20, &Arc::default()).finish().is_empty());
    }

    #[test]
    fn what_was_dropped_is_the_next_ones() {
        let spare = Arc::default();
        let batch = |bytes: usize, spare: &Arc<Spare>| {
            let mut room = Room::expecting(bytes, spare);
            room.extend(b"some");
            room.finish()
        };
        let first = batch(5 << 20, &spare);
        let (place, second) = (first.as_ptr(), batch(5 << 20, &spare));
        assert_ne!(second.as_ptr(), place, "both are there");
        let sliced = first.slice(2);
        drop(first);
        assert_ne!(batch(5 << 20, &spare).as_ptr(), place, "a part of it is there");
        drop(sliced);
        let third = batch(4 << 20, &spare);
        assert_eq!((third.as_ptr(), third.as_slice()), (place, &b"some"[..]));
        // One of another size, and one that is too large to be kept.
        drop(third);
        assert_ne!(batch(6 << 20, &spare).as_ptr(), place);
        drop(batch(30 << 20, &spare));
        assert!(lock(&spare.0).as_ref().is_some_and(|map| map.len() < 8 << 20));
        // It goes with the read; a batch that is left gives its pages back to the system.
        let left = batch(5 << 20, &spare);
        drop(spare);
        assert_eq!(left.as_slice(), b"some");
    }
}

//! The bytes of a column while it grows, and what becomes of their memory.
//!
//! glibc takes blocks of up to 32 MiB from its arenas once a program has given some back, one arena a thread, and keeps
//! what it is given: a read whose batches are made by one thread and dropped by another had 105 MB where 50 do. So a
//! column that is expected to be that large lies in pages of its own, which go back as soon as it is dropped; those that
//! nothing is written to are never there.

use std::ops::RangeInclusive;

use arrow_buffer::Buffer;
use bytes::Bytes;
use memmap2::MmapMut;

/// Below, pages cost more than they save; above, malloc does the same by itself.
const MAPPED: RangeInclusive<usize> = 4 << 20..=32 << 20;

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
    map: MmapMut,
    len: usize,
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        self.map.get(..self.len).unwrap_or_default()
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
    pub fn expecting(bytes: usize) -> Self {
        let map = MAPPED.contains(&bytes).then(|| MmapMut::map_anon(bytes + bytes / 8));
        match map {
            Some(Ok(map)) => Room::Mapped(Pages { map, len: 0 }),
            _ => Room::Heap(Vec::with_capacity(bytes)),
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

    pub fn extend(&mut self, bytes: &[u8]) {
        match self {
            Room::Heap(heap) => heap.extend_from_slice(bytes),
            Room::Mapped(Pages { map, len }) => {
                let end = *len + bytes.len();
                if let Some(place) = map.get_mut(*len..end) {
                    place.copy_from_slice(bytes);
                    *len = end;
                } else {
                    let mut heap = Vec::with_capacity(end.max(2 * *len));
                    heap.extend_from_slice(self.as_ref());
                    heap.extend_from_slice(bytes);
                    *self = Room::Heap(heap);
                }
            }
        }
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
            let mut room = Room::expecting(expected);
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
        let mut room = Room::expecting(4 << 20);
        room.extend(b"some");
        let place = room.as_ref().as_ptr();
        let buffer = room.finish();
        assert_eq!((buffer.as_ptr(), buffer.as_slice()), (place, &b"some"[..]));
        assert!(Room::expecting(4 << 20).finish().is_empty());
    }
}

//! The write buffer of a connection: small frames are copied into one block of memory, large payloads are not copied.

use std::collections::VecDeque;
use std::io::IoSlice;

use async_nats::message::OutboundMessage;
use bytes::Bytes;

use crate::frames;

/// Bytes from which a payload is not copied.
const ZERO_COPY_BYTES: usize = 16 << 10;
/// Bytes above which an empty buffer returns its memory.
const MAX_RETAINED_BYTES: usize = 1 << 20;
/// Large payloads in one vectored write.
const MAX_SLICES: usize = 8;

/// Frames that wait to be written, in order.
#[derive(Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    /// Bytes of `bytes` that are already written.
    at: usize,
    /// Large payloads with their positions in `bytes`.
    large: VecDeque<(usize, Bytes)>,
    large_bytes: usize,
}

impl FrameBuffer {
    /// Returns the number of bytes that are not yet written.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.at + self.large_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes. Only allowed before the first [`advance`](Self::advance).
    pub fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
    }

    /// Appends a message. A payload of 16 KiB or more is referenced, not copied.
    pub fn put_message(&mut self, message: &OutboundMessage) {
        let payload = &message.payload;
        frames::head(&mut self.bytes, message);
        if payload.len() < ZERO_COPY_BYTES {
            self.bytes.extend_from_slice(payload);
        } else {
            self.large.push_back((self.bytes.len(), payload.clone()));
            self.large_bytes += payload.len();
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Discards all bytes, and returns memory above 1 MiB.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.large.clear();
        (self.at, self.large_bytes) = (0, 0);
        if self.bytes.capacity() > MAX_RETAINED_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Appends the next unwritten bytes to `slices`, in order, with at most 8 large payloads.
    pub fn slices<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        let mut at = self.at;
        let mut add = |bytes: &'a [u8]| {
            if !bytes.is_empty() {
                slices.push(IoSlice::new(bytes));
            }
        };
        for (place, payload) in self.large.iter().take(MAX_SLICES) {
            add(self.bytes.get(at..*place).unwrap_or_default());
            add(payload);
            at = *place;
        }
        if self.large.len() <= MAX_SLICES {
            add(self.bytes.get(at..).unwrap_or_default());
        }
    }

    /// Records that the next `count` bytes are written.
    pub fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let next = self.large.front().map_or(self.bytes.len(), |(place, _)| *place);
            let copied = count.min(next - self.at);
            self.at += copied;
            count -= copied;
            let Some((_, payload)) = self.large.front_mut().filter(|_| count > 0) else { return };
            let part = payload.split_to(count.min(payload.len()));
            self.large_bytes -= part.len();
            count -= part.len();
            if payload.is_empty() {
                self.large.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_writes_of_any_size_yield_the_same_bytes() {
        let sizes = [3, ZERO_COPY_BYTES, 0, ZERO_COPY_BYTES - 1, ZERO_COPY_BYTES + 5]
            .into_iter()
            .chain([ZERO_COPY_BYTES; MAX_SLICES + 3])
            .chain([7]);
        let messages: Vec<_> = sizes
            .enumerate()
            .map(|(i, size)| OutboundMessage {
                subject: format!("s.{i}").into(),
                reply: None,
                payload: vec![i as u8; size].into(),
                headers: None,
            })
            .collect();
        let mut wanted = Vec::new();
        messages.iter().for_each(|message| frames::publish(&mut wanted, message));
        for most in [1, 1000, ZERO_COPY_BYTES, usize::MAX] {
            let (mut block, mut written) = (FrameBuffer::default(), Vec::new());
            messages.iter().for_each(|message| block.put_message(message));
            while !block.is_empty() {
                let left = block.len();
                let mut slices = Vec::new();
                block.slices(&mut slices);
                let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).take(most).collect();
                block.advance(bytes.len());
                assert_eq!(block.len(), left - bytes.len());
                written.extend(bytes);
            }
            assert!(written == wanted, "{most}");
        }
    }
}

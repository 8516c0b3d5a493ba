//! Bytes to be written: frames in one piece of memory, and large payloads where they lie.

use std::collections::VecDeque;
use std::io::IoSlice;

use async_nats::message::OutboundMessage;
use bytes::Bytes;

use crate::frames;

/// A payload of so many bytes is not copied.
const LARGE: usize = 16 << 10;
/// A larger piece of memory is given back once it is empty.
const SPARE: usize = 1 << 20;
/// Large payloads that one write takes.
const SLICES: usize = 8;

#[derive(Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    /// How many of them are written.
    at: usize,
    /// Large payloads, and the places among the bytes that they come at.
    large: VecDeque<(usize, Bytes)>,
    large_bytes: usize,
}

impl FrameBuffer {
    /// What is not written yet.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.at + self.large_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nothing of it may be written yet.
    pub fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
    }

    pub fn put_message(&mut self, message: &OutboundMessage) {
        let payload = &message.payload;
        frames::head(&mut self.bytes, message);
        if payload.len() < LARGE {
            self.bytes.extend_from_slice(payload);
        } else {
            self.large.push_back((self.bytes.len(), payload.clone()));
            self.large_bytes += payload.len();
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.large.clear();
        (self.at, self.large_bytes) = (0, 0);
        if self.bytes.capacity() > SPARE {
            self.bytes = Vec::new();
        }
    }

    /// The next bytes, in their order.
    pub fn slices<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        let mut at = self.at;
        let mut add = |bytes: &'a [u8]| {
            if !bytes.is_empty() {
                slices.push(IoSlice::new(bytes));
            }
        };
        for (place, payload) in self.large.iter().take(SLICES) {
            add(self.bytes.get(at..*place).unwrap_or_default());
            add(payload);
            at = *place;
        }
        if self.large.len() <= SLICES {
            add(self.bytes.get(at..).unwrap_or_default());
        }
    }

    /// So many of them are written.
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
    fn however_it_is_written_it_is_the_same() {
        let sizes = [3, LARGE, 0, LARGE - 1, LARGE + 5].into_iter().chain([LARGE; SLICES + 3]).chain([7]);
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
        for most in [1, 1000, LARGE, usize::MAX] {
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

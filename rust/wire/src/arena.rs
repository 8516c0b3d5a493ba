//! Small copies, many to an allocation.

use bytes::{BufMut, Bytes, BytesMut};

/// Bytes are copied into blocks of this size: one allocation for hundreds of messages.
const BLOCK: usize = 64 * 1024;
/// From here on a block is not worth it; nor is a copy, where the bytes can stay where they lie until they are sent.
pub const LARGE: usize = BLOCK / 4;

#[derive(Default)]
pub struct Arena(BytesMut);

impl Arena {
    pub fn copy(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.len() >= LARGE {
            return Bytes::copy_from_slice(bytes);
        }
        if self.0.capacity() - self.0.len() < bytes.len() {
            self.0 = BytesMut::with_capacity(BLOCK);
        }
        self.0.put_slice(bytes);
        self.0.split().freeze()
    }
}

//! An allocator of small copies.

use bytes::{BufMut, Bytes, BytesMut};

/// Bytes of a block, so that one allocation serves hundreds of messages.
const BLOCK_BYTES: usize = 64 * 1024;
/// Bytes from which a copy gets an allocation of its own. Payloads of this size are also sent without a copy, if
/// possible.
pub const OWN_ALLOCATION_BYTES: usize = BLOCK_BYTES / 4;

/// Copies byte strings into shared blocks of 64 KiB.
#[derive(Default)]
pub struct Arena(BytesMut);

impl Arena {
    /// Returns a copy of `bytes`. It keeps its block alive.
    pub fn copy(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.len() >= OWN_ALLOCATION_BYTES {
            return Bytes::copy_from_slice(bytes);
        }
        if self.0.capacity() - self.0.len() < bytes.len() {
            self.0 = BytesMut::with_capacity(BLOCK_BYTES);
        }
        self.0.put_slice(bytes);
        self.0.split().freeze()
    }
}

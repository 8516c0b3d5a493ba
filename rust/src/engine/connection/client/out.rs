//! What is on its way out.

use std::sync::atomic::Ordering;

use async_nats::Statistics;
use async_nats::message::OutboundMessage;

use super::block::Block;
use super::frames::Frame;

/// Bytes that wait to be written, or one larger message: a server that stands still, or is gone, finds so much beyond
/// what the sockets hold; everything else waits where it can be taken back. Held in place by tests/survive/test_stall.py.
const ROOM: usize = 256 << 10;

#[derive(Default)]
pub(super) struct Out {
    pub buffer: Block,
    /// Bytes that the task has taken out of it, and not written yet.
    pub writing: usize,
    /// Bytes that were ever put in, and bytes that are gone: written, or lost with their link.
    pub queued: u64,
    pub gone: u64,
    messages: u64,
    bytes: u64,
    /// The task has been told that there is something.
    pub told: bool,
    /// A server reads what is written.
    pub connected: bool,
    /// Links that stood so far.
    pub links: u64,
    /// The link is to be dropped.
    pub renew: bool,
    /// The connection is to end, once all is written.
    pub end: bool,
    pub closed: bool,
}

impl Out {
    pub fn has_room(&self, bytes: usize) -> bool {
        let waiting = self.buffer.len() + self.writing;
        self.closed || self.connected && (waiting == 0 || waiting + bytes <= ROOM)
    }

    pub fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.buffer.len();
        self.buffer.put(write);
        self.queued += (self.buffer.len() - before) as u64;
    }

    pub fn put_message(&mut self, message: &OutboundMessage, statistics: &Statistics) {
        let before = self.buffer.len();
        self.buffer.put_message(message);
        self.count_message(before, statistics);
    }

    /// `before` is what was in the buffer before it.
    fn count_message(&mut self, before: usize, statistics: &Statistics) {
        let bytes = (self.buffer.len() - before) as u64;
        self.messages += 1;
        self.bytes += bytes;
        self.queued += bytes;
        statistics.out_messages.store(self.messages, Ordering::Relaxed);
        statistics.out_bytes.store(self.bytes, Ordering::Relaxed);
    }

    pub fn put_frame(&mut self, frame: &Frame<'_>, statistics: &Statistics) {
        let before = self.buffer.len();
        self.buffer.put(|out| frame.write(out));
        self.count_message(before, statistics);
    }

    /// What was to be written on a link that is gone.
    pub fn forget(&mut self) {
        (self.connected, self.renew, self.told, self.writing) = (false, false, false, 0);
        self.buffer.clear();
        self.gone = self.queued;
    }
}

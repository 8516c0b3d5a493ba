//! What is on its way out.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use wire::frame_buffer::FrameBuffer;
use wire::frames::{self, PublishFrame};
use wire::nats::OutboundMessage;
use wire::nats::{Statistics, Subject};

/// Bytes that wait to be written, or one larger message: a server that stands still, or is gone, finds so much beyond
/// what the sockets hold; everything else waits where it can be taken back. Held in place by tests/survive/test_stall.py.
const MAX_BUFFERED_BYTES: usize = 256 << 10;

/// Subscriptions that are remembered until their PING is answered.
const MAX_UNCONFIRMED: usize = 4_096;

#[derive(Default)]
pub(super) struct WriteBuffer {
    pub buffer: FrameBuffer,
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
    /// Subscriptions whose PING has no answer, with the number of that PING.
    unconfirmed: VecDeque<(u64, Subject)>,
}

impl WriteBuffer {
    pub fn has_room(&self, bytes: usize) -> bool {
        let waiting = self.buffer.len() + self.writing;
        self.closed || self.connected && (waiting == 0 || waiting + bytes <= MAX_BUFFERED_BYTES)
    }

    pub fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.buffer.len();
        self.buffer.put(write);
        self.queued += (self.buffer.len() - before) as u64;
    }

    /// Puts in a subscription, and a PING behind it: an error of the server that names no subject is the subscription's if
    /// it comes between the answers to the PING before and to this one.
    pub fn put_subscription(&mut self, sid: u64, subject: &Subject, queue: Option<&str>, ping: u64) {
        self.put(|out| {
            frames::subscribe(out, sid, subject, queue);
            out.extend_from_slice(frames::PING);
        });
        if self.unconfirmed.len() == MAX_UNCONFIRMED {
            self.unconfirmed.pop_front();
        }
        self.unconfirmed.push_back((ping, subject.clone()));
    }

    /// Takes the answer to a PING.
    pub fn confirm(&mut self, ping: u64) {
        while self.unconfirmed.front().is_some_and(|(number, _)| *number <= ping) {
            self.unconfirmed.pop_front();
        }
    }

    /// The subscription that was sent between this PING and the next one.
    pub fn subscribed_after(&self, ping: u64) -> Option<Subject> {
        self.unconfirmed.front().filter(|(number, _)| *number == ping + 1).map(|(_, subject)| subject.clone())
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

    pub fn put_frame(&mut self, frame: &PublishFrame<'_>, statistics: &Statistics) {
        let before = self.buffer.len();
        self.buffer.put(|out| frame.write(out));
        self.count_message(before, statistics);
    }

    /// Takes out data that was to be written on a link that is gone. Drop it without the lock: large payloads may be
    /// memory of Python.
    #[must_use]
    pub fn take_unwritten(&mut self) -> FrameBuffer {
        (self.connected, self.renew, self.told, self.writing) = (false, false, false, 0);
        self.gone = self.queued;
        self.unconfirmed.clear();
        std::mem::take(&mut self.buffer)
    }
}

//! Write buffer of the transport.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use wire::frame_buffer::FrameBuffer;
use wire::frames::{self, PublishFrame};
use wire::nats::OutboundMessage;
use wire::nats::{Statistics, Subject};

/// Maximum bytes buffered, unless one message is larger.
///
/// A server that stalls or disconnects finds at most this much beyond the socket buffers. All other data waits in the
/// outbox and can be cancelled. tests/survive/test_stall.py tests it.
const MAX_BUFFERED_BYTES: usize = 256 << 10;

/// Maximum number of subscriptions kept until their PING is answered.
const MAX_UNCONFIRMED: usize = 4_096;

#[derive(Default)]
pub(super) struct WriteBuffer {
    pub buffer: FrameBuffer,
    /// Bytes taken from the buffer by the task and not written yet.
    pub writing: usize,
    /// Bytes ever appended, and bytes written or discarded on disconnect.
    pub queued: u64,
    pub gone: u64,
    messages: u64,
    bytes: u64,
    /// The task has been woken to write.
    pub told: bool,
    /// The link is up.
    pub connected: bool,
    /// Number of links so far.
    pub links: u64,
    /// The link is to be dropped for a reconnect.
    pub renew: bool,
    /// The connection ends once all data is written.
    pub end: bool,
    pub closed: bool,
    /// Subscriptions with the number of their unanswered PING.
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

    /// Appends a subscription and a PING. If an error that names no subject arrives between the PONG before and this
    /// one, it concerns this subscription.
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

    /// Removes the subscriptions that the answer to this PING confirms.
    pub fn confirm(&mut self, ping: u64) {
        while self.unconfirmed.front().is_some_and(|(number, _)| *number <= ping) {
            self.unconfirmed.pop_front();
        }
    }

    /// Returns the subscription sent between this PING and the next one.
    pub fn subscribed_after(&self, ping: u64) -> Option<Subject> {
        self.unconfirmed.front().filter(|(number, _)| *number == ping + 1).map(|(_, subject)| subject.clone())
    }

    pub fn put_message(&mut self, message: &OutboundMessage, statistics: &Statistics) {
        let before = self.buffer.len();
        self.buffer.put_message(message);
        self.count_message(before, statistics);
    }

    /// Counts a message. `before` is the buffer's length before it was appended.
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

    /// Takes the data of a lost link out of the buffer. Drop it outside the lock: large payloads may be Python's
    /// memory.
    #[must_use]
    pub fn take_unwritten(&mut self) -> FrameBuffer {
        (self.connected, self.renew, self.told, self.writing) = (false, false, false, 0);
        self.gone = self.queued;
        self.unconfirmed.clear();
        std::mem::take(&mut self.buffer)
    }
}

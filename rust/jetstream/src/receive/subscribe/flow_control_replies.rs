//! Flow control of push consumers (ADR-15). The server sends a window of bytes with a flow control message halfway.
//! Until the client answers it, the server sends only the second half.
//!
//! The client answers once little is left of the earlier messages. If it waited until none is left, every answer would
//! cost a round trip without messages. The buffer grows by this little, and the limits are far above it.

use std::collections::VecDeque;

use bytes::Bytes;

use super::SubscriptionLimits;
use client::Connection;
use client::outbox::Outgoing;
use client::traffic::Verb;
use wire::nats::Subject;

/// Unread messages and bytes at which flow control is answered, at most this fraction of the limits.
const UNREAD_AT_REPLY: SubscriptionLimits = SubscriptionLimits { messages: 8192, bytes: 1 << 20 };
const LIMIT_DIVISOR: usize = 8;

/// Unanswered flow control messages, and the progress of the reader.
#[derive(Default)]
pub(super) struct FlowControlReplies {
    /// Reply subjects with the total messages and bytes before them.
    asked: VecDeque<(Subject, u64, u64)>,
    messages: u64,
    bytes: u64,
    /// An answer is on its way to the connection.
    answered: bool,
}

impl FlowControlReplies {
    /// Records a flow control message behind `waiting` messages and bytes.
    pub fn asked(&mut self, conn: &Connection, subject: Subject, waiting: (usize, usize), limits: SubscriptionLimits) {
        let (messages, bytes) = (waiting.0 as u64, waiting.1 as u64);
        self.asked.push_back((subject, self.messages + messages, self.bytes + bytes));
        self.answer_due(conn, limits);
    }

    /// Records a read message.
    pub fn taken(&mut self, conn: &Connection, bytes: usize, limits: SubscriptionLimits) {
        self.messages += 1;
        self.bytes += bytes as u64;
        if !self.asked.is_empty() {
            self.answer_due(conn, limits);
        }
    }

    fn answer_due(&mut self, conn: &Connection, limits: SubscriptionLimits) {
        let part = |left: usize, limit: usize| if limit == 0 { left } else { left.min(limit / LIMIT_DIVISOR) } as u64;
        let (messages, bytes) =
            (part(UNREAD_AT_REPLY.messages, limits.messages), part(UNREAD_AT_REPLY.bytes, limits.bytes));
        while let Some((_, before, size)) = self.asked.front()
            && *before <= self.messages + messages
            && *size <= self.bytes + bytes
            && let Some((subject, ..)) = self.asked.pop_front()
        {
            answer(conn, subject);
            self.answered = true;
        }
    }

    /// Returns whether an answer was sent since the last call.
    pub fn take_answered(&mut self) -> bool {
        std::mem::take(&mut self.answered)
    }
}

/// Answers a flow control message.
pub(super) fn answer(conn: &Connection, subject: Subject) {
    let message = Outgoing { subject, reply: None, headers: None, payload: Bytes::new() };
    conn.outbox.push(message, Verb::Subscribe);
}

//! Flow control of push consumers (ADR-15): the server sends so many bytes, and a question half way; until that is answered
//! it sends no more than the other half.
//!
//! It is answered once little is left of what came before it, not once nothing is: else whoever takes messages waits for
//! a round trip each time, in which nothing comes. What may wait grows by that little, and the limits are far above it.

use std::collections::VecDeque;

use bytes::Bytes;

use super::SubscriptionLimits;
use client::Connection;
use client::outbox::Outgoing;
use client::traffic::Verb;
use wire::nats::Subject;

/// What may be left of what came before; and at most this part of what may wait.
const LEFT: SubscriptionLimits = SubscriptionLimits { messages: 8192, bytes: 1 << 20 };
const PART: usize = 8;

/// The server's questions, and how far the messages before them were taken.
#[derive(Default)]
pub(super) struct FlowControl {
    /// Each with the messages and bytes that had come before it, of all.
    asked: VecDeque<(Subject, u64, u64)>,
    messages: u64,
    bytes: u64,
    /// An answer is on its way to the connection.
    answered: bool,
}

impl FlowControl {
    /// The server asks, and so much waits.
    pub fn asked(&mut self, conn: &Connection, subject: Subject, waiting: (usize, usize), limits: SubscriptionLimits) {
        let (messages, bytes) = (waiting.0 as u64, waiting.1 as u64);
        self.asked.push_back((subject, self.messages + messages, self.bytes + bytes));
        self.answer_due(conn, limits);
    }

    /// A message was taken.
    pub fn taken(&mut self, conn: &Connection, bytes: usize, limits: SubscriptionLimits) {
        self.messages += 1;
        self.bytes += bytes as u64;
        if !self.asked.is_empty() {
            self.answer_due(conn, limits);
        }
    }

    fn answer_due(&mut self, conn: &Connection, limits: SubscriptionLimits) {
        let part = |left: usize, limit: usize| if limit == 0 { left } else { left.min(limit / PART) } as u64;
        let (messages, bytes) = (part(LEFT.messages, limits.messages), part(LEFT.bytes, limits.bytes));
        while let Some((_, before, size)) = self.asked.front()
            && *before <= self.messages + messages
            && *size <= self.bytes + bytes
            && let Some((subject, ..)) = self.asked.pop_front()
        {
            answer(conn, subject);
            self.answered = true;
        }
    }

    /// Whether something was answered since this was asked last.
    pub fn take_answered(&mut self) -> bool {
        std::mem::take(&mut self.answered)
    }
}

/// Answers a question.
pub(super) fn answer(conn: &Connection, subject: Subject) {
    let message = Outgoing { subject, reply: None, headers: None, payload: Bytes::new() };
    conn.outbox.push(message, Verb::Subscribe);
}

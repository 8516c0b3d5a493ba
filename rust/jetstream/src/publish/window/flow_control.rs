//! Flow control of published messages: how much may be without an answer.
//!
//! No I/O and no clock of its own. The words are those of BBR (IETF draft-ietf-ccwg-bbr): in flight, delivery rate,
//! minimum round-trip time, application-limited.

use std::time::Duration;

use tokio::time::Instant;

use crate::publish::ack_tracker::{AckTracker, InFlightMessage};
use client::congestion::queue_limit::QueueLimit;
use client::congestion::{AGGREGATION_ALLOWANCE, Congestion};
use client::path_estimate::PathEstimate;

/// Chooses the window. Messages are named by their position in publish order.
pub trait Controller: Send {
    /// A message is handed to the socket; `in_flight` are the bytes before it.
    fn on_sent(&mut self, place: u64, in_flight: usize, now: Instant);
    /// A message has its answer.
    fn on_answer(&mut self, place: u64, now: Instant, path: &PathEstimate, breaks: u64);
    /// A message waits for room, so the sender is not application-limited.
    fn on_full(&mut self, in_flight: usize, mean_message: usize);
    /// Bytes that do not count any more, because later messages have their answers.
    fn set_overtaken(&mut self, bytes: usize);
    /// A stream's queue is full; `in_flight` messages are still without an answer.
    fn on_busy(&mut self, in_flight: usize, now: Instant);
    /// The link broke: its measurements do not hold for the next one.
    fn on_disconnect(&mut self);
    /// Bytes that may be in flight.
    fn window(&self) -> usize;
    /// Messages that may be in flight, whatever their size.
    fn max_messages(&self) -> usize;
    /// The time after which an answer is overdue; `None` if the controller measures nothing.
    fn overdue(&self, path: &PathEstimate, breaks: u64) -> Option<Duration>;
}

impl Controller for Congestion {
    fn on_sent(&mut self, place: u64, in_flight: usize, now: Instant) {
        self.sent(place, in_flight, now);
    }

    fn on_answer(&mut self, place: u64, now: Instant, path: &PathEstimate, breaks: u64) {
        self.answered(place, now, path, breaks);
    }

    fn on_full(&mut self, in_flight: usize, mean_message: usize) {
        self.is_full(in_flight, mean_message);
    }

    fn set_overtaken(&mut self, bytes: usize) {
        Congestion::set_overtaken(self, bytes);
    }

    fn on_busy(&mut self, in_flight: usize, now: Instant) {
        self.refused(in_flight, now);
    }

    fn on_disconnect(&mut self) {
        self.restart();
    }

    fn window(&self) -> usize {
        Congestion::window(self)
    }

    fn max_messages(&self) -> usize {
        self.most_messages()
    }

    fn overdue(&self, path: &PathEstimate, breaks: u64) -> Option<Duration> {
        Some(Congestion::overdue(self, path, breaks))
    }
}

/// A window that the caller chose (`max_inflight`).
pub struct FixedWindow {
    pub max_bytes: usize,
    pub messages: QueueLimit,
}

impl Controller for FixedWindow {
    fn on_sent(&mut self, _place: u64, _in_flight: usize, _now: Instant) {}

    fn on_answer(&mut self, _place: u64, now: Instant, _path: &PathEstimate, _breaks: u64) {
        self.messages.answered(now);
    }

    fn on_full(&mut self, _in_flight: usize, _mean_message: usize) {}

    fn set_overtaken(&mut self, _bytes: usize) {}

    fn on_busy(&mut self, in_flight: usize, now: Instant) {
        self.messages.refused(in_flight, now);
    }

    fn on_disconnect(&mut self) {}

    fn window(&self) -> usize {
        self.max_bytes
    }

    fn max_messages(&self) -> usize {
        self.messages.messages()
    }

    fn overdue(&self, _path: &PathEstimate, _breaks: u64) -> Option<Duration> {
        None
    }
}

/// The window of a publish loop, and the messages that do not count against it.
pub struct FlowControl {
    controller: Box<dyn Controller>,
    /// When the newest of the answered messages was sent.
    last_answered: Option<Instant>,
    /// Messages sent before this time are marked as overtaken.
    overtaken_before: Instant,
}

impl FlowControl {
    pub fn new(controller: Box<dyn Controller>, now: Instant) -> Self {
        FlowControl { controller, last_answered: None, overtaken_before: now }
    }

    pub fn on_sent(&mut self, place: u64, in_flight: usize, now: Instant) {
        self.controller.on_sent(place, in_flight, now);
    }

    pub fn on_answer(&mut self, sent: &InFlightMessage, now: Instant, path: &PathEstimate, breaks: u64) {
        self.last_answered = self.last_answered.max(sent.sent_at);
        self.controller.on_answer(sent.place, now, path, breaks);
    }

    /// A message waits because these messages and bytes are in flight.
    pub fn on_full(&mut self, messages: usize, bytes: usize) {
        self.controller.on_full(bytes, bytes / messages.max(1));
    }

    pub fn on_busy(&mut self, in_flight: usize, now: Instant) {
        self.controller.on_busy(in_flight, now);
    }

    pub fn on_disconnect(&mut self) {
        self.controller.on_disconnect();
    }

    /// True if a message of this size fits beside those in flight. A message larger than the window is sent alone.
    pub fn has_room(&self, messages: usize, bytes: usize, message: usize) -> bool {
        bytes == 0
            || bytes.saturating_add(message) <= self.controller.window() && messages < self.controller.max_messages()
    }

    pub fn overdue(&self, path: &PathEstimate, breaks: u64) -> Option<Duration> {
        self.controller.overdue(path, breaks)
    }

    /// Marks messages as overtaken, at most once per `AGGREGATION_ALLOWANCE`: messages sent much later have their
    /// answers, so their stream does not answer.
    pub fn note_overtaken(&mut self, tracker: &mut AckTracker, path: &PathEstimate, breaks: u64) {
        let (Some(overdue), Some(answered)) = (self.controller.overdue(path, breaks), self.last_answered) else {
            return;
        };
        let before = answered.checked_sub(overdue);
        if let Some(before) = before.filter(|before| *before >= self.overtaken_before + AGGREGATION_ALLOWANCE) {
            self.overtaken_before = before;
            tracker.mark_overtaken(before);
            self.controller.set_overtaken(tracker.overtaken_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_larger_than_the_window_is_sent_alone() {
        let flow = FlowControl::new(
            Box::new(FixedWindow { max_bytes: 100, messages: QueueLimit::new(1_000) }),
            Instant::now(),
        );
        assert!(flow.has_room(0, 0, 5_000));
        assert!(flow.has_room(9, 90, 10));
        assert!(!flow.has_room(9, 90, 11));
        assert!(!flow.has_room(1, 1, usize::MAX));
    }

    #[test]
    fn a_measured_window_limits_messages_as_well() {
        let path = PathEstimate::default();
        let congestion = Congestion::new(&path, 0, 1 << 20, std::sync::Arc::default());
        let most = congestion.most_messages();
        let flow = FlowControl::new(Box::new(congestion), Instant::now());
        assert!(flow.has_room(most - 1, 1, 1));
        assert!(!flow.has_room(most, 1, 1));
    }
}

//! Capacity for one more message in flight.
//!
//! The window bounds the data that queues on the path to the server. A stream that does not answer would fill it until
//! its messages time out, and all other streams would wait. So overtaken messages do not count: later ones have their
//! answers. Messages that a caller awaits, and all before them, are sent regardless of the window.

use std::time::Duration;

use futures_util::Stream;
use tokio::time::Instant;

use super::{PublishLoop, ResultSink, RowToPublish};
use crate::publish::ack_tracker::InFlightMessage;
use base::error::Result;

/// Silence after which a publisher sends everything it holds: answers of other streams may depend on it.
const QUIET_TIME: Duration = Duration::from_millis(50);

impl<F: Stream<Item = Result<RowToPublish>> + Send + Unpin, O: ResultSink> PublishLoop<'_, F, O> {
    /// Messages and bytes that count. For a fresh message of a batch, those that no stream received count too.
    pub(super) fn on_the_way(&self, fresh: bool) -> (usize, usize) {
        let (messages, bytes) = self.tracker.moving();
        match fresh && self.window.is_batch {
            true => (messages + self.no_responders.len(), bytes + self.no_responders.bytes()),
            false => (messages, bytes),
        }
    }

    /// True if the message must wait for answers to others.
    pub(super) fn has_no_room(&self, sent: &InFlightMessage, fresh: bool) -> bool {
        let (messages, bytes) = self.on_the_way(fresh);
        let full = !self.flow.has_room(messages, bytes, sent.bytes);
        // An awaited message may be queued behind it.
        full && !sent.body.is_awaited() && !self.again.iter().any(|sent| sent.body.is_awaited())
    }

    /// True if messages are sent regardless of the window.
    pub(super) fn may_exceed(&self) -> bool {
        self.window.urgent.is_any() || self.quiet_from().is_some_and(|at| at <= self.now)
    }

    /// The time at which a publisher sends everything it holds, unless an answer arrives before.
    pub(super) fn quiet_from(&self) -> Option<Instant> {
        let overdue = self.flow.overdue(&self.conn.path, self.link.breaks).filter(|_| !self.window.is_batch)?;
        Some(self.last_answer + QUIET_TIME.max(4 * overdue))
    }
}

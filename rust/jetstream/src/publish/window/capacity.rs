//! Room for one more message: in flight, and beside what does not move.
//!
//! The window bounds what queues on the way to the server. A stream that does not answer would keep it full until its
//! messages time out, and all other streams would wait. So messages do not count once later ones were answered, and what
//! somebody waits for, and all before it, is sent whatever the window says.

use std::time::Duration;

use futures_util::Stream;
use tokio::time::Instant;

use super::{PublishLoop, ResultSink, RowToPublish};
use crate::publish::ack_tracker::InFlightMessage;
use base::error::Result;

/// With no answer at all for as long, a publisher sends what it holds: answers of other streams may be behind it.
const QUIET: Duration = Duration::from_millis(50);

impl<F: Stream<Item = Result<RowToPublish>> + Send + Unpin, O: ResultSink> PublishLoop<'_, F, O> {
    /// Messages that count, and their bytes; for a fresh message those of one call that met no stream count too.
    pub(super) fn on_the_way(&self, fresh: bool) -> (usize, usize) {
        let (messages, bytes) = self.tracker.moving();
        match fresh && self.window.is_batch {
            true => (messages + self.no_responders.len(), bytes + self.no_responders.bytes()),
            false => (messages, bytes),
        }
    }

    /// True where the message has to wait for answers to others.
    pub(super) fn has_no_room(&self, sent: &InFlightMessage, fresh: bool) -> bool {
        let (messages, bytes) = self.on_the_way(fresh);
        let full = !self.flow.has_room(messages, bytes, sent.bytes);
        // Others may be awaited behind it.
        full && !sent.body.is_awaited() && !self.again.iter().any(|sent| sent.body.is_awaited())
    }

    /// True where messages are sent whatever the window says.
    pub(super) fn may_exceed(&self) -> bool {
        self.window.urgent.is_any() || self.quiet_from().is_some_and(|at| at <= self.now)
    }

    /// When a publisher sends what it holds if there is no answer until then.
    pub(super) fn quiet_from(&self) -> Option<Instant> {
        let overdue = self.flow.overdue(&self.conn.path, self.link.breaks).filter(|_| !self.window.is_batch)?;
        Some(self.last_answer + QUIET.max(4 * overdue))
    }
}

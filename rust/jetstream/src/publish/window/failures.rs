//! Failures in the publish loop: disconnects, silence of the server, expired messages, refused permissions.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt};
use tokio::time::Instant;

use super::{PublishLoop, ResultSink, RowToPublish, TICK_INTERVAL};
use crate::publish::ack_tracker::InFlightMessage;
use crate::publish::no_responders::RETRY_INTERVAL;
use base::error::{JetError, Result};

pub fn silence(after: Duration) -> JetError {
    JetError::Timeout { what: "the publish (the server has been silent)".to_owned(), after }
}

/// Fails the messages whose deadline has passed.
pub fn expire(waiting: &mut VecDeque<InFlightMessage>, results: &mut impl ResultSink, now: Instant, timeout: Duration) {
    if waiting.iter().any(|sent| sent.is_late(now)) {
        let (late, rest) = waiting.drain(..).partition::<Vec<_>, _>(|sent| sent.is_late(now));
        *waiting = rest.into();
        late.iter().for_each(|sent| fail_late(sent, results, timeout));
    }
}

/// The error of a message without an answer when the loop gives up. After a silence its text distinguishes messages
/// that were sent, which may be stored, from those that were not.
pub fn ended_by(sent: &InFlightMessage, cause: &JetError) -> JetError {
    match cause {
        JetError::Timeout { after, .. } => {
            let subject = sent.body.subject().to_string();
            JetError::Unanswered { verb: "publish", subject, after: *after, sent: sent.first.is_some() }
        }
        other if sent.first.is_some() => other.clone().of_sent(sent.about()),
        other => other.clone(),
    }
}

/// The error of a message that no stream received. After three attempts a lookup found a stream for its subject.
fn nobody_took(sent: &InFlightMessage, after: Duration) -> JetError {
    let subject = sent.body.subject().to_string();
    if sent.tries > 1 { JetError::NoLeader { subject, after } } else { JetError::NoStream { subject } }
}

/// Fails an expired message. `first` is `None` if no attempt was written to the socket.
fn fail_late(sent: &InFlightMessage, results: &mut impl ResultSink, timeout: Duration) {
    let after = sent.body.timeout().unwrap_or(timeout);
    let subject = sent.body.subject().to_string();
    let err = if sent.tries > 0 && sent.first.is_none() {
        // Every attempt was answered with 503 No Responders, and there is no time for another.
        nobody_took(sent, after)
    } else if sent.busy && sent.first.is_none() {
        JetError::stream_busy()
    } else if sent.ambiguous {
        JetError::Ambiguous { what: sent.about() }
    } else {
        JetError::Unanswered { verb: "publish", subject, after, sent: sent.first.is_some() }
    };
    results.failed(sent.row, err);
}

impl<F: Stream<Item = Result<RowToPublish>> + Send + Unpin, O: ResultSink> PublishLoop<'_, F, O> {
    /// Waits until earlier core messages are written. A timer is set only if they are not written yet.
    pub(super) async fn wait_for_others(&mut self) {
        // Core messages may wait behind a publisher, never behind the rows of one call.
        let others = || match self.window.is_batch {
            true => self.conn.in_order().left_future(),
            false => self.conn.in_order_of_publisher().right_future(),
        };
        self.order.is_first = match others().now_or_never() {
            Some(()) => true,
            None => tokio::time::timeout(TICK_INTERVAL, others()).await.is_ok(),
        };
    }

    pub(super) fn check_time_and_link(&mut self) {
        self.now = Instant::now();
        let link = *self.conn.link.borrow();
        if link.closed {
            return self.connection_ended();
        }
        if link.refusals != self.link.refused {
            self.link.refused = link.refusals;
            self.end_refused();
        }
        let broke = link.breaks != self.link.breaks;
        if broke {
            self.link.breaks = link.breaks;
            self.link_broke();
        }
        // Earlier messages in the outbox count as silence once they do not move.
        let taken = self.conn.outbox.taken();
        let moved = std::mem::replace(&mut self.order.written, taken) != taken || self.order.is_first;
        if self.tracker.is_empty() && self.again.is_empty() && moved {
            self.last_answer = self.now;
        }
        self.link.down_since = if link.up { None } else { self.link.down_since.or(Some(self.now)) };
        let down = self.link.down_since.is_some_and(|since| self.now.duration_since(since) > self.window.timeout);
        if down || self.silent() {
            return self.give_up(silence(self.window.timeout));
        }
        self.expire();
        self.retry_no_responders();
        self.look_for_leader();
    }

    /// Queues messages again, before the rest of the feed and in publish order.
    pub(super) fn send_again(&mut self, sent: impl IntoIterator<Item = InFlightMessage>) {
        let before = self.again.len();
        self.again.extend(sent);
        if self.again.len() > before {
            self.again.make_contiguous().sort_unstable_by_key(|sent| sent.place);
        }
    }

    /// True if a batch must end because the server is silent. Messages of a publisher have a timeout each.
    pub(super) fn silent(&self) -> bool {
        self.window.is_batch && self.now.duration_since(self.last_answer) >= self.window.timeout
    }

    pub(super) fn expire(&mut self) {
        if self.unwritten.as_ref().is_some_and(|unwritten| self.tracker.is_late(unwritten.token, self.now))
            && let Some(sent) = self.withdraw_unwritten()
        {
            fail_late(&sent, &mut self.results, self.window.timeout);
        }
        for sent in self.tracker.on_deadline(self.now) {
            fail_late(&sent, &mut self.results, self.window.timeout);
        }
        for sent in self.no_responders.expire(self.now) {
            fail_late(&sent, &mut self.results, self.window.timeout);
        }
        expire(&mut self.again, &mut self.results, self.now, self.window.timeout);
    }

    /// The error of a message that is not sent again after 503 No Responders.
    pub(super) fn no_responders_error(&self, sent: &InFlightMessage) -> JetError {
        if sent.first.is_some() {
            // An earlier attempt had no answer.
            return JetError::Ambiguous { what: sent.about() };
        }
        match sent.deadline.is_some_and(|deadline| deadline <= self.now + RETRY_INTERVAL) {
            true => nobody_took(sent, sent.body.timeout().unwrap_or(self.window.timeout)),
            false => JetError::NoStream { subject: sent.body.subject().to_string() },
        }
    }

    /// Fails messages whose subject the server refused, or all if it refused the ack inbox: none of them gets an ack.
    fn end_refused(&mut self) {
        let refused = self.link.refusals.take_all();
        let inbox = format!("{}*", String::from_utf8_lossy(&self.ack_inbox.prefix));
        if let Some(cause) = refused.subscription(&inbox) {
            self.link.ack_inbox_error = Some(cause.clone());
            return self.give_up(cause.clone());
        }
        if refused.is_empty() {
            return;
        }
        let cause = |sent: &InFlightMessage| refused.publish(sent.body.subject().as_str()).cloned();
        for sent in self.tracker.take_matching(|sent| cause(sent).is_some()) {
            if let Some(cause) = cause(&sent) {
                self.results.failed(sent.row, cause);
            }
        }
    }

    /// Handles a disconnect: messages in flight may be lost. Those that the server recognises are resent, others fail.
    fn link_broke(&mut self) {
        self.link.ack_inbox_error = None;
        (self.duplicates.lookup, self.probes.leader) = (None, None);
        self.flow.on_disconnect();
        let unsent = self.withdraw_unwritten();
        self.send_again(unsent);
        let mut resent = Vec::new();
        for sent in self.tracker.on_disconnect() {
            if self.window.resend.unwrap_or_else(|| sent.body.has_id()) {
                resent.push(sent);
            } else {
                self.results.failed(sent.row, JetError::Unconfirmed { what: sent.about() });
            }
        }
        self.send_again(resent);
    }

    /// Requests the stream's duplicate window before anything is resent.
    pub(super) fn ask_for_window(&mut self) {
        let resends = self.window.resend.is_none() && self.terminal_error.is_none();
        if !resends || self.duplicates.windows.known().is_some() || self.duplicates.lookup.is_some() {
            return;
        }
        let Some(sent) = self.again.iter().find(|sent| sent.first.is_some()) else { return };
        if self.is_up() {
            if let Some(stream) = sent.body.expected_stream() {
                self.duplicates.windows.note(stream);
            }
            let (prefix, subject) = (self.window.prefix.clone(), sent.body.subject().to_string());
            self.duplicates.lookup = Some(self.duplicates.windows.ask(self.conn, prefix, subject).boxed());
        }
    }

    /// The duplicate window, if the server may have stored the message and forgotten its id since.
    pub(super) fn forgotten(&self, sent: &InFlightMessage) -> Option<Duration> {
        let first = sent.first.filter(|_| self.window.resend.is_none())?;
        self.duplicates.windows.known().filter(|known| first.elapsed() >= *known)
    }

    /// Fails every message without an answer with this error, including queued ones.
    pub(super) fn give_up(&mut self, cause: JetError) {
        (self.duplicates.lookup, self.probes.leader) = (None, None);
        let unsent = self.withdraw_unwritten();
        let no_responders = self.no_responders.take_all();
        self.send_again(unsent.into_iter().chain(no_responders));
        for sent in self.tracker.on_disconnect().into_iter().chain(std::mem::take(&mut self.again)) {
            self.results.failed(sent.row, ended_by(&sent, &cause));
        }
        if self.window.is_batch {
            self.terminal_error = Some(cause);
            return;
        }
        while let Some(Some(Ok((row, _)))) = self.feed.next().now_or_never() {
            self.results.failed(row, cause.clone());
        }
    }

    /// Ends the loop after the connection is closed. The ack subscription is not polled again, as it would stay ready
    /// for ever.
    pub(super) fn connection_ended(&mut self) {
        let cause = self.conn.closed();
        self.give_up(cause.clone());
        self.terminal_error = Some(cause);
    }
}

//! What the publish loop does when the link breaks, the server is silent, or refuses.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt};
use tokio::time::Instant;

use super::{PublishLoop, ResultSink, RowToPublish, TICK};
use crate::publish::ack_tracker::InFlightMessage;
use crate::publish::no_responders::RETRY_INTERVAL;
use base::error::{JetError, Result};

pub fn silence(after: Duration) -> JetError {
    JetError::Timeout { what: "the publish (the server has been silent)".to_owned(), after }
}

/// Ends the messages whose time is over.
pub fn expire(waiting: &mut VecDeque<InFlightMessage>, results: &mut impl ResultSink, now: Instant, timeout: Duration) {
    if waiting.iter().any(|sent| sent.is_late(now)) {
        let (late, rest) = waiting.drain(..).partition::<Vec<_>, _>(|sent| sent.is_late(now));
        *waiting = rest.into();
        late.iter().for_each(|sent| fail_late(sent, sent.first.is_some(), results, timeout));
    }
}

/// The error of a message that has no answer when all is given up: after a silence it says whether it was sent, and may be
/// stored, or may still be.
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

/// Of what nobody took: once it was sent three times it was asked for, and a stream takes it.
fn nobody_took(sent: &InFlightMessage, after: Duration) -> JetError {
    let subject = sent.body.subject().to_string();
    if sent.tries > 1 { JetError::NoLeader { subject, after } } else { JetError::NoStream { subject } }
}

/// `written` is false where the message never was, and never will be.
fn fail_late(sent: &InFlightMessage, written: bool, results: &mut impl ResultSink, timeout: Duration) {
    let after = sent.body.timeout().unwrap_or(timeout);
    let subject = sent.body.subject().to_string();
    let err = if sent.tries > 0 && sent.first.is_none() {
        // Every attempt was answered with 503 No Responders, and there is no time for another.
        nobody_took(sent, after)
    } else if sent.ambiguous {
        JetError::Ambiguous { what: sent.about() }
    } else {
        JetError::Unanswered { verb: "publish", subject, after, sent: written }
    };
    results.failed(sent.row, err);
}

impl<F: Stream<Item = Result<RowToPublish>> + Send + Unpin, O: ResultSink> PublishLoop<'_, F, O> {
    /// What was published before goes first; a timer only where it has not gone already.
    pub(super) async fn wait_for_others(&mut self) {
        // Others may wait for a loop that is fed message by message, and never for one call's rows.
        let others = || match self.window.is_batch {
            true => self.conn.in_order().left_future(),
            false => self.conn.in_order_of_publisher().right_future(),
        };
        self.order.is_first = match others().now_or_never() {
            Some(()) => true,
            None => tokio::time::timeout(TICK, others()).await.is_ok(),
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
        // What goes before ours counts as silence too, once it does not move.
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

    /// Messages that were published before all that is still in the feed.
    pub(super) fn send_again(&mut self, sent: impl IntoIterator<Item = InFlightMessage>) {
        let before = self.again.len();
        self.again.extend(sent);
        if self.again.len() > before {
            self.again.make_contiguous().sort_unstable_by_key(|sent| sent.place);
        }
    }

    /// One call ends when nothing at all is answered; messages that came alone have each their own time.
    pub(super) fn silent(&self) -> bool {
        self.window.is_batch && self.now.duration_since(self.last_answer) >= self.window.timeout
    }

    pub(super) fn expire(&mut self) {
        let handing = self.handing.filter(|token| self.tracker.is_late(*token, self.now));
        if let Some(sent) = handing.and_then(|token| self.tracker.withdraw(token)) {
            fail_late(&sent, sent.tries > 0, &mut self.results, self.window.timeout);
        }
        for sent in self.tracker.on_deadline(self.now) {
            fail_late(&sent, true, &mut self.results, self.window.timeout);
        }
        for sent in self.no_responders.expire(self.now) {
            fail_late(&sent, sent.first.is_some(), &mut self.results, self.window.timeout);
        }
        expire(&mut self.again, &mut self.results, self.now, self.window.timeout);
    }

    /// Why a message that nobody took is not sent again.
    pub(super) fn no_responders_error(&self, sent: &InFlightMessage) -> JetError {
        if sent.first.is_some() {
            // An earlier attempt had no answer at all.
            return JetError::Ambiguous { what: sent.about() };
        }
        match sent.deadline.is_some_and(|deadline| deadline <= self.now + RETRY_INTERVAL) {
            true => nobody_took(sent, sent.body.timeout().unwrap_or(self.window.timeout)),
            false => JetError::NoStream { subject: sent.body.subject().to_string() },
        }
    }

    /// Messages without permission get no ack, and neither does any where the acks are not let through.
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

    /// What was in flight may be lost: messages that the server recognises go again, the others end here and now.
    fn link_broke(&mut self) {
        self.link.ack_inbox_error = None;
        (self.duplicates.lookup, self.probes.leader) = (None, None);
        self.flow.on_disconnect();
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

    /// Before anything is sent again: for how long the stream knows its ids.
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

    /// The stream's duplicate window, where the server may have the message and may no longer know that it has.
    pub(super) fn forgotten(&self, sent: &InFlightMessage) -> Option<Duration> {
        let first = sent.first.filter(|_| self.window.resend.is_none())?;
        self.duplicates.windows.known().filter(|known| first.elapsed() >= *known)
    }

    /// Every message that has no answer gets this one, also those that are at hand and not sent yet.
    pub(super) fn give_up(&mut self, cause: JetError) {
        (self.duplicates.lookup, self.probes.leader) = (None, None);
        let no_responders = self.no_responders.take_all();
        self.send_again(no_responders);
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

    /// No message has an answer any more, and none that is still to come will be sent: whatever the reason is called. The
    /// subscription to the acks has ended, and is not looked at again: it would be ready for ever.
    pub(super) fn connection_ended(&mut self) {
        let cause = self.conn.closed();
        self.give_up(cause.clone());
        self.terminal_error = Some(cause);
    }
}

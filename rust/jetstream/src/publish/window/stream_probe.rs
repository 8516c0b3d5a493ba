//! What the publish loop does while a stream's leader is away and the link is not: it asks whether there is a stream at
//! all, and sends again what the old leader may have taken along.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream};
use tokio::time::{Instant, timeout};

use super::{PublishLoop, ResultSink, RowToPublish};
use crate::api::Api;
use crate::publish::ack_tracker::InFlightMessage;
use crate::publish::no_responders::StreamLookup;
use base::error::Result;

/// Subjects that are asked for at a time.
const MAX_PROBES: usize = 32;
/// After this time without any answer (a third of a shorter timeout) it is looked whether the stream has a leader; and
/// how long its answer may take.
const PROBE_AFTER_SILENCE: Duration = Duration::from_secs(3);
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// The questions that are under way.
pub struct StreamProbes<'a> {
    pub subjects: FuturesUnordered<BoxFuture<'a, (String, StreamLookup)>>,
    /// Has the stream a leader? And since when is asked.
    pub leader: Option<BoxFuture<'a, bool>>,
    begun: Instant,
    /// Doubles, so that a slow server is not drowned.
    wait: Duration,
}

impl StreamProbes<'_> {
    pub fn new(within: Duration, now: Instant) -> Self {
        let wait = PROBE_AFTER_SILENCE.min(within / 3);
        StreamProbes { subjects: FuturesUnordered::new(), leader: None, begun: now, wait }
    }
}

impl<F: Stream<Item = Result<RowToPublish>> + Send + Unpin, O: ResultSink> PublishLoop<'_, F, O> {
    /// Asks for the subjects that nobody took twice.
    pub(super) fn ask_for_streams(&mut self) {
        while self.probes.subjects.len() < MAX_PROBES
            && !self.no_responders.is_empty()
            && let Some(subject) = self.no_responders.question()
        {
            let (conn, prefix) = (self.conn, self.window.prefix.clone());
            let ask = async move {
                let verdict = StreamLookup::ask(conn, &prefix, &subject).await;
                (subject, verdict)
            };
            self.probes.subjects.push(ask.boxed());
        }
    }

    pub(super) fn learn_stream(&mut self, subject: &str, verdict: StreamLookup) {
        self.now = Instant::now();
        let (failed, unsent) = self.no_responders.answer(subject, verdict, self.now);
        for sent in failed {
            let error = self.no_responders_error(&sent);
            self.results.failed(sent.row, error);
        }
        self.send_again(unsent);
    }

    /// Sends again what nobody took; and with it what was in flight to the same subjects: who was to answer is gone.
    pub(super) fn retry_no_responders(&mut self) {
        self.no_responders.recall(self.now, &self.tracker, &self.again);
        let due = self.no_responders.due(self.now);
        if due.is_empty() {
            return;
        }
        let subjects: HashSet<_> = due.iter().map(|sent| sent.body.subject().to_string()).collect();
        let lost = self.take_with_id(|sent| subjects.contains(sent.body.subject().as_str()));
        self.send_again(due);
        self.send_again(lost);
    }

    /// Where nothing is answered although the link is up, the leader may have gone with what it was sent.
    pub(super) fn look_for_leader(&mut self) {
        let quiet = self.now.duration_since(self.last_answer.max(self.probes.begun));
        let first = self.window.resend != Some(false) && self.terminal_error.is_none() && self.probes.leader.is_none();
        if !first || quiet < self.probes.wait || !self.conn.link.borrow().up {
            return;
        }
        let oldest = self.tracker.find(|sent| sent.body.has_id());
        let Some((stream, subject)) =
            oldest.map(|sent| (sent.body.expected_stream().map(str::to_owned), sent.body.subject().to_string()))
        else {
            return;
        };
        (self.probes.begun, self.probes.wait) = (self.now, self.probes.wait * 2);
        let (conn, prefix) = (self.conn, self.window.prefix.clone());
        let leads = async move {
            let api = Api::new(conn, &prefix);
            let stream = match stream {
                Some(stream) => stream,
                None => api.stream_of(&subject).await?,
            };
            // Its leader answers.
            api.stream_info(&stream).await
        };
        self.probes.leader = Some(async move { matches!(timeout(PROBE_INTERVAL, leads).await, Ok(Ok(_))) }.boxed());
    }

    /// The stream has a leader, and what was sent before that was asked has no answer.
    pub(super) fn learn_leader(&mut self, leads: bool) {
        self.probes.leader = None;
        let begun = self.probes.begun;
        if leads && self.last_answer < begun {
            let lost = self.take_with_id(|sent| sent.sent_at.is_some_and(|at| at < begun));
            self.send_again(lost);
        }
    }

    /// Out of what is in flight: only what the stream recognises can go twice.
    fn take_with_id(&mut self, wanted: impl Fn(&InFlightMessage) -> bool) -> Vec<InFlightMessage> {
        if self.window.resend == Some(false) {
            return Vec::new();
        }
        self.tracker.take_matching(|sent| sent.body.has_id() && wanted(sent))
    }
}

//! Probes of streams that do not answer although the link is up: does a stream exist for the subject, does it have a
//! leader? Messages that an old leader may have lost are resent.

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

/// Maximum number of stream lookups at a time.
const MAX_PROBES: usize = 32;
/// Silence after which the stream's leader is probed, or a third of a shorter timeout; and the timeout of a probe.
const PROBE_AFTER_SILENCE: Duration = Duration::from_secs(3);
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// The lookups under way.
pub struct StreamProbes<'a> {
    pub subjects: FuturesUnordered<BoxFuture<'a, (String, StreamLookup)>>,
    /// The probe of the leader, and when it began.
    pub leader: Option<BoxFuture<'a, bool>>,
    begun: Instant,
    /// Interval of probes; doubles, to spare a slow server.
    wait: Duration,
}

impl StreamProbes<'_> {
    pub fn new(within: Duration, now: Instant) -> Self {
        let wait = PROBE_AFTER_SILENCE.min(within / 3);
        StreamProbes { subjects: FuturesUnordered::new(), leader: None, begun: now, wait }
    }
}

impl<F: Stream<Item = Result<RowToPublish>> + Send + Unpin, O: ResultSink> PublishLoop<'_, F, O> {
    /// Looks up streams for subjects that were answered with 503 No Responders twice.
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

    /// Resends messages that no stream received, with those in flight to the same subjects: their leader is gone too.
    pub(super) fn retry_no_responders(&mut self) {
        self.no_responders.recall(self.now, &self.tracker, &self.again);
        let due = self.no_responders.due(self.now);
        if due.is_empty() {
            return;
        }
        // A stream that is only busy has its leader.
        let leaderless = due.iter().filter(|sent| sent.tries > 0);
        let subjects: HashSet<_> = leaderless.map(|sent| sent.body.subject().to_string()).collect();
        let lost = self.take_with_id(|sent| subjects.contains(sent.body.subject().as_str()));
        self.send_again(due);
        self.send_again(lost);
    }

    /// Probes the leader when nothing is answered although the link is up: an old leader may have lost messages.
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
            // Only the leader answers.
            api.stream_info(&stream).await
        };
        self.probes.leader = Some(async move { matches!(timeout(PROBE_INTERVAL, leads).await, Ok(Ok(_))) }.boxed());
    }

    /// Resends messages sent before the probe if the stream has a leader and none was answered.
    pub(super) fn learn_leader(&mut self, leads: bool) {
        self.probes.leader = None;
        let begun = self.probes.begun;
        if leads && self.last_answer < begun {
            let lost = self.take_with_id(|sent| sent.sent_at.is_some_and(|at| at < begun));
            self.send_again(lost);
        }
    }

    /// Removes messages in flight that the stream recognises by an id: only these may be sent twice.
    fn take_with_id(&mut self, wanted: impl Fn(&InFlightMessage) -> bool) -> Vec<InFlightMessage> {
        if self.window.resend == Some(false) {
            return Vec::new();
        }
        self.tracker.take_matching(|sent| sent.body.has_id() && wanted(sent))
    }
}

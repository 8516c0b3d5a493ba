//! What the publish loop does while a stream's leader is away and the link is not: it asks whether there is a stream at
//! all, and sends again what the old leader may have taken along.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream};
use tokio::time::{Instant, timeout};

use super::{Item, Outlet, Run};
use crate::api::Api;
use crate::publish::inflight::Sent;
use crate::publish::unheard::Verdict;
use base::error::Result;

/// Subjects that are asked for at a time.
const MOST_QUESTIONS: usize = 32;
/// After this time without any answer (a third of a shorter timeout) it is looked whether the stream has a leader; and
/// how long its answer may take.
const STALL: Duration = Duration::from_secs(3);
const ASK: Duration = Duration::from_secs(2);

/// The questions that are under way.
pub struct Asked<'a> {
    pub subjects: FuturesUnordered<BoxFuture<'a, (String, Verdict)>>,
    /// Has the stream a leader? And since when is asked.
    pub leader: Option<BoxFuture<'a, bool>>,
    begun: Instant,
    /// Doubles, so that a slow server is not drowned.
    wait: Duration,
}

impl Asked<'_> {
    pub fn new(within: Duration, now: Instant) -> Self {
        let wait = STALL.min(within / 3);
        Asked { subjects: FuturesUnordered::new(), leader: None, begun: now, wait }
    }
}

impl<F: Stream<Item = Result<Item>> + Send + Unpin, O: Outlet> Run<'_, F, O> {
    /// Asks for the subjects that nobody took twice.
    pub(super) fn ask_for_streams(&mut self) {
        while self.asked.subjects.len() < MOST_QUESTIONS
            && !self.unheard.is_empty()
            && let Some(subject) = self.unheard.question()
        {
            let (conn, prefix) = (self.conn, self.window.prefix.clone());
            let ask = async move {
                let verdict = Verdict::ask(conn, &prefix, &subject).await;
                (subject, verdict)
            };
            self.asked.subjects.push(ask.boxed());
        }
    }

    pub(super) fn learn_stream(&mut self, subject: &str, verdict: Verdict) {
        self.now = Instant::now();
        let (failed, unsent) = self.unheard.answer(subject, verdict, self.now);
        for sent in failed {
            let error = self.unheard_error(&sent);
            self.outlet.failed(sent.row, error);
        }
        self.send_again(unsent);
    }

    /// Sends again what nobody took; and with it what was in flight to the same subjects: who was to answer is gone.
    pub(super) fn send_unheard(&mut self) {
        self.unheard.recall(self.now, &self.inflight, &self.again);
        let due = self.unheard.due(self.now);
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
        let quiet = self.now.duration_since(self.last_answer.max(self.asked.begun));
        let first = self.window.resend != Some(false) && self.over.is_none() && self.asked.leader.is_none();
        if !first || quiet < self.asked.wait || !self.conn.link.borrow().up {
            return;
        }
        let oldest = self.inflight.find(|sent| sent.body.has_id());
        let Some((stream, subject)) =
            oldest.map(|sent| (sent.body.expected_stream().map(str::to_owned), sent.body.subject().to_string()))
        else {
            return;
        };
        (self.asked.begun, self.asked.wait) = (self.now, self.asked.wait * 2);
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
        self.asked.leader = Some(async move { matches!(timeout(ASK, leads).await, Ok(Ok(_))) }.boxed());
    }

    /// The stream has a leader, and what was sent before that was asked has no answer.
    pub(super) fn learn_leader(&mut self, leads: bool) {
        self.asked.leader = None;
        let begun = self.asked.begun;
        if leads && self.last_answer < begun {
            let lost = self.take_with_id(|sent| sent.sent_at.is_some_and(|at| at < begun));
            self.send_again(lost);
        }
    }

    /// Out of what is in flight: only what the stream recognises can go twice.
    fn take_with_id(&mut self, wanted: impl Fn(&Sent) -> bool) -> Vec<Sent> {
        if self.window.resend == Some(false) {
            return Vec::new();
        }
        self.inflight.take(|sent| sent.body.has_id() && wanted(sent))
    }
}

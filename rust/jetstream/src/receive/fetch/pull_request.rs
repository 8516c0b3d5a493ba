//! One request at the server, from when it is sent until nothing of it can arrive.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::receive::pull::{PullInbox, PullOptions, Status};
use base::error::Result;
use client::Connection;
use runtime::task::spawn;
use wire::message::Message;

/// Limit of one round trip, after which the link is checked.
const ROUND_TRIP_TIMEOUT: Duration = Duration::from_secs(5);
const ROUND_TRIP_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Silence after which a request that ends by itself is withdrawn.
const REQUEST_SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// Phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A call takes its messages.
    Open,
    /// Its call is over. The request takes only what is at hand, so it is left to end by itself: the server would lose
    /// messages that it is about to send.
    Ending,
    /// The inbox is unsubscribed. Messages that the server sent before arrive within a round trip.
    Withdrawn,
    /// Nothing more arrives. The inbox may still hold messages.
    Done,
}

/// The state of a request, without I/O and without a clock of its own.
#[derive(Clone, Debug)]
pub struct Progress {
    state: State,
    /// The request's number and whether it ends by itself; `None` until it is sent.
    sent: Option<(u64, bool)>,
    /// Messages that have not arrived.
    left: usize,
    bytes: usize,
    max_bytes: usize,
    /// The connection's count of breaks when it was sent.
    breaks: u64,
    /// When something arrived last, since the call was over.
    heard: Instant,
}

impl Progress {
    pub fn new(breaks: u64, now: Instant) -> Self {
        Progress { state: State::Open, sent: None, left: 0, bytes: 0, max_bytes: usize::MAX, breaks, heard: now }
    }

    /// The request is sent under this number.
    pub fn on_sent(&mut self, number: u64, options: &PullOptions) {
        self.sent = Some((number, options.no_wait));
        (self.left, self.bytes) = (options.batch, 0);
        self.max_bytes = if options.max_bytes > 0 { options.max_bytes } else { usize::MAX };
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn breaks(&self) -> u64 {
        self.breaks
    }

    /// True if this many messages of the batch have arrived as were requested.
    pub fn is_full(&self) -> bool {
        self.left == 0
    }

    /// True if exactly `max_bytes` have arrived. The server sends no status then: it does when a message is too large.
    pub fn has_all_bytes(&self) -> bool {
        self.bytes == self.max_bytes
    }

    /// True if a status names this request.
    pub fn is_own(&self, number: u64) -> bool {
        self.sent.is_some_and(|(own, _)| own == number)
    }

    /// A message of the stream arrived.
    pub fn on_message(&mut self, size: usize, now: Instant) {
        self.left = self.left.saturating_sub(1);
        self.bytes += size;
        self.heard = now;
        if self.state == State::Ending && (self.left == 0 || self.bytes >= self.max_bytes) {
            self.state = State::Done;
        }
    }

    /// The server has ended the request: `unserved` of its messages do not follow. The others may arrive after the
    /// status: a replicated consumer sends its messages after a quorum, and statuses at once.
    pub fn on_over(&mut self, unserved: Option<usize>) {
        self.left = unserved.map_or(0, |unserved| self.left.saturating_sub(unserved));
    }

    /// A status arrived whose request has this number.
    pub fn on_status(&mut self, number: u64, status: &Status, now: Instant) {
        self.heard = now;
        if self.state != State::Ending || !self.is_own(number) {
            return;
        }
        match status {
            Status::Heartbeat => return,
            Status::Over { unserved, .. } => self.on_over(*unserved),
            _ => self.left = 0,
        }
        if self.left == 0 {
            self.state = State::Done;
        }
    }

    /// The call is over. `redelivers`: the server delivers again what no call takes, so the request need not end by
    /// itself.
    pub fn on_call_over(&mut self, redelivers: bool, now: Instant) {
        if self.state != State::Open {
            return;
        }
        self.heard = now;
        let ends_by_itself = self.sent.is_some_and(|(_, no_wait)| no_wait) && !redelivers;
        self.state = match ends_by_itself {
            true if self.left == 0 || self.bytes >= self.max_bytes => State::Done,
            true => State::Ending,
            false => State::Withdrawn,
        };
    }

    /// The connection has this count of breaks: a request of an earlier link sends nothing more.
    pub fn on_link(&mut self, breaks: u64) {
        if self.state == State::Ending && breaks != self.breaks {
            self.state = State::Done;
        }
    }

    /// When a request that ends by itself is withdrawn because the server is silent.
    pub fn silent_at(&self) -> Instant {
        self.heard + REQUEST_SILENCE_TIMEOUT
    }

    /// Nothing arrived until `silent_at`.
    pub fn on_silence(&mut self) {
        if self.state == State::Ending {
            self.state = State::Withdrawn;
        }
    }

    /// A round trip is over since the request was withdrawn.
    pub fn on_round_trip(&mut self) {
        if self.state == State::Withdrawn {
            self.state = State::Done;
        }
    }
}

/// A request that owns its inbox. Dropping it unsubscribes.
pub struct PullRequest {
    pub inbox: PullInbox,
    pub progress: Progress,
    /// The server may send something for it; false if it was not sent, or refused.
    pub is_pending: bool,
    conn: Arc<Connection>,
    /// Ends a round trip after the request was withdrawn.
    round_trip: Option<JoinHandle<()>>,
}

impl PullRequest {
    /// A request that is about to be sent.
    pub fn new(inbox: PullInbox, conn: &Arc<Connection>) -> Self {
        let progress = Progress::new(conn.breaks(), Instant::now());
        PullRequest { inbox, progress, is_pending: true, conn: conn.clone(), round_trip: None }
    }

    /// Sends it.
    pub async fn send(&mut self, options: &PullOptions) -> Result<()> {
        let sent = self.inbox.request(&self.conn, options).await;
        let number = sent.inspect_err(|_| self.is_pending = false)?;
        self.progress.on_sent(number, options);
        Ok(())
    }

    /// Its call is over; see `Progress::on_call_over`.
    pub fn call_over(&mut self, redelivers: bool) {
        self.progress.on_call_over(redelivers, Instant::now());
        self.withdraw();
    }

    /// Unsubscribes if the state is `Withdrawn`.
    fn withdraw(&mut self) {
        if self.progress.state() == State::Withdrawn && self.round_trip.is_none() {
            self.inbox.messages.withdraw();
            self.round_trip = spawn(round_trip(self.conn.clone(), self.progress.breaks()), |_| ()).ok();
            if self.round_trip.is_none() {
                self.progress.on_round_trip();
            }
        }
    }

    /// The next message after the call is over; `None` when nothing more arrives.
    pub async fn next(&mut self) -> Option<Message> {
        loop {
            self.progress.on_link(self.conn.breaks());
            self.withdraw();
            let message = match self.progress.state() {
                State::Open => {
                    self.call_over(true);
                    continue;
                }
                State::Ending => {
                    let Ok(message) = timeout_at(self.progress.silent_at(), self.inbox.messages.next()).await else {
                        self.progress.on_silence();
                        continue;
                    };
                    message?
                }
                State::Withdrawn => tokio::select! {
                    biased;
                    message = self.inbox.messages.next() => message?,
                    () = over(&mut self.round_trip) => {
                        self.progress.on_round_trip();
                        continue;
                    }
                },
                State::Done => self.inbox.messages.next().now_or_never().flatten()?,
            };
            match self.inbox.status(&message) {
                None => {
                    self.progress.on_message(message.size(), Instant::now());
                    return Some(message);
                }
                Some((number, status)) => self.progress.on_status(number, &status, Instant::now()),
            }
        }
    }
}

async fn over(round_trip: &mut Option<JoinHandle<()>>) {
    if let Some(round_trip) = round_trip {
        let _panicked = round_trip.await;
    }
}

/// Returns when nothing can arrive any more of what the server had sent: a round trip later, or when the link broke.
async fn round_trip(conn: Arc<Connection>, breaks: u64) {
    while conn.breaks() == breaks && !conn.link.borrow().closed {
        if conn.round_trip(ROUND_TRIP_TIMEOUT).await.is_ok() {
            return;
        }
        tokio::time::sleep(ROUND_TRIP_RETRY_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVER: Status = Status::Over { unserved: None, too_large: false };

    fn sent(batch: usize, max_bytes: usize, no_wait: bool) -> (Progress, Instant) {
        let now = Instant::now();
        let mut progress = Progress::new(3, now);
        progress.on_sent(7, &PullOptions { batch, max_bytes, no_wait, ..PullOptions::default() });
        (progress, now)
    }

    #[test]
    fn a_request_that_waits_is_withdrawn_when_its_call_is_over() {
        let (mut progress, now) = sent(5, 0, false);
        progress.on_message(1, now);
        progress.on_call_over(false, now);
        assert_eq!(progress.state(), State::Withdrawn);
        progress.on_status(7, &OVER, now);
        progress.on_silence();
        assert_eq!(progress.state(), State::Withdrawn);
        progress.on_round_trip();
        assert_eq!(progress.state(), State::Done);
    }

    #[test]
    fn a_request_that_may_not_be_sent_is_withdrawn_when_its_call_is_over() {
        let now = Instant::now();
        let mut progress = Progress::new(0, now);
        progress.on_call_over(false, now);
        assert_eq!(progress.state(), State::Withdrawn);
    }

    #[test]
    fn a_request_for_messages_at_hand_ends_by_itself_only_if_the_server_redelivers_nothing() {
        for (redelivers, state) in [(true, State::Withdrawn), (false, State::Ending)] {
            let (mut progress, now) = sent(5, 0, true);
            progress.on_call_over(redelivers, now);
            assert_eq!(progress.state(), state);
        }
    }

    #[test]
    fn a_request_that_ends_by_itself_is_done_after_its_last_message_or_its_own_status() {
        let ending = |batch, max_bytes| {
            let (mut progress, now) = sent(batch, max_bytes, true);
            progress.on_call_over(false, now);
            (progress, now)
        };
        let (mut messages, now) = ending(2, 0);
        messages.on_message(9, now);
        assert_eq!(messages.state(), State::Ending);
        messages.on_message(9, now);
        assert_eq!(messages.state(), State::Done);
        let (mut bytes, now) = ending(2, 9);
        bytes.on_message(9, now);
        assert_eq!(bytes.state(), State::Done);
        let (mut status, now) = ending(2, 0);
        status.on_status(6, &OVER, now);
        status.on_status(7, &Status::Heartbeat, now);
        assert_eq!(status.state(), State::Ending);
        status.on_status(7, &OVER, now);
        assert_eq!(status.state(), State::Done);
    }

    #[test]
    fn messages_that_a_status_has_overtaken_are_waited_for() {
        let over = |unserved| Status::Over { unserved: Some(unserved), too_large: false };
        let (mut open, now) = sent(5, 0, true);
        open.on_message(1, now);
        open.on_over(Some(2));
        assert!(!open.is_full());
        open.on_message(1, now);
        open.on_message(1, now);
        assert!(open.is_full());
        let (mut ending, now) = sent(5, 0, true);
        ending.on_call_over(false, now);
        ending.on_status(7, &over(4), now);
        assert_eq!(ending.state(), State::Ending);
        ending.on_message(1, now);
        assert_eq!(ending.state(), State::Done);
        let (mut none, now) = sent(5, 0, true);
        none.on_call_over(false, now);
        none.on_status(7, &over(5), now);
        assert_eq!(none.state(), State::Done);
    }

    #[test]
    fn a_request_that_ends_by_itself_is_done_when_the_link_breaks_and_withdrawn_after_a_silence() {
        let (mut progress, now) = sent(2, 0, true);
        progress.on_call_over(false, now);
        let later = now + REQUEST_SILENCE_TIMEOUT;
        progress.on_message(1, later);
        assert_eq!(progress.silent_at(), later + REQUEST_SILENCE_TIMEOUT);
        let mut silent = progress.clone();
        silent.on_silence();
        assert_eq!(silent.state(), State::Withdrawn);
        progress.on_link(3);
        assert_eq!(progress.state(), State::Ending);
        progress.on_link(4);
        assert_eq!(progress.state(), State::Done);
    }

    #[test]
    fn a_request_whose_messages_have_all_arrived_is_done_when_its_call_is_over() {
        let (mut progress, now) = sent(1, 0, true);
        progress.on_message(1, now);
        assert!(progress.is_full() && !progress.has_all_bytes());
        progress.on_call_over(false, now);
        assert_eq!(progress.state(), State::Done);
    }
}

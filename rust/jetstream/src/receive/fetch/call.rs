//! One call of fetch: its requests, and the messages that they bring.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::pull_request::PullRequest;
use super::redelivery::LateReplies;
use super::round_end::{Next, RoundEnd, next_or_end};
use super::sink::{Sink, Unclaimed, Undelivered};
use super::{FETCH_RETRY_INTERVAL, Fetch, PullSubscription, REQUEST_GRACE, heartbeat, too_large};
use crate::api::Api;
use crate::receive::batch_builder::LastRow;
use crate::receive::limits::Limit;
use crate::receive::priority::Member;
use crate::receive::pull::{PROTOCOL_LINE, PULL_BYTES, PullInbox, PullOptions, Status};
use base::error::{JetError, Loss, Result};
use base::lock::lock;
use client::Connection;
use client::traffic::Verb;
use wire::message::Message;

/// One call.
pub(super) struct FetchCall<'a, S: Sink> {
    pub sub: &'a PullSubscription,
    pub fetched: Unclaimed<S>,
    /// The inbox that the next request uses.
    pub inbox: Option<PullInbox>,
    /// The request that the server has not ended.
    pub request: Option<PullRequest>,
    /// The server has answered something.
    pub heard: bool,
    /// The last request was for fewer bytes than the call wants.
    pub reduced: bool,
    /// Messages of former requests, to be taken before anything new is requested.
    pub late: VecDeque<LateReplies>,
    pub member: Option<Member>,
}

impl<S: Sink> Drop for FetchCall<'_, S> {
    fn drop(&mut self) {
        // A call that is over has nothing left here; a cancelled one has.
        self.sub.returns.take_over(self.fetched.sink.take(), self.request.take());
        self.sub.returns.late().extend(self.late.drain(..));
    }
}

/// Most bytes of a request that waits, unless one message may have more.
const WAITING_BYTES: usize = 1 << 20;

/// Limits the bytes of a request by the connection's budget for data in transit. A request for a single message, or
/// without a limit, is unchanged. A request that waits has a limit of its own, because none of its messages is in
/// transit.
fn shared(request: PullOptions, inbox: &mut PullInbox, conn: &Connection) -> PullOptions {
    let PullOptions { batch, max_bytes, no_wait, .. } = request;
    if batch == 1 || max_bytes == 0 {
        return request;
    }
    if !no_wait {
        let most = WAITING_BYTES.max(conn.client.max_payload() + PROTOCOL_LINE);
        return PullOptions { max_bytes: max_bytes.min(most), ..request };
    }
    let share = inbox.share.insert(conn.pull_budget.share(max_bytes));
    PullOptions { max_bytes: share.bytes, ..request }
}

impl<S: Sink> FetchCall<'_, S> {
    /// Requests until the call is full, over, or has what it waits for.
    pub async fn run(&mut self, fetch: &Fetch) -> Result<()> {
        let deadline = Instant::now() + fetch.timeout;
        let mut whole_message = false;
        while self.take_late(fetch, deadline).await? {
            let before = self.size().0;
            let whole = std::mem::take(&mut whole_message);
            let Some(at_hand) = self.options_at_hand(fetch, whole) else { return Ok(()) };
            let asked = Instant::now();
            let mut end = self.round(&at_hand, deadline).await?;
            if matches!(end, RoundEnd::Full) {
                self.sub.rows.learn(self.size().0 - before, asked.elapsed());
            }
            // The server's status may have overtaken its messages.
            if matches!(end, RoundEnd::WindowFull) && !self.take_late(fetch, deadline).await? {
                return Ok(());
            }
            if let RoundEnd::Dry { too_large: false } | RoundEnd::WindowFull = end {
                let left = deadline.saturating_duration_since(Instant::now());
                let has_enough = self.size().0 >= fetch.min_messages && !left.is_zero();
                if matches!(end, RoundEnd::Dry { .. }) && has_enough && self.size().0 > before && self.expects_more() {
                    continue;
                }
                let Some(waiting) = self.options_waiting(fetch, left, at_hand.max_bytes) else { return Ok(()) };
                end = self.round(&waiting, deadline).await?;
            }
            match end {
                RoundEnd::Full | RoundEnd::WindowFull | RoundEnd::Dry { too_large: false } => {}
                RoundEnd::Dry { too_large: true } => match (fetch.max_bytes, self.size().0) {
                    (most, now) if !whole && (self.reduced || most.is_none()) => whole_message = now == before,
                    (Some(most), 0) => return Err(too_large(most)),
                    // The consumer's own limit is lower.
                    (None, 0) => return Err(too_large(lock(&self.sub.limits).bytes())),
                    _ => return Ok(()),
                },
                RoundEnd::Deadline => return self.take_late(fetch, deadline).await.map(drop),
                RoundEnd::Limited(Limit::Waiting) => {
                    sleep_until(deadline.min(Instant::now() + FETCH_RETRY_INTERVAL)).await
                }
                RoundEnd::Limited(limit) => lock(&self.sub.limits).learn(limit),
                RoundEnd::Gone(why) => self.sub.check_consumer(&why, fetch, deadline).await?,
                RoundEnd::LinkBroke => self.sub.wait_for_link(deadline).await?,
            }
            if Instant::now() >= deadline {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The request for messages at hand; `None` if the call wants no more, or the consumer gives no more.
    fn options_at_hand(&self, fetch: &Fetch, whole_message: bool) -> Option<PullOptions> {
        let (rows, bytes_left) = (self.size().0, self.bytes_left(fetch));
        if rows >= fetch.max_messages || bytes_left == 0 {
            return None;
        }
        let room = self.sub.ack_window().room(rows)?;
        let options = PullOptions { no_wait: true, ..PullOptions::default() };
        Some(match whole_message {
            // A single message over our own bound must still get through.
            true => {
                PullOptions { batch: 1, max_bytes: if fetch.max_bytes.is_some() { bytes_left } else { 0 }, ..options }
            }
            false => {
                let batch = (fetch.max_messages - rows).min(self.sub.rows.most()).min(room);
                PullOptions { batch, max_bytes: bytes_left.min(PULL_BYTES), ..options }
            }
        })
    }

    /// The request that waits for the messages that are missing; `None` if none are, or no time is left.
    fn options_waiting(&self, fetch: &Fetch, left: Duration, max_bytes: usize) -> Option<PullOptions> {
        let missing = fetch.min_messages.saturating_sub(self.size().0);
        let room = self.sub.ack_window().room(self.size().0).unwrap_or(0);
        let batch = missing.min(self.sub.rows.most()).min(room);
        (batch > 0 && !left.is_zero()).then(|| PullOptions {
            batch,
            max_bytes,
            // The server answers with 408 at its end; our deadline is a little later.
            expires: left.mul_f64(0.98).max(Duration::from_millis(1)),
            no_wait: false,
            heartbeat: heartbeat(fetch.heartbeat, left, fetch.timeout),
        })
    }

    /// Messages and bytes so far.
    pub fn size(&self) -> (usize, usize) {
        self.fetched.sink.as_ref().map_or((0, 0), |sink| (sink.rows(), sink.bytes()))
    }

    /// The last message so far.
    pub fn last(&self) -> Option<LastRow> {
        self.fetched.sink.as_ref().and_then(Sink::last)
    }

    /// True if messages were pending behind the last one. The server can report 404 although some are.
    fn expects_more(&self) -> bool {
        self.last().is_some_and(|last| last.pending > 0)
    }

    /// Bytes that the call may still receive.
    fn bytes_left(&self, fetch: &Fetch) -> usize {
        let room = self.fetched.sink.as_ref().map_or(0, Sink::room);
        fetch.max_bytes.map_or(room, |most| room.min(most.saturating_sub(self.size().1)))
    }

    /// Takes messages of former requests. Returns false if the call is full or over, so nothing new is requested.
    async fn take_late(&mut self, fetch: &Fetch, deadline: Instant) -> Result<bool> {
        while !self.late.is_empty() {
            let (rows, left) = (self.size().0, self.bytes_left(fetch));
            let Some(late) = self.late.front_mut() else { break };
            if rows >= fetch.max_messages || left == 0 {
                return Ok(false);
            }
            match timeout_at(deadline + REQUEST_GRACE, late.next()).await {
                Ok(Some(kept)) if kept.bytes() > left && (rows > 0 || fetch.max_bytes.is_some()) => {
                    late.put_back(kept);
                    return if rows > 0 { Ok(false) } else { Err(too_large(fetch.max_bytes.unwrap_or(left))) };
                }
                Ok(Some(kept)) => {
                    if !self.take_kept(kept, deadline).await? {
                        return Ok(false);
                    }
                }
                Ok(None) => drop(self.late.pop_front()),
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }
}

impl<S: Sink> FetchCall<'_, S> {
    /// Sends one request and takes its messages until it is over, or the call is: then the rest arrives late.
    async fn round(&mut self, options: &PullOptions, deadline: Instant) -> Result<RoundEnd> {
        let options = lock(&self.sub.limits).allowed(*options);
        let end = self.take_messages(&options, deadline).await;
        let is_over =
            matches!(end, Ok(RoundEnd::Full | RoundEnd::Dry { .. } | RoundEnd::Gone(_) | RoundEnd::Limited(_)))
                || matches!(end, Err(JetError::Api { .. }));
        if let Some(mut request) = self.request.take() {
            if is_over || !request.is_pending {
                request.inbox.share = None;
                self.inbox = Some(request.inbox);
            } else {
                // Withdrawn here, not later: an ack that the caller sends next may make room, and it is not for this
                // request.
                self.late.push_back(LateReplies::of_request(request, self.sub.returns.goes_back()));
            }
        }
        end
    }

    /// The inbox for the next request: that of the last one, an idle one, or a new one.
    fn next_inbox(&mut self) -> Result<PullInbox> {
        let sub = self.sub;
        let idle = self.inbox.take().or_else(|| sub.idle().pop());
        let mut inbox = match idle {
            Some(inbox) => inbox,
            None => PullInbox::new(&sub.conn, &sub.prefix, &sub.stream, &sub.consumer, Verb::Fetch)?,
        };
        inbox.member.clone_from(&self.member);
        Ok(inbox)
    }

    async fn take_messages(&mut self, options: &PullOptions, deadline: Instant) -> Result<RoundEnd> {
        let mut inbox = self.next_inbox()?;
        let conn = &self.sub.conn;
        let wanted = options.max_bytes;
        let options = &shared(*options, &mut inbox, conn);
        self.reduced = options.max_bytes < wanted;
        let FetchCall { sub, fetched: Unclaimed { sink: Some(sink), .. }, request, heard, .. } = self else {
            return Err(JetError::Internal("no sink".into()));
        };
        let request = request.insert(PullRequest::new(inbox, conn));
        let mut link = conn.link.clone();
        match timeout_at(deadline + REQUEST_GRACE, request.send(options)).await {
            Ok(sent) => sent?,
            Err(_) => return Ok(RoundEnd::Deadline),
        }
        let mut allowed_silence = sub.ack_window().allowed_silence(options);
        let mut over = None;
        while !request.progress.is_full() {
            let message = match request.inbox.messages.next().now_or_never() {
                Some(message) => message,
                None => {
                    let received = sub.receive(sink.last().map_or(0, |last| last.consumer_seq));
                    match next_or_end(sub, received, request, options, &mut link, &mut allowed_silence, deadline)
                        .await?
                    {
                        Next::Message(message) => message,
                        Next::End(end) => {
                            *heard |= matches!(end, RoundEnd::WindowFull);
                            return Ok(end);
                        }
                    }
                }
            };
            let Some(message) = message else { return Err(conn.closed()) };
            conn.traffic.received(Verb::Fetch, message.payload().len());
            let Some((number, status)) = request.inbox.status(&message) else {
                *heard = true;
                conn.state.report_malformed(&message, None);
                if sink.push(&message)? {
                    request.progress.on_message(message.size(), Instant::now());
                }
                if request.progress.has_all_bytes() {
                    // Nothing more arrives for it, and the server sends no status.
                    return Ok(RoundEnd::Dry { too_large: true });
                }
                continue;
            };
            if !request.progress.is_own(number) {
                continue;
            }
            *heard = true;
            match status {
                Status::Heartbeat => {}
                Status::Over { unserved, too_large } => {
                    request.progress.on_over(unserved);
                    over = Some(RoundEnd::Dry { too_large });
                }
                Status::Gone(why) => return Ok(RoundEnd::Gone(why)),
                Status::Limited(limit, _) => return Ok(RoundEnd::Limited(limit)),
                Status::Refused(err) => return Err(err),
            }
        }
        Ok(over.unwrap_or(RoundEnd::Full))
    }
}

impl<S: Sink> FetchCall<'_, S> {
    /// Takes a message of the first of `late`. Returns false if the deadline passed first.
    pub(super) async fn take_kept(&mut self, kept: Undelivered, deadline: Instant) -> Result<bool> {
        let message = match kept {
            Undelivered::Fresh(message) => {
                self.sub.conn.traffic.received(Verb::Fetch, message.payload().len());
                self.sub.conn.state.report_malformed(&message, None);
                message
            }
            Undelivered::Known(message) => message,
            Undelivered::Elsewhere(seq, reply) => {
                // Kept first: a call that is cancelled, or fails, leaves it to the next one.
                if let Some(late) = self.late.front_mut() {
                    late.put_back(Undelivered::Elsewhere(seq, reply.clone()));
                }
                let found = match timeout_at(deadline + REQUEST_GRACE, self.stored(seq, &reply)).await {
                    Ok(Err(err)) if !err.is_transient() => return Err(err),
                    Ok(Ok(found)) => found,
                    _ => return Ok(false),
                };
                self.late.front_mut().map(LateReplies::drop_first);
                let Some(found) = found else { return Ok(true) };
                found
            }
        };
        let Some(sink) = &mut self.fetched.sink else { return Ok(false) };
        sink.push(&message)?;
        Ok(true)
    }

    /// Reads a message from the stream whose other columns were dropped.
    async fn stored(&self, seq: u64, reply: &str) -> Result<Option<Message>> {
        let sub = self.sub;
        let headers_only = sub.returns.ways().await.is_some_and(|ways| ways.headers_only);
        let found = Api::new(&sub.conn, &sub.prefix).next_stored(&sub.stream, seq, &[]).await?;
        let Some(stored) = found.filter(|stored| stored.seq == seq) else {
            let (stream, asked, available) = (sub.stream.clone(), (seq, seq + 1), seq + 1);
            sub.conn.state.tell(JetError::DataLoss(Box::new(Loss { stream, asked, available })));
            return Ok(None);
        };
        let payload = if headers_only { &[] } else { &stored.payload[..] };
        Ok(Some(Message::new(&stored.subject, reply, &stored.headers, payload)))
    }
}

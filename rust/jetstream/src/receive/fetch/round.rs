//! One request of a fetch, and what it brings.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Ending, FetchCall, GRACE, Sink, Unclaimed};
use crate::receive::limits::Limit;
use crate::receive::pull::{PROTOCOL_LINE, PullInbox, PullRequest, Status};
use base::error::{JetError, Result};
use base::lock::lock;
use client::Connection;
use client::traffic::Verb;

/// Most bytes of a request that waits, unless one message may have more.
const WAITING_BYTES: usize = 1 << 20;

/// How a request ended.
pub(super) enum RoundEnd {
    Full,
    Dry {
        too_large: bool,
    },
    Gone(String),
    /// It was more than the consumer allows.
    Limited(Limit),
    /// The consumer gives no more before messages are acknowledged.
    WindowFull,
    LinkBroke,
    Deadline,
}

/// The request for no more than may come besides what others have asked for. One for a single message, or without a limit,
/// stays as it is; one that waits has a limit of its own, as nothing of it is on its way yet.
fn shared(request: PullRequest, inbox: &mut PullInbox, conn: &Connection) -> PullRequest {
    let PullRequest { batch, max_bytes, no_wait, .. } = request;
    if batch == 1 || max_bytes == 0 {
        return request;
    }
    if !no_wait {
        let most = WAITING_BYTES.max(conn.client.max_payload() + PROTOCOL_LINE);
        return PullRequest { max_bytes: max_bytes.min(most), ..request };
    }
    let share = inbox.share.insert(conn.pull_budget.share(max_bytes));
    PullRequest { max_bytes: share.bytes, ..request }
}

impl<S: Sink> FetchCall<'_, S> {
    /// Sends one request and takes its messages until it is over, or the call is: then the rest comes late.
    pub(super) async fn round(&mut self, request: &PullRequest, deadline: Instant) -> Result<RoundEnd> {
        let request = lock(&self.sub.limits).allowed(*request);
        let end = self.take_messages(&request, deadline).await;
        match end {
            Ok(RoundEnd::Full | RoundEnd::Dry { .. } | RoundEnd::Gone(_) | RoundEnd::Limited(_))
            | Err(JetError::Api { .. }) => self.open = false,
            _ => {
                if std::mem::take(&mut self.open)
                    && let Some(inbox) = self.inbox.take()
                {
                    // Here, not later: an ack that the caller sends next may make room, and it is not for this request.
                    // In `late` first, where nothing is lost should the call be cancelled now.
                    self.late.push_back(self.sub.returns.rest_of(inbox, self.breaks, self.at_hand));
                    if let Some(late) = self.late.back_mut() {
                        late.withdraw();
                    }
                }
            }
        }
        // What is left here is over, however it ended.
        self.inbox.iter_mut().for_each(|inbox| inbox.share = None);
        end
    }

    async fn take_messages(&mut self, request: &PullRequest, deadline: Instant) -> Result<RoundEnd> {
        let FetchCall {
            sub,
            fetched: Unclaimed { sink: Some(sink), .. },
            inbox,
            open,
            at_hand,
            breaks,
            heard,
            member,
            reduced,
            ..
        } = self
        else {
            return Err(JetError::Internal("no sink".into()));
        };
        let (conn, wanted) = (&sub.conn, request.max_bytes);
        let inbox = match inbox {
            Some(inbox) => inbox,
            None => {
                let idle = sub.idle().pop();
                inbox.insert(match idle {
                    Some(idle) => idle,
                    None => PullInbox::new(conn, &sub.prefix, &sub.stream, &sub.consumer, Verb::Fetch)?,
                })
            }
        };
        inbox.member.clone_from(member);
        let request = &shared(*request, inbox, conn);
        *reduced = request.max_bytes < wanted;
        *breaks = conn.breaks();
        let mut link = conn.link.clone();
        (*open, *at_hand) = (true, None);
        let asked = timeout_at(deadline + GRACE, inbox.request(conn, request)).await;
        let Ok(number) = asked else { return Ok(RoundEnd::Deadline) };
        let number = number.inspect_err(|_| *open = false)?;
        let (mut left, mut bytes) = (request.batch, 0);
        let most = if request.max_bytes > 0 { request.max_bytes } else { usize::MAX };
        *at_hand = request.no_wait.then_some(Ending { number, left, room: most });
        let mut patience = sub.ack_window().patience(request);
        while left > 0 {
            let message = match inbox.messages.next().now_or_never() {
                Some(message) => message,
                None => {
                    // Silence counts from here: until now there was something to take.
                    let silence_limit = if request.heartbeat.is_zero() { Duration::MAX } else { request.heartbeat * 2 };
                    let silent = Instant::now().checked_add(silence_limit).unwrap_or(deadline + GRACE);
                    let look = patience.map_or(deadline + GRACE, |patience| Instant::now() + patience);
                    tokio::select! {
                        biased;
                        message = inbox.messages.next() => message,
                        Ok(()) = link.changed() => {
                            if conn.breaks() != *breaks {
                                return Ok(RoundEnd::LinkBroke);
                            }
                            if let Some(cause) = inbox.refused() {
                                // The server has not taken the request: nothing will come of it.
                                *open = false;
                                return Err(cause);
                            }
                            continue;
                        }
                        () = sleep_until(look), if look < deadline => {
                            if sub.window_is_full(deadline).await {
                                *heard = true;
                                return Ok(RoundEnd::WindowFull);
                            }
                            patience = sub.ack_window().patience(request);
                            continue;
                        }
                        () = sleep_until(silent.min(deadline + GRACE)) => {
                            return Ok(if silent < deadline { RoundEnd::LinkBroke } else { RoundEnd::Deadline });
                        }
                    }
                }
            };
            let Some(message) = message else { return Err(conn.closed()) };
            conn.traffic.received(Verb::Fetch, message.payload().len());
            let status = inbox.status(&message);
            *heard |= status.as_ref().is_none_or(|(of, _)| *of == number);
            match status {
                None => {
                    conn.hub.look_at_headers(&message, None);
                    let taken = sink.push(&message)?;
                    left -= usize::from(taken);
                    bytes += if taken { message.size() } else { 0 };
                    if bytes == most {
                        // Nothing more comes of it, and the server does not say so: it does where a message is too much.
                        return Ok(RoundEnd::Dry { too_large: true });
                    }
                    at_hand
                        .iter_mut()
                        .for_each(|ending| (ending.left, ending.room) = (left, most.saturating_sub(bytes)));
                }
                Some((other, _)) if other != number => {}
                Some((_, Status::Heartbeat)) => {}
                Some((_, Status::Over { too_large, .. })) => return Ok(RoundEnd::Dry { too_large }),
                Some((_, Status::Gone(why))) => return Ok(RoundEnd::Gone(why)),
                Some((_, Status::Limited(limit, _))) => return Ok(RoundEnd::Limited(limit)),
                Some((_, Status::Refused(err))) => return Err(err),
            }
        }
        Ok(RoundEnd::Full)
    }
}

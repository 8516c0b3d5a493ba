//! Why a request of a fetch ends, and the wait for it.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::OptionFuture;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::pull_request::PullRequest;
use super::{Fullness, PullSubscription, REQUEST_GRACE};
use crate::receive::limits::Limit;
use crate::receive::pull::PullOptions;
use base::error::Result;
use client::Link;
use wire::message::Message;

/// Looks at a full window, at twice the interval each, while messages may be on the way: 0.3 s on a fast link.
const MAX_FULL_LOOKS: u32 = 3;

/// Silence after which the reply to a request for the messages at hand is lost. The server sends it at once, unless the
/// consumer is deleted meanwhile: then it drops the request.
const LOST_REPLY: Duration = Duration::from_secs(5);

/// How a request ended.
pub(super) enum RoundEnd {
    Full,
    Dry {
        too_large: bool,
    },
    Gone(String),
    /// The request exceeded a limit of the consumer.
    Limited(Limit),
    /// The consumer delivers no more before messages are acknowledged.
    WindowFull,
    LinkBroke,
    Deadline,
}

/// The outcome of a wait during a request.
pub(super) enum Next {
    /// A message, or `None` when the connection is closed.
    Message(Option<Message>),
    End(RoundEnd),
}

/// Waits for the next message while the inbox is empty, or for a reason to end the request. `received`: the highest
/// consumer sequence that has arrived.
pub(super) async fn next_or_end(
    sub: &PullSubscription,
    received: u64,
    request: &mut PullRequest,
    options: &PullOptions,
    link: &mut watch::Receiver<Link>,
    allowed_silence: &mut Option<Duration>,
    deadline: Instant,
) -> Result<Next> {
    // Silence begins when the inbox is empty.
    let silence_limit = match options.heartbeat {
        _ if options.no_wait => LOST_REPLY,
        Duration::ZERO => Duration::MAX,
        heartbeat => heartbeat * 2,
    };
    let silent = Instant::now().checked_add(silence_limit).unwrap_or(deadline + REQUEST_GRACE);
    let after =
        |silence: Option<Duration>| silence.map_or(deadline + REQUEST_GRACE, |silence| Instant::now() + silence);
    let mut look = after(*allowed_silence);
    let mut full_looks = 0;
    // The request for the consumer's state. It may go unanswered, so messages and the link are awaited beside it.
    let mut asking = None;
    loop {
        tokio::select! {
            biased;
            message = request.inbox.messages.next() => {
                if asking.is_some() {
                    // Slow, and not full: the next request for the state is sent later.
                    sub.ack_window().slow += 1;
                }
                return Ok(Next::Message(message));
            }
            Ok(()) = link.changed() => {
                if sub.conn.breaks() != request.progress.breaks() {
                    return Ok(Next::End(RoundEnd::LinkBroke));
                }
                if let Some(cause) = request.inbox.refused() {
                    // The server refused the request: nothing arrives for it.
                    request.is_pending = false;
                    return Err(cause);
                }
            }
            () = sleep_until(look), if asking.is_none() && look < deadline => {
                asking = Some(Box::pin(sub.fullness(deadline)));
            }
            fullness = async { OptionFuture::from(asking.as_mut()).await.unwrap_or(Fullness::HasRoom) },
                if asking.is_some() =>
            {
                asking = None;
                if let Fullness::Full { delivered } = fullness {
                    // Messages that are delivered and not here are with another client, or on the way: the server can
                    // answer before it sends them.
                    if delivered <= received || full_looks == MAX_FULL_LOOKS {
                        return Ok(Next::End(RoundEnd::WindowFull));
                    }
                    full_looks += 1;
                }
                *allowed_silence = sub.ack_window().allowed_silence(options);
                look = after(allowed_silence.map(|silence| silence * (1 << full_looks)));
            }
            () = sleep_until(silent.min(deadline + REQUEST_GRACE)) => {
                return Ok(Next::End(if silent < deadline { RoundEnd::LinkBroke } else { RoundEnd::Deadline }));
            }
        }
    }
}

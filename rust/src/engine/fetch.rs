//! Fetching from a pull consumer, N messages or T seconds.
//!
//! One request at a time is open at the server, and it is always seen to its end: what is at hand is taken with
//! `no_wait` requests; only while fewer than `min_messages` are there does one request wait, for just the missing
//! number. So no request is left behind that would eat messages meant for a later call.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Message;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::Mutex;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::engine::columns::{Batch, Builder, Layout, parse_meta};
use crate::engine::connect::Connection;
use crate::engine::pull::{Ask, PULL_BYTES, PULL_ROWS, Puller, Status};
use crate::engine::request::api;
use crate::error::{JetError, Result};

/// How long after the deadline the server's own word that a request is over is waited for.
const GRACE: Duration = Duration::from_millis(250);
/// Pause before a consumer without a leader is asked again.
const RETRY: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct Fetch {
    pub max_messages: usize,
    pub max_bytes: Option<usize>,
    pub timeout: Duration,
    /// With so many there, the call does not wait for more.
    pub min_messages: usize,
    pub heartbeat: Option<Duration>,
    pub layout: Layout,
}

pub struct PullSubscription {
    conn: Arc<Connection>,
    prefix: String,
    pub stream: String,
    pub consumer: String,
    /// Calls on one subscription follow one another: they share an inbox.
    puller: Mutex<Puller>,
}

/// How a request ended.
enum End {
    Full,
    Dry { too_large: bool },
    Gone(String),
    LinkBroke,
    Deadline,
}

impl PullSubscription {
    pub async fn new(conn: Arc<Connection>, prefix: String, stream: String, consumer: String) -> Result<Self> {
        let puller = Mutex::new(Puller::new(&conn, &prefix, &stream, &consumer).await?);
        Ok(PullSubscription { conn, prefix, stream, consumer, puller })
    }

    pub async fn fetch_batch(&self, fetch: Fetch) -> Result<Batch> {
        // Tokio's budget would send us to the back of the queue every 128 messages.
        unconstrained(self.fetch(fetch)).await
    }

    async fn fetch(&self, fetch: Fetch) -> Result<Batch> {
        let deadline = Instant::now() + fetch.timeout;
        let mut builder = Builder::new(fetch.layout.clone(), true);
        let Ok(mut puller) = timeout_at(deadline + GRACE, self.puller.lock()).await else {
            return builder.finish();
        };
        let mut whole_message = false;
        while builder.len() < fetch.max_messages {
            let bytes_left = fetch.max_bytes.map_or(PULL_BYTES, |most| most.saturating_sub(builder.bytes()));
            if bytes_left == 0 {
                break;
            }
            let at_hand = Ask {
                batch: (fetch.max_messages - builder.len()).min(PULL_ROWS),
                max_bytes: bytes_left.min(PULL_BYTES),
                no_wait: true,
                ..Ask::default()
            };
            // A single message over our own bound still has to come through.
            let at_hand = if whole_message { Ask { batch: 1, max_bytes: 0, ..at_hand } } else { at_hand };
            let before = builder.len();
            let mut end = self.round(&mut puller, &at_hand, &mut builder, deadline).await?;
            whole_message = false;
            if let End::Dry { too_large: false } = end {
                let missing = fetch.min_messages.saturating_sub(builder.len());
                let left = deadline.saturating_duration_since(Instant::now());
                if missing == 0 || left.is_zero() {
                    break;
                }
                let waiting = Ask {
                    batch: missing.min(PULL_ROWS),
                    max_bytes: at_hand.max_bytes,
                    // The server answers with 408 at its end; ours comes a little later.
                    expires: left.mul_f64(0.98).max(Duration::from_millis(1)),
                    no_wait: false,
                    heartbeat: heartbeat(fetch.heartbeat, left),
                };
                end = self.round(&mut puller, &waiting, &mut builder, deadline).await?;
            }
            match end {
                End::Full => {}
                End::Dry { too_large: true } if builder.len() == before => {
                    if fetch.max_bytes.is_some() {
                        if builder.is_empty() {
                            return Err(JetError::Value(format!(
                                "the next message is larger than max_bytes={bytes_left}"
                            )));
                        }
                        break;
                    }
                    whole_message = true;
                }
                End::Dry { too_large: true } if fetch.max_bytes.is_some() => break,
                End::Dry { .. } => {}
                End::Deadline => break,
                End::Gone(why) => self.check_consumer(&why, deadline).await?,
                End::LinkBroke => self.wait_for_link(deadline).await?,
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        builder.finish()
    }

    /// Sends one request and takes its messages until it is over.
    async fn round(&self, puller: &mut Puller, ask: &Ask, builder: &mut Builder, deadline: Instant) -> Result<End> {
        let breaks = self.conn.breaks();
        let mut link = self.conn.link.clone();
        let number = puller.ask(&self.conn, ask).await?;
        let mut left = ask.batch;
        while left > 0 {
            let message = match puller.messages.next().now_or_never() {
                Some(message) => message,
                None => {
                    // Silence counts from here: until now there was something to take.
                    let patience = if ask.heartbeat.is_zero() { Duration::MAX } else { ask.heartbeat * 2 };
                    let silent = Instant::now().checked_add(patience).unwrap_or(deadline + GRACE);
                    tokio::select! {
                        biased;
                        message = puller.messages.next() => message,
                        Ok(()) = link.changed() => {
                            if self.conn.breaks() != breaks {
                                return Ok(End::LinkBroke);
                            }
                            continue;
                        }
                        () = sleep_until(silent.min(deadline + GRACE)) => {
                            return Ok(if silent < deadline { End::LinkBroke } else { End::Deadline });
                        }
                    }
                }
            };
            let Some(message) = message else { return Err(self.conn.closed()) };
            match puller.status(&message) {
                None => {
                    if push(builder, &message)? {
                        left -= 1;
                    }
                }
                // The end of a request that an earlier call gave up on.
                Some((other, _)) if other != number => {}
                Some((_, Status::Heartbeat)) => {}
                Some((_, Status::Over { too_large, .. })) => return Ok(End::Dry { too_large }),
                Some((_, Status::Gone(why))) => return Ok(End::Gone(why)),
                Some((_, Status::Refused(err))) => return Err(err),
            }
        }
        Ok(End::Full)
    }

    /// Gone for good is an error; without a leader for now is a reason to wait a little.
    async fn check_consumer(&self, why: &str, deadline: Instant) -> Result<()> {
        let verb = format!("CONSUMER.INFO.{}.{}", self.stream, self.consumer);
        let found = api::<serde_json::Value>(&self.conn, &self.prefix, &verb, &serde_json::Value::Null).await;
        match found {
            Err(err @ JetError::Api { code: 404, .. }) => Err(err),
            _ => {
                tokio::time::sleep(RETRY).await;
                if Instant::now() < deadline {
                    return Ok(());
                }
                Err(JetError::Timeout {
                    what: format!("a fetch from consumer {:?} of stream {:?} ({why})", self.consumer, self.stream),
                    after: RETRY,
                })
            }
        }
    }

    async fn wait_for_link(&self, deadline: Instant) -> Result<()> {
        let mut link = self.conn.link.clone();
        let up = link.wait_for(|link| link.up || link.closed);
        match timeout_at(deadline, up).await {
            Ok(Ok(link)) if link.closed => Err(self.conn.closed()),
            _ => Ok(()),
        }
    }
}

/// False for what is no message of a stream.
fn push(builder: &mut Builder, message: &Message) -> Result<bool> {
    let Some(meta) = message.reply.as_deref().and_then(parse_meta) else { return Ok(false) };
    builder.push(message, &meta)?;
    Ok(true)
}

/// The server wants at most half of the expiry; short waits need none.
fn heartbeat(asked: Option<Duration>, expires: Duration) -> Duration {
    const LONG: Duration = Duration::from_secs(2);
    const DEFAULT: Duration = Duration::from_secs(5);
    match asked {
        Some(every) => every.min(expires.mul_f64(0.45)),
        None if expires >= LONG => DEFAULT.min(expires.mul_f64(0.25)),
        None => Duration::ZERO,
    }
}

//! Getting a push subscription past a message with headers that cannot be read (`read/malformed.rs` says what becomes
//! of the link).
//!
//! The connection broke on it. What had come before is in the queue by then, so that the suspects are what the consumer
//! has delivered since: they are asked for by `STREAM.MSG.GET`, and go into the queue from that answer. A consumer with
//! acks sends what went down with the link again by itself, so that only the malformed ones are taken, whose acks work.
//! One without acks counts all of it as done: all of it is taken. An ordered subscription is begun anew behind them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::engine::api::{Api, Stored};
use crate::engine::columns::raw_headers::is_malformed;
use crate::engine::connection::Connection;
use crate::engine::receive::malformed::Delivery;
use crate::engine::receive::message::Received;
use crate::error::{JetError, Result};

/// Most messages that are looked at after one break.
const MOST_LOOKS: usize = 2_000;
/// So many messages behind a malformed one an ordered subscription takes one by one, so that breaks stay few where such
/// messages follow each other closely.
const CAREFUL: usize = 100;
/// How long is looked at most, and how long is waited where there is no leader.
const LOOK: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(100);

/// The consumer behind a push subscription.
#[derive(Clone, Debug)]
pub struct Origin {
    pub prefix: String,
    pub stream: String,
    pub consumer: String,
    /// None is all subjects.
    pub filters: Vec<String>,
    pub headers_only: bool,
    /// The last sequence that is not for this subscription, where that is known.
    pub after: Option<u64>,
}

/// What was found: messages in order, and the sequence up to which nothing else is missing.
#[derive(Default)]
pub struct Found {
    pub messages: Vec<(u64, Received)>,
    pub complete_to: Option<u64>,
}

pub struct Look {
    pub conn: Arc<Connection>,
    pub origin: Origin,
    pub ordered: bool,
    /// The last sequence that came.
    pub last: u64,
    /// What was handed out before.
    pub known: BTreeSet<u64>,
}

impl Look {
    /// Waits for the link, and looks. What cannot be found out in time is left to the consumer.
    pub async fn run(self) -> Found {
        let mut link = self.conn.link.clone();
        if !link.wait_for(|link| link.up || link.closed).await.is_ok_and(|link| link.up) {
            return Found::default();
        }
        let look = async {
            loop {
                match self.look().await {
                    Ok(found) => return found,
                    Err(err) if err.is_transient() => sleep(RETRY).await,
                    Err(_) => return Found::default(),
                }
            }
        };
        timeout(LOOK, look).await.unwrap_or_default()
    }

    async fn look(&self) -> Result<Found> {
        if self.ordered { self.next_ones().await } else { self.delivered().await }
    }

    /// The last message that is not missing.
    fn start(&self) -> Option<u64> {
        self.origin.after.max((self.last > 0).then_some(self.last))
    }

    /// The next messages of the stream, where the first of them is malformed.
    async fn next_ones(&self) -> Result<Found> {
        let api = Api::new(&self.conn, &self.origin.prefix);
        let mut found = Found::default();
        let Some(start) = self.start() else { return Ok(found) };
        let (mut from, mut left) = (start + 1, None);
        while left != Some(0) && found.messages.len() < MOST_LOOKS {
            let Some(stored) = api.next_stored(&self.origin.stream, from, &self.origin.filters).await? else { break };
            from = stored.seq + 1;
            let malformed = self.is_malformed(&stored);
            left = match left {
                None if !malformed => break,
                _ if malformed => Some(CAREFUL),
                left => left.map(|left| left - 1),
            };
            self.keep(stored, 0, &mut found)?;
        }
        Ok(found)
    }

    /// What the consumer has delivered and is not acknowledged, or has not come.
    async fn delivered(&self) -> Result<Found> {
        let api = Api::new(&self.conn, &self.origin.prefix);
        let state = api.consumer_state(&self.origin.stream, &self.origin.consumer).await?;
        let acks = state.config.ack_policy != "none";
        // Where it is not known what came before, one message alone is looked at.
        let known = || self.start().unwrap_or(state.delivered.stream_seq.saturating_sub(1));
        let start = if acks { state.ack_floor.stream_seq } else { known() };
        let (mut from, mut found, mut again) = (start + 1, Found::default(), Vec::new());
        let mut last = None;
        for _ in 0..MOST_LOOKS {
            let stored = api.next_stored(&self.origin.stream, from, &self.origin.filters).await?;
            let Some(stored) = stored.filter(|stored| stored.seq <= state.delivered.stream_seq) else { break };
            from = stored.seq + 1;
            last = Some(stored.seq);
            match (acks, self.is_malformed(&stored), self.known.contains(&stored.seq)) {
                (true, false, _) => {}
                (true, true, true) => again.push(stored),
                _ => self.keep(stored, state.delivered.consumer_seq, &mut found)?,
            }
        }
        if found.messages.is_empty() {
            // None is new: one that was handed out and not acknowledged has come again.
            again.into_iter().try_for_each(|stored| self.keep(stored, state.delivered.consumer_seq, &mut found))?;
        }
        found.complete_to = last.filter(|_| !acks);
        Ok(found)
    }

    fn is_malformed(&self, stored: &Stored) -> bool {
        !stored.headers.is_empty() && is_malformed(&stored.headers)
    }

    fn keep(&self, stored: Stored, consumer_seq: u64, found: &mut Found) -> Result<()> {
        let Origin { stream, consumer, headers_only, .. } = &self.origin;
        let (seq, malformed) = (stored.seq, self.is_malformed(&stored));
        if malformed {
            self.conn.hub.tell(JetError::Malformed { stream: stream.clone(), seq });
        }
        let delivery = Delivery { stream, consumer, consumer_seq, pending: 0, headers_only: *headers_only };
        let (message, headers) = delivery.message(stored)?;
        let mut received = Received::from(message);
        received.raw_headers = (malformed || !headers.is_empty()).then(|| Box::new(headers));
        found.messages.push((seq, received));
        Ok(())
    }
}

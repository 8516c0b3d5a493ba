//! Handing out a message whose headers cannot be read (`read/malformed.rs` says what becomes of the link).
//!
//! The connection broke on it, and to the server it is delivered: it lies between what is acknowledged and what was
//! delivered. It is found there by `STREAM.MSG.GET` and handed out from that answer. Its reply subject is made by
//! ourselves; the server goes by the stream's sequence, so that acks work. The call is over then: one break a call.

use async_nats::Subject;
use tokio::time::{Instant, timeout_at};

use super::{Fetch, Job, Sink, Ways};
use crate::engine::api::{Api, ConsumerState, Stored};
use crate::engine::columns::meta::parse_meta;
use crate::engine::columns::raw_headers::is_malformed;
use crate::engine::receive::malformed::Delivery;
use crate::error::{JetError, Result};

/// Most messages that are looked at.
const MOST_LOOKS: usize = 2_000;

impl<S: Sink> Job<'_, S> {
    /// True where it has found any.
    pub(super) async fn take_malformed(&mut self, fetch: &Fetch, deadline: Instant) -> Result<bool> {
        match timeout_at(deadline, self.look_for_malformed(fetch)).await {
            // What could not be looked at comes again, if it is acknowledged at all.
            Err(_) => Ok(false),
            Ok(Err(err)) if err.is_transient() => Ok(false),
            Ok(found) => found,
        }
    }

    async fn look_for_malformed(&mut self, fetch: &Fetch) -> Result<bool> {
        let sub = self.sub;
        let api = Api::new(&sub.conn, &sub.prefix);
        let state = api.consumer_state(&sub.stream, &sub.consumer).await?;
        sub.learn(Ways::from(&state));
        let filters = state.config.filters();
        let mut from = state.ack_floor.stream_seq + 1;
        if state.config.ack_policy == "none" {
            // Nothing is left open there: what this call has not seen, and no other one.
            let last = self.fetched.sink.as_ref().and_then(Sink::last).map(|(seq, _)| seq);
            from = last.unwrap_or_else(|| state.delivered.stream_seq.saturating_sub(1)) + 1;
        }
        let mut found = false;
        for _ in 0..MOST_LOOKS {
            let next = api.next_stored(&sub.stream, from, &filters).await?;
            let Some(stored) = next.filter(|stored| stored.seq <= state.delivered.stream_seq) else { break };
            from = stored.seq + 1;
            if self.size().0 >= fetch.max_messages {
                break;
            }
            if !stored.headers.is_empty() && is_malformed(&stored.headers) {
                sub.conn.hub.tell(JetError::Malformed { stream: sub.stream.clone(), seq: stored.seq });
                self.push_stored(stored, &state)?;
                found = true;
            }
        }
        Ok(found)
    }

    fn push_stored(&mut self, stored: Stored, state: &ConsumerState) -> Result<()> {
        let Some(sink) = &mut self.fetched.sink else { return Ok(()) };
        let delivery = Delivery {
            stream: &self.sub.stream,
            consumer: &self.sub.consumer,
            consumer_seq: state.delivered.consumer_seq,
            pending: state.num_pending,
            headers_only: state.config.headers_only,
        };
        let (message, headers) = delivery.message(stored)?;
        let reply = message.reply.clone().unwrap_or_else(|| Subject::from(""));
        let Some(meta) = parse_meta(&reply) else { return Ok(()) };
        sink.push_malformed(message, &meta, headers)
    }
}

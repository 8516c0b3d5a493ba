//! Handing out a message whose headers async-nats cannot read (`read/malformed.rs` says what is missing there).
//!
//! The connection broke on it, and to the server it is delivered: it lies between what is acknowledged and what was
//! delivered. It is found there by `STREAM.MSG.GET` and handed out from that answer. Its reply subject is made by
//! ourselves; the server goes by the stream's sequence, so that acks work. The call is over then: one break a call.

use async_nats::Message;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::{Fetch, Job, Sink};
use crate::engine::api::{Api, ConsumerState, Stored};
use crate::engine::columns::decode::nanoseconds;
use crate::engine::columns::meta::Meta;
use crate::engine::columns::raw_headers::{is_malformed, parse};
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
        let all = [">".to_owned()];
        let filters = state.config.filters();
        let filters = if filters.is_empty() { &all[..] } else { &filters };
        let mut from = state.ack_floor.stream_seq + 1;
        if state.config.ack_policy == "none" {
            // Nothing is left open there: what this call has not seen, and no other one.
            let last = self.fetched.sink.as_ref().and_then(Sink::last_seq);
            from = last.unwrap_or_else(|| state.delivered.stream_seq.saturating_sub(1)) + 1;
        }
        let mut found = false;
        for _ in 0..MOST_LOOKS {
            let mut next: Option<Stored> = None;
            for filter in filters {
                let stored = api.get_message(&sub.stream, &json!({"seq": from, "next_by_subj": filter})).await?;
                next = next.into_iter().chain(stored).min_by_key(|stored| stored.seq);
            }
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
        let Stored { subject, seq, headers, payload, time } = stored;
        let wrong = || JetError::Protocol { what: "STREAM.MSG.GET".into(), answer: time.clone() };
        let nanos = nanoseconds(time.as_bytes()).ok_or_else(wrong)?;
        let (stream, consumer) = (self.sub.stream.as_str(), self.sub.consumer.as_str());
        let (consumer_seq, pending) = (state.delivered.consumer_seq, state.num_pending);
        let reply = format!("$JS.ACK.{stream}.{consumer}.1.{seq}.{consumer_seq}.{nanos}.{pending}");
        let message = Message {
            length: subject.len() + reply.len() + headers.len() + payload.len(),
            subject: subject.into(),
            reply: Some(reply.into()),
            payload: payload.into(),
            headers: None,
            status: None,
            description: None,
        };
        let (seq, consumer_seq, pending) = (seq as i64, consumer_seq as i64, pending as i64);
        let meta = Meta { stream, consumer, delivered: 1, seq, consumer_seq, nanos, pending };
        sink.push_malformed(message, &meta, parse(&headers))
    }
}

//! Getting past a message with headers that cannot be read.
//!
//! The client (`connection/client/parse.rs`) takes one such message for the end of the protocol, and the link is
//! dropped; whoever reads on at the same place gets the same message again, for ever. How we get past it: what was
//! delivered before it has come, so after a break the suspect is the next message of the range. It is asked for by
//! `STREAM.MSG.GET`, whose answer is JSON, and where its headers are malformed it becomes a row from there. Where such
//! messages follow each other closely, more and more are read that way before the consumer is made anew, so that the
//! breaks stay few. Held in place by tests/test_read_malformed.py.

use async_nats::Message;

use super::latest::Latest;
use super::{Run, Stop};
use crate::engine::api::Stored;
use crate::engine::columns::decode::nanoseconds;
use crate::engine::columns::meta::Meta;
use crate::engine::columns::raw_headers::{RawHeaders, is_malformed, parse};
use crate::error::{JetError, Result};

/// Most messages that are read one by one after a malformed one.
pub(super) const MOST_CAREFUL: u32 = 4096;

impl Run {
    /// After a break: takes what could not be read. None where the consumer can go on.
    pub(super) async fn step_over(&mut self) -> Result<Option<Stop>> {
        if self.latest.as_ref().is_some_and(Latest::by_subject) {
            // Which message comes next is not known.
            return Ok(None);
        }
        let mut left = None;
        while self.next < self.end {
            let next = self.api().next_stored(&self.range.stream, self.next, &self.range.subjects);
            let Some(stored) = next.await? else { return Ok(None) };
            let malformed = is_malformed(&stored.headers) && !stored.headers.is_empty();
            if malformed && left.is_none() {
                self.careful = (self.careful * 2 + 1).min(MOST_CAREFUL);
                left = Some(self.careful);
            }
            match &mut left {
                None => return Ok(None),
                Some(0) if !malformed => return Ok(None),
                Some(left) => *left = left.saturating_sub(u32::from(!malformed)),
            }
            if malformed {
                self.conn.hub.tell(JetError::Malformed { stream: self.range.stream.clone(), seq: stored.seq });
            }
            let stop = self.accept_stored(stored)?;
            if !self.flush_if_full().await? {
                return Ok(Some(Stop::Dropped));
            }
            if let Some(stop) = stop {
                return Ok(Some(stop));
            }
        }
        Ok(None)
    }

    pub(super) fn accept_stored(&mut self, stored: Stored) -> Result<Option<Stop>> {
        let Stored { subject, seq, headers, payload, time } = stored;
        let wrong = || JetError::Protocol { what: "STREAM.MSG.GET".into(), answer: time.clone() };
        let nanos = nanoseconds(time.as_bytes()).ok_or_else(wrong)?;
        if self.earliest && seq > self.next {
            self.next = seq;
        }
        self.earliest = false;
        let length = subject.len() + headers.len() + payload.len();
        let headers: RawHeaders = parse(&headers);
        let message = Message {
            subject: subject.into(),
            reply: None,
            payload: payload.into(),
            headers: None,
            status: None,
            description: None,
            length,
        };
        let stream = self.range.stream.clone();
        let (seq, pending) = (seq as i64, i64::MAX);
        let meta = Meta { stream: &stream, consumer: "", delivered: 1, seq, consumer_seq: 0, nanos, pending };
        self.accept_with(&message, &meta, Some(&headers))
    }
}

//! A stored message with headers that cannot be read, as a consumer delivers it.

use async_nats::Message;

use crate::engine::api::Stored;
use crate::engine::columns::decode::nanoseconds;
use crate::engine::columns::raw_headers::{RawHeaders, parse};
use crate::error::{JetError, Result};

/// What stands in the acks of a consumer's messages.
pub struct Delivery<'a> {
    pub stream: &'a str,
    pub consumer: &'a str,
    pub consumer_seq: u64,
    pub pending: u64,
    /// The consumer leaves payloads out.
    pub headers_only: bool,
}

impl Delivery<'_> {
    /// Its reply subject is made by ourselves; the server goes by the stream's sequence, so that acks work.
    pub fn message(&self, stored: Stored) -> Result<(Message, RawHeaders)> {
        let Stored { subject, seq, headers, mut payload, time } = stored;
        if self.headers_only {
            payload.clear();
        }
        let wrong = || JetError::Protocol { what: "STREAM.MSG.GET".into(), answer: time.clone() };
        let nanos = nanoseconds(time.as_bytes()).ok_or_else(wrong)?;
        let Delivery { stream, consumer, consumer_seq, pending, .. } = self;
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
        let headers = if headers.is_empty() { RawHeaders::new() } else { parse(&headers) };
        Ok((message, headers))
    }
}

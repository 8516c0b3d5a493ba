//! Message of a publish loop: a row of a block, or a single message.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::publish::rows::{NULL, RowSubjects, Rows};
use base::error::{About, JetError, Result};
use client::transport::Client;
use wire::arena::{Arena, OWN_ALLOCATION_BYTES};
use wire::frames::{self, PublishFrame};
use wire::nats::header::{NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use wire::nats::{HeaderMap, HeaderValue, Subject};
use wire::size::header_size;

/// Payload of a row, borrowed from its block.
struct InPlace {
    rows: Arc<Rows>,
    row: usize,
}

impl AsRef<[u8]> for InPlace {
    fn as_ref(&self) -> &[u8] {
        self.rows.payloads.get(self.row).unwrap_or_default()
    }
}

/// Message of a publish loop.
#[derive(Clone)]
pub enum Body {
    /// A row of a block.
    Row(Arc<Rows>, usize),
    Single(Box<Single>),
}

/// A single message; its headers are complete.
#[derive(Clone)]
pub struct Single {
    pub subject: Subject,
    pub payload: Bytes,
    pub headers: Option<HeaderMap>,
    /// Overrides the timeout of the window.
    pub timeout: Option<Duration>,
}

impl Body {
    pub fn timeout(&self) -> Option<Duration> {
        match self {
            Body::Row(..) => None,
            Body::Single(single) => single.timeout,
        }
    }

    /// True for a single message whose caller waits for the ack.
    pub fn is_awaited(&self) -> bool {
        self.timeout().is_some()
    }

    /// Returns the payload; `None` if the row is null.
    pub fn payload(&self) -> Option<&[u8]> {
        match self {
            Body::Row(rows, row) => rows.payloads.get(*row),
            Body::Single(single) => Some(&single.payload),
        }
    }

    /// Builds the error of row `number`, which has no payload.
    pub fn no_payload(&self, number: u64) -> JetError {
        match self {
            Body::Row(rows, row) => rows.no_payload(*row, number),
            Body::Single(_) => JetError::Row { row: number, reason: NULL.into() },
        }
    }

    /// Checks a row like `Rows::checked`, for rows that were not checked as a block.
    pub fn check(&self, number: u64, max_payload: usize) -> Result<()> {
        match self {
            Body::Row(rows, row) if !rows.checked => rows.check(*row, number, max_payload),
            _ => Ok(()),
        }
    }

    /// Returns the payload to send; `None` if the row is null. Small payloads of rows are copied, many to an
    /// allocation.
    pub fn wire_payload(&self, arena: &mut Arena) -> Option<Bytes> {
        match self {
            Body::Row(rows, row) => Some(match rows.payloads.get(*row)? {
                small if small.len() < OWN_ALLOCATION_BYTES => arena.copy(small),
                _ => Bytes::from_owner(InPlace { rows: rows.clone(), row: *row }),
            }),
            Body::Single(single) => Some(single.payload.clone()),
        }
    }

    /// Returns the approximate size on the wire, and in memory until it is acknowledged.
    pub fn size(&self) -> usize {
        match self {
            Body::Row(rows, row) => {
                let payload = rows.payloads.get(*row).map_or(0, <[u8]>::len);
                let subject = rows.subject(*row).map_or(0, str::len);
                payload + subject + rows.header_size(*row, rows.msg_id(*row))
            }
            Body::Single(single) => {
                let headers = single.headers.as_ref().map_or(0, header_size);
                single.payload.len() + single.subject.len() + headers
            }
        }
    }

    /// Returns the expected stream, if one is set.
    pub fn expected_stream(&self) -> Option<&str> {
        match self {
            Body::Row(rows, _) => rows.expected_stream.as_deref(),
            Body::Single(single) => single.headers.as_ref()?.get(NATS_EXPECTED_STREAM).map(HeaderValue::as_str),
        }
    }

    pub fn subject_text(&self) -> &str {
        match self {
            Body::Single(single) => &single.subject,
            Body::Row(rows, row) => rows.subject(*row).unwrap_or_default(),
        }
    }

    pub fn subject(&self) -> Subject {
        match self {
            Body::Single(single) => single.subject.clone(),
            Body::Row(rows, row) => match &rows.subjects {
                RowSubjects::One(subject) => subject.clone(),
                RowSubjects::Each(texts) => texts.get(*row).unwrap_or_default().into(),
            },
        }
    }

    pub fn msg_id(&self) -> Option<&str> {
        match self {
            Body::Row(rows, row) => rows.msg_id(*row),
            Body::Single(single) => single.headers.as_ref()?.get(NATS_MESSAGE_ID).map(HeaderValue::as_str),
        }
    }

    /// True if the caller set this header.
    pub fn has_header(&self, name: &str) -> bool {
        let own = match self {
            Body::Row(rows, row) => rows.own_headers(*row),
            Body::Single(single) => single.headers.as_ref(),
        };
        own.is_some_and(|headers| headers.get(name).is_some())
    }

    pub fn has_id(&self) -> bool {
        self.msg_id().is_some()
    }

    /// True if the message has headers of NATS beyond those that a batch can have: an expectation that the message before
    /// may meet, or a value that comes with an ack of its own.
    pub fn has_own_publish(&self) -> bool {
        let of_batch = [NATS_MESSAGE_ID.as_ref(), NATS_EXPECTED_STREAM.as_ref(), "Nats-TTL"];
        let own = match self {
            Body::Row(rows, row) => rows.own_headers(*row),
            Body::Single(single) => single.headers.as_ref(),
        };
        let mut names = own.into_iter().flat_map(HeaderMap::iter).map(|(name, _)| name.as_ref());
        names.any(|name: &str| name.starts_with("Nats-") && !of_batch.contains(&name))
    }

    /// Its name in errors; `row` is the number of its result.
    pub fn about(&self, row: u64) -> About {
        match self {
            Body::Row(..) => About::Row(row),
            Body::Single(single) => About::Other(format!("the message for {:?}", single.subject.as_str())),
        }
    }

    pub fn wire_headers(&self) -> Option<HeaderMap> {
        match self {
            Body::Row(rows, row) => rows.wire_headers(*row),
            Body::Single(single) => single.headers.clone(),
        }
    }

    /// Writes the headers as bytes; nothing without headers.
    pub fn write_headers(&self, out: &mut Vec<u8>) {
        match self {
            Body::Row(rows, row) => rows.write_headers(*row, out),
            Body::Single(single) => {
                let headers = single.headers.iter().filter(|headers| !headers.is_empty());
                headers.for_each(|headers| frames::header_block(out, headers));
            }
        }
    }

    /// Sends the message if there is room, with this reply subject. `block` is the buffer for its headers. A large
    /// payload is not sent, because this path copies.
    pub fn send_now(&self, client: &Client, reply: &[u8], block: &mut Vec<u8>) -> bool {
        let Some(payload) = self.payload().filter(|payload| payload.len() < OWN_ALLOCATION_BYTES) else { return false };
        block.clear();
        self.write_headers(block);
        client.send_now(&PublishFrame { subject: self.subject_text(), reply, headers: block, payload })
    }
}

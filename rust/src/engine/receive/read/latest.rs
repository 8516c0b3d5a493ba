//! Only the last message of each subject: the state of a stream, as of the moment when the read has caught up.
//!
//! The server's own consumers give it (`last_per_subject`), in order of sequence, then what comes after. The last
//! sequence at opening cannot be the end: a subject that changed before its message was sent is only found at its new
//! place, beyond it. So the end is where the consumer has nothing more, and the stream's leader knows of nothing left
//! that was there at opening. A subject that was read and changed before that end comes again; `changed` names those.
//!
//! Such a consumer has no start: made anew, it begins with what was read already, which is skipped. Where a message
//! breaks the link each time (`malformed`), that way would never end: then everything from the next sequence on is read
//! as an ordinary range, in which `changed` tells which message of a subject is its last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_nats::Message;

use super::{Run, Stop};
use crate::engine::columns::meta::Meta;
use crate::engine::columns::raw_headers::RawHeaders;
use crate::engine::receive::marker::Operation;
use crate::error::Result;
use crate::lock::lock;

/// Subjects that may come more than once in a read, and the last sequence of each.
pub type Changed = Arc<Mutex<HashMap<String, u64>>>;

pub struct Latest {
    /// Deletion markers of key-value buckets come too.
    markers: bool,
    /// As an ordinary range, from the next sequence on.
    pub by_sequence: bool,
    /// The next sequence when the link last broke.
    broke_at: Option<u64>,
    pub changed: Changed,
}

impl Latest {
    pub fn new(markers: bool) -> Self {
        Latest { markers, by_sequence: false, broke_at: None, changed: Changed::default() }
    }

    /// The link broke: a second time at the same place it may be the message there.
    pub fn broke(&mut self, next: u64) {
        self.by_sequence |= self.broke_at.replace(next) == Some(next);
    }
}

impl Run {
    /// What `accept_with` is for a range.
    pub(super) fn accept_latest(
        &mut self,
        message: &Message,
        meta: &Meta<'_>,
        headers: Option<&RawHeaders>,
    ) -> Result<Option<Stop>> {
        let dry = (meta.pending == 0).then_some(Stop::Dry);
        let seq = meta.seq as u64;
        let Some(latest) = self.latest.as_ref().filter(|_| seq >= self.next) else { return Ok(dry) };
        self.next = seq + 1;
        if latest.by_sequence || seq >= self.end {
            let subject = self.range.layout.shown(message.subject.as_str()).to_owned();
            lock(&latest.changed).insert(subject, seq);
        }
        let operation = || headers.map_or_else(|| Operation::of(message.headers.as_ref()), Operation::of_raw);
        if latest.markers || operation() == Operation::Put {
            self.builder.push_with(message, meta, headers)?;
        }
        Ok(dry)
    }
}

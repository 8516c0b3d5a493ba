//! Read by direct gets (ADR-31): no message is consumed, so work-queue and interest streams are read like this.
//!
//! A request names a sequence and a number of messages. They arrive one by one, then a status that ends them. Any
//! replica may answer, so an end must be confirmed by the stream's leader (`nothing_left`). A mirror with
//! `mirror_direct` may answer too and have fewer messages; those it omits are requested from the leader.

use futures_util::{FutureExt, StreamExt};
use serde_json::json;

use super::{Each, Range, ReadLoop, ReadStop, arrival};
use crate::api::{Stored, StreamConfig, direct_get};
use crate::receive::pull::PullInbox;
use base::error::{JetError, Result};
use client::traffic::Verb;
use columns::decode::nanoseconds;
use wire::ack_subject::AckSubject;
use wire::headers::{Lines, value_text};
use wire::message::Message;

/// Maximum number of messages that are read one by one if a mirror has omitted some.
const MOST_LEFT_OUT: u32 = 4096;

/// Headers that the server appends to a message's own.
const ADDED: [&str; 6] =
    ["Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending", "Nats-Last-Sequence"];

/// Returns whether the range is read by direct gets, if the stream supports them.
pub fn check_direct(range: &Range, config: &StreamConfig) -> Result<bool> {
    let consumes = matches!(config.retention.as_str(), "workqueue" | "interest");
    if !range.direct.unwrap_or(consumes && !range.follow) {
        return Ok(false);
    }
    let latest = range.each != Each::All;
    if range.follow || latest || range.subjects.len() > 1 {
        let what = match (range.follow, latest) {
            (true, _) => "follow=True",
            (_, true) => "the last message of each subject",
            _ => "several subjects",
        };
        return Err(JetError::Value(format!(
            "{what} cannot be read by direct gets; stream {:?} has retention {:?}",
            range.stream, config.retention
        )));
    }
    if !config.allow_direct {
        return Err(JetError::Unsupported {
            feature: format!("reading stream {:?} without taking its messages", range.stream),
            needs: "allow_direct=True in the stream's configuration".into(),
            has: "it is off there".into(),
        });
    }
    Ok(true)
}

/// Metadata of a direct get's message.
struct DirectGetReply {
    /// Name of the stream or mirror that answered.
    stream: String,
    subject: String,
    seq: i64,
    nanos: i64,
    /// Pending messages of the request, and the sequence before; a server without batches sends neither.
    more: Option<(i64, i64)>,
}

fn found(message: &Message) -> Option<DirectGetReply> {
    let mut added = ADDED.map(|_| None);
    for (name, value) in Lines::of(message.raw_headers()) {
        if let Some(place) = ADDED.iter().position(|added| added.as_bytes() == name.as_ref()) {
            added[place] = Some(value_text(&value).into_owned());
        }
    }
    let [stream, subject, seq, time, pending, last] = added;
    let number = |text: Option<String>| text?.parse().ok();
    Some(DirectGetReply {
        stream: stream?,
        subject: subject?,
        seq: number(seq)?,
        nanos: nanoseconds(time?.as_bytes())?,
        more: number(pending).zip(number(last)),
    })
}

/// Returns the headers that the message was stored with; empty if it had none.
fn own(raw: &[u8], found: &DirectGetReply) -> Vec<u8> {
    let added = if found.more.is_some() { ADDED.len() } else { ADDED.len() - 2 };
    let lines: Vec<_> = raw.split_inclusive(|byte| *byte == b'\n').collect();
    // An empty line follows them.
    match lines.split_last() {
        Some((end, lines)) if lines.len() > added + 1 => [&lines[..lines.len() - added], &[end]].concat().concat(),
        _ => Vec::new(),
    }
}

impl ReadLoop {
    /// Gets until an event stops it. `next` is always current, so that it can be called again.
    pub(super) async fn get(&mut self) -> Result<ReadStop> {
        self.check_stream().await?;
        let conn = self.conn.clone();
        let (breaks, silence, mut link) = (conn.breaks(), self.silence(), conn.link.clone());
        let subject = direct_get(&self.range.prefix, &self.range.stream);
        let mut inbox = PullInbox::for_subject(&conn, subject.clone(), Verb::Read)?;
        let filter = self.range.subjects.first().map_or(">", String::as_str).to_owned();
        loop {
            if !conn.link.borrow().up {
                return Ok(ReadStop::Renew);
            }
            let batch = self.rows.min(usize::try_from(self.end - self.next).unwrap_or(usize::MAX));
            let ask = json!({"seq": self.next, "batch": batch, "max_bytes": self.ask_bytes, "next_by_subj": filter});
            inbox.send(&conn, ask.to_string()).await?;
            let mut last = None;
            loop {
                let message = match inbox.messages.next().now_or_never().flatten() {
                    Some(message) => message,
                    None => match arrival(&mut inbox, &conn, &mut link, breaks, silence, &self.out).await? {
                        Ok(message) => message,
                        Err(stop) => return Ok(stop),
                    },
                };
                conn.traffic.received(Verb::Read, message.payload().len());
                let Some(found) = found(&message) else {
                    if message.status().is_none() {
                        // Its own headers make the server's headers behind them unreadable.
                        return self.take_stored(u64::MAX, 0).await.map(|stop| stop.unwrap_or(ReadStop::Again));
                    }
                    if ended(&message, &subject)? {
                        return Ok(ReadStop::Dry);
                    }
                    break;
                };
                self.away = None;
                let (before, more) = (last.replace(found.seq), found.more);
                if before.is_some_and(|before| more.is_some_and(|(_, said)| said != before)) {
                    // A message was lost in transit; it is still in the stream.
                    return Ok(ReadStop::Renew);
                }
                if found.stream != self.range.stream
                    && let Some(stop) = self.take_what_is_left_out(found.seq as u64).await?
                {
                    return Ok(stop);
                }
                let stop = self.accept_found(&message, found)?;
                if !self.flush_if_full().await? {
                    return Ok(ReadStop::Dropped);
                }
                if let Some(stop) = stop {
                    return Ok(stop);
                }
                if more.is_none() {
                    break;
                }
            }
        }
    }

    /// Reads the leader's messages before `seq`, the next message of a mirror; `None` if there are none.
    async fn take_what_is_left_out(&mut self, seq: u64) -> Result<Option<ReadStop>> {
        if seq <= self.next {
            return Ok(None);
        }
        self.take_stored(seq, self.left_out * 2 + 1).await
    }

    /// Reads one of the leader's messages before `seq`, and up to `more` after it. `None` if these are all.
    async fn take_stored(&mut self, seq: u64, mut more: u32) -> Result<Option<ReadStop>> {
        while let Some(stored) = self.api().next_stored(&self.range.stream, self.next, &self.range.subjects).await?
            && stored.seq < seq
        {
            let stop = self.accept_stored(stored)?;
            if !self.flush_if_full().await? {
                return Ok(Some(ReadStop::Dropped));
            }
            // A single message does not report that nothing is pending.
            if let Some(stop @ ReadStop::End) = stop {
                return Ok(Some(stop));
            }
            if more == 0 {
                // Reading one by one is slow; the stream itself may answer the next request.
                return Ok(Some(ReadStop::Again));
            }
            more -= 1;
            self.left_out = (self.left_out + 1).min(MOST_LEFT_OUT);
        }
        Ok(None)
    }

    fn accept_stored(&mut self, stored: Stored) -> Result<Option<ReadStop>> {
        let Stored { subject, seq, headers, payload, time } = stored;
        let wrong = || JetError::Protocol { what: "STREAM.MSG.GET".into(), answer: time.clone() };
        let nanos = nanoseconds(time.as_bytes()).ok_or_else(wrong)?;
        let found = DirectGetReply { stream: self.range.stream.clone(), subject, seq: seq as i64, nanos, more: None };
        self.accept_own(&headers, &payload, found)
    }

    fn accept_found(&mut self, message: &Message, found: DirectGetReply) -> Result<Option<ReadStop>> {
        self.accept_own(&own(message.raw_headers(), &found), message.payload(), found)
    }

    fn accept_own(&mut self, headers: &[u8], payload: &[u8], found: DirectGetReply) -> Result<Option<ReadStop>> {
        let DirectGetReply { subject, seq, nanos, .. } = found;
        if self.earliest && seq as u64 > self.next {
            self.next = seq as u64;
        }
        self.earliest = false;
        let message = Message::new(&subject, "", headers, payload);
        let stream = self.range.stream.clone();
        // The status that follows reports when nothing is pending.
        let pending = i64::MAX;
        let meta = AckSubject { stream: &stream, consumer: "", delivered: 1, seq, consumer_seq: 0, nanos, pending };
        self.accept(&message, &meta)
    }
}

/// Reads the status that ends a request: true if nothing is left, false if another request follows.
fn ended(message: &Message, subject: &str) -> Result<bool> {
    let (code, description) = message.status().unwrap_or_default();
    match code {
        204 => Ok(message.header("Nats-Num-Pending").is_none_or(|pending| pending == "0")),
        404 => Ok(true),
        503 => Err(JetError::NoResponders { subject: subject.to_owned() }),
        code => Err(JetError::Api { code: code.into(), err_code: 0, description, stream: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_added_by_the_server_are_removed() {
        let added = "Nats-Stream: S\r\nNats-Subject: a\r\nNats-Sequence: 7\r\n\
                     Nats-Time-Stamp: 2026-01-02T03:04:05Z\r\n";
        for (stored, wanted) in [
            ("NATS/1.0\r\n", ""),
            ("NATS/1.0\r\nA: 1\r\n", "NATS/1.0\r\nA: 1\r\n\r\n"),
            ("NATS/1.0\r\nNats-Stream: mine\r\nA: 1\r\n", "NATS/1.0\r\nNats-Stream: mine\r\nA: 1\r\n\r\n"),
            ("NATS/1.0\r\nNats-Sequence: 1\r\n", "NATS/1.0\r\nNats-Sequence: 1\r\n\r\n"),
            ("NATS/2.0\r\nno colon\r\n", "NATS/2.0\r\nno colon\r\n\r\n"),
        ] {
            for more in ["", "Nats-Num-Pending: 5\r\nNats-Last-Sequence: 6\r\n"] {
                let raw = format!("{stored}{added}{more}\r\n");
                let Some(found) = found(&Message::new("x", "", raw.as_bytes(), b"")) else { panic!("{raw:?}") };
                assert_eq!(own(raw.as_bytes(), &found), wanted.as_bytes(), "{raw:?}");
                let more = (!more.is_empty()).then_some((5, 6));
                assert_eq!((&*found.stream, &*found.subject, found.seq, found.more), ("S", "a", 7, more), "{raw:?}");
            }
        }
    }
}

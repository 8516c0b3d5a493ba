//! Reading by direct gets (ADR-31): nothing is consumed, so it is how work-queue and interest streams are read.
//!
//! A request names a sequence and how many messages; they come one by one, then a status that ends them. Any replica
//! may answer, so an end is believed only when the stream's leader confirms it (`nothing_left`). A mirror with
//! `mirror_direct` may answer too, and keep less than the stream: what it leaves out is asked of the leader.

use async_nats::{HeaderMap, Message};
use futures_util::{FutureExt, StreamExt};
use serde_json::json;

use super::malformed::MOST_CAREFUL;
use super::{Each, Range, Run, Stop, arrival};
use crate::engine::api::{StreamConfig, direct_get};
use crate::engine::columns::decode::nanoseconds;
use crate::engine::columns::meta::Meta;
use crate::engine::connection::traffic::Verb;
use crate::engine::receive::pull::PullInbox;
use crate::error::{JetError, Result};

/// What the server adds to a message's own headers, each as the last of its name.
const ADDED: [&str; 6] =
    ["Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending", "Nats-Last-Sequence"];

/// Whether the range is read by direct gets, where that can be done.
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

/// What a message of a direct get says about itself.
struct Found {
    /// Who answered: the stream, or a mirror of it.
    stream: String,
    subject: String,
    seq: i64,
    nanos: i64,
    /// What the request still has, and the sequence it had before; a server without batches says neither.
    more: Option<(i64, i64)>,
}

fn found(headers: &HeaderMap) -> Option<Found> {
    let text = |name: &str| headers.get_last(name).map(|value| value.as_str());
    let number = |name: &str| text(name)?.parse().ok();
    Some(Found {
        stream: text("Nats-Stream")?.to_owned(),
        subject: text("Nats-Subject")?.to_owned(),
        seq: number("Nats-Sequence")?,
        nanos: nanoseconds(text("Nats-Time-Stamp")?.as_bytes())?,
        more: number("Nats-Num-Pending").zip(number("Nats-Last-Sequence")),
    })
}

/// The headers that the message was stored with.
fn own(headers: &HeaderMap) -> Option<HeaderMap> {
    let mut own = HeaderMap::new();
    for (name, values) in headers.iter() {
        let text: &str = name.as_ref();
        let added = usize::from(ADDED.contains(&text));
        for value in values.iter().take(values.len().saturating_sub(added)) {
            own.append(name.clone(), value.clone());
        }
    }
    (!own.is_empty()).then_some(own)
}

impl Run {
    /// Gets until something ends it. `next` is always right, so that it can be called again.
    pub(super) async fn get(&mut self) -> Result<Stop> {
        let conn = self.conn.clone();
        let (breaks, silence, mut link) = (conn.breaks(), self.silence(), conn.link.clone());
        let subject = direct_get(&self.range.prefix, &self.range.stream);
        let mut inbox = PullInbox::for_subject(&conn, subject.clone(), Verb::Read)?;
        let filter = self.range.subjects.first().map_or(">", String::as_str).to_owned();
        loop {
            if !conn.link.borrow().up {
                return Ok(Stop::Renew);
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
                conn.traffic.received(Verb::Read, message.payload.len());
                let Some(found) = message.headers.as_ref().and_then(found) else {
                    if ended(&message, &subject)? {
                        return Ok(Stop::Dry);
                    }
                    break;
                };
                self.away = None;
                let (before, more) = (last.replace(found.seq), found.more);
                if before.is_some_and(|before| more.is_some_and(|(_, said)| said != before)) {
                    // A message was lost on its way; it is still in the stream.
                    return Ok(Stop::Renew);
                }
                if found.stream != self.range.stream
                    && let Some(stop) = self.take_what_is_left_out(found.seq as u64).await?
                {
                    return Ok(stop);
                }
                let stop = self.accept_found(message, found)?;
                if !self.flush_if_full().await? {
                    return Ok(Stop::Dropped);
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

    /// A mirror's next message is `seq`: takes what the leader has before it. None where that is nothing.
    async fn take_what_is_left_out(&mut self, seq: u64) -> Result<Option<Stop>> {
        if seq <= self.next {
            return Ok(None);
        }
        let mut most = self.careful * 2 + 1;
        while let Some(stored) = self.api().next_stored(&self.range.stream, self.next, &self.range.subjects).await?
            && stored.seq < seq
        {
            if most == 0 {
                // One by one is slow; the stream itself may answer the next request.
                return Ok(Some(Stop::Again));
            }
            most -= 1;
            self.careful = (self.careful + 1).min(MOST_CAREFUL);
            let stop = self.accept_stored(stored)?;
            if !self.flush_if_full().await? {
                return Ok(Some(Stop::Dropped));
            }
            // That nothing is pending is said by no single message.
            if let Some(stop @ Stop::End) = stop {
                return Ok(Some(stop));
            }
        }
        Ok(None)
    }

    fn accept_found(&mut self, message: Message, found: Found) -> Result<Option<Stop>> {
        let Found { subject, seq, nanos, .. } = found;
        if self.earliest && seq as u64 > self.next {
            self.next = seq as u64;
        }
        self.earliest = false;
        let headers = message.headers.as_ref().and_then(own);
        let message = Message { subject: subject.into(), reply: None, headers, ..message };
        let stream = self.range.stream.clone();
        // The status that follows says when nothing is pending.
        let pending = i64::MAX;
        let meta = Meta { stream: &stream, consumer: "", delivered: 1, seq, consumer_seq: 0, nanos, pending };
        self.accept(&message, &meta)
    }
}

/// What ends a request: true when there is nothing more, false when the next request goes on.
fn ended(message: &Message, subject: &str) -> Result<bool> {
    let pending = message.headers.as_ref().and_then(|headers| headers.get_last("Nats-Num-Pending"));
    match message.status.map_or(0, |status| status.as_u16()) {
        204 => Ok(pending.is_none_or(|pending| pending.as_str() == "0")),
        404 => Ok(true),
        503 => Err(JetError::NoResponders { subject: subject.to_owned() }),
        code => Err(JetError::Api {
            code: code.into(),
            err_code: 0,
            description: message.description.clone().unwrap_or_default(),
        }),
    }
}

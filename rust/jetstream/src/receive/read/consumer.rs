//! Read by an ephemeral pull consumer without acks, with several requests outstanding.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::latest::Latest;
use super::{DELETE_WAIT, INACTIVE_THRESHOLD, READ_RETRY_INTERVAL, REQUEST_EXPIRES, ReadLoop, ReadStop, arrival};
use crate::api::{Api, ConsumerInfo};
use crate::receive::prefetch::{OUTSTANDING_REQUESTS, Prefetch};
use crate::receive::pull::{PullInbox, PullOptions, Status, last_consumer_seq};
use base::error::Result;
use client::traffic::Verb;
use wire::message::Message;
use wire::unique;

/// Time without a message after which the request is repeated, if the consumer has more messages.
const MISSING_MESSAGE_TIMEOUT: Duration = Duration::from_millis(500);
/// Minimum number of messages of a request, because some may be malformed or deletion markers.
const MIN_CONSUMER_ROWS: usize = 128;

/// Key of the consumer's metadata whose value is its owner.
const OWNER_KEY: &str = "jetarrow.owner";
/// The server limits all metadata to 128 KiB.
const MAX_OWNER_LENGTH: usize = 1024;

pub struct Consumer {
    name: String,
    inbox: PullInbox,
    /// Requested messages not yet received.
    owed: usize,
    /// Last requests, including the outstanding ones, and the number of messages of each.
    asked: VecDeque<(u64, usize)>,
    pub demand: Prefetch,
    /// The next message exceeds `ask_bytes`, so it is requested alone, without a size limit.
    whole: bool,
    last_consumer_seq: i64,
    breaks: u64,
    /// The server has confirmed the consumer.
    made: bool,
    /// Pending messages of the consumer after the last received one.
    pending: i64,
    /// The outstanding messages were given up since the last message.
    gave_up: bool,
}

impl Consumer {
    /// Gives up the outstanding messages, if none arrives although there are more.
    ///
    /// The server does not report the end of a request that its messages filled to the last byte. Messages that still
    /// arrive are received in addition to the newly requested ones.
    fn give_up_owed(&mut self) {
        (self.owed, self.gave_up) = (0, true);
        self.asked.clear();
        self.demand.forget();
    }

    /// Returns the number of messages of this request, if it is one of the last.
    fn rows_of(&self, number: u64) -> Option<usize> {
        self.asked.iter().find(|(asked, _)| *asked == number).map(|(_, rows)| *rows)
    }
}

impl ReadLoop {
    /// Pulls until an event stops it. `next` is always current, so that it can be called again.
    pub(super) async fn pull(&mut self) -> Result<ReadStop> {
        if self.consumer.is_none() {
            let waiting = self.make_consumer().await?.num_pending;
            // After the consumer's creation: a rollback from here on removes the consumer.
            if !self.check_stream().await? {
                self.drop_consumer();
                return Ok(ReadStop::Again);
            }
            if !self.open_end() && self.next >= self.end {
                return Ok(ReadStop::End);
            }
            if waiting == 0 && !self.range.follow {
                return Ok(ReadStop::Dry);
            }
        }
        let mut link = self.conn.link.clone();
        let silence = self.silence();
        loop {
            if let Some(stop) = self.ask().await? {
                return Ok(stop);
            }
            let Some(consumer) = &mut self.consumer else { return Ok(ReadStop::Renew) };
            let breaks = consumer.breaks;
            let inbox = &mut consumer.inbox;
            let message = match inbox.messages.next().now_or_never().flatten() {
                Some(message) => message,
                None => {
                    let doubtful = consumer.pending > 0 && !consumer.gave_up && self.latest.is_none();
                    let max_silence = if doubtful { MISSING_MESSAGE_TIMEOUT.min(silence) } else { silence };
                    match arrival(inbox, &self.conn, &mut link, breaks, max_silence, &self.out).await? {
                        Ok(message) => message,
                        Err(ReadStop::Renew) if doubtful && self.conn.breaks() == breaks => {
                            consumer.give_up_owed();
                            continue;
                        }
                        Err(stop) => return Ok(stop),
                    }
                }
            };
            self.conn.traffic.received(Verb::Read, message.payload().len());
            let stop = self.accept_message(&message)?;
            if !self.flush_if_full().await? {
                return Ok(ReadStop::Dropped);
            }
            if let Some(stop) = stop {
                return Ok(stop);
            }
        }
    }

    /// Requests as much as may be outstanding.
    async fn ask(&mut self) -> Result<Option<ReadStop>> {
        let (open_end, silence, most) = (self.open_end(), self.silence(), self.most_wanted());
        let Some(consumer) = &mut self.consumer else { return Ok(Some(ReadStop::Renew)) };
        let (rows, ahead) = match &self.latest {
            Some(latest) if latest.by_subject() => {
                let rows = latest.rows(self.ask_bytes, self.conn.client.max_payload());
                (rows, if self.ask_bytes > self.range.fetch_bytes / 2 { 0 } else { rows })
            }
            _ => consumer.demand.rows(self.rows),
        };
        let missing = if open_end { u64::MAX } else { self.end - self.next };
        let missing = usize::try_from(missing).unwrap_or(usize::MAX).min(most);
        let mut sent = false;
        while consumer.owed <= ahead && consumer.owed < missing && !(consumer.whole && consumer.owed > 0) {
            if !self.conn.link.borrow().up {
                // A request would wait for the link, and its consumer may be gone by then.
                return Ok(Some(ReadStop::Renew));
            }
            let whole = std::mem::take(&mut consumer.whole);
            let batch = if whole { 1 } else { rows.min(missing - consumer.owed) };
            let request = PullOptions {
                batch,
                max_bytes: if whole { 0 } else { self.ask_bytes },
                expires: REQUEST_EXPIRES,
                heartbeat: silence / 3,
                no_wait: false,
            };
            let number = consumer.inbox.request(&self.conn, &request).await?;
            if consumer.asked.len() > OUTSTANDING_REQUESTS {
                consumer.asked.pop_front();
            }
            consumer.asked.push_back((number, batch));
            consumer.demand.asked(batch, consumer.owed);
            consumer.owed += batch;
            sent = true;
        }
        if sent {
            if consumer.owed < missing {
                consumer.demand.is_full(consumer.owed);
            }
            // The request is sent now, before more messages are processed.
            yield_now().await;
        }
        Ok(None)
    }

    fn accept_message(&mut self, message: &Message) -> Result<Option<ReadStop>> {
        let Some(consumer) = &mut self.consumer else { return Ok(Some(ReadStop::Renew)) };
        let Some(meta) = message.meta() else {
            return match consumer.inbox.status(message) {
                Some((_, Status::Heartbeat)) if last_consumer_seq(message) > Some(consumer.last_consumer_seq) => {
                    Ok(Some(ReadStop::Missed))
                }
                // A heartbeat: the outstanding messages may have been purged, and the requests would wait for them
                // forever, or the rows before them.
                Some((_, Status::Heartbeat)) if !self.range.follow || !self.builder.is_empty() => {
                    Ok(Some(ReadStop::Silent))
                }
                None | Some((_, Status::Heartbeat)) => Ok(None),
                Some((_, Status::Refused(err) | Status::Limited(_, err))) => Err(err),
                Some((_, Status::Gone(_))) => Ok(Some(ReadStop::Renew)),
                // "Batch Completed" overtakes the last messages of its request.
                Some((_, Status::Over { unserved: Some(0), too_large: false })) => Ok(None),
                Some((_, Status::Over { .. })) if self.latest.as_ref().is_some_and(Latest::by_subject) => {
                    self.latest.iter_mut().for_each(Latest::cut_short);
                    Ok(Some(ReadStop::Renew))
                }
                Some((number, Status::Over { unserved, too_large })) => {
                    // Otherwise the message had no room behind others.
                    let alone = unserved == consumer.rows_of(number);
                    match unserved {
                        Some(unserved) => {
                            consumer.owed = consumer.owed.saturating_sub(unserved);
                            consumer.demand.forget();
                        }
                        // The number of outstanding messages is unknown; a new consumer has none.
                        None => return Ok(Some(ReadStop::Renew)),
                    }
                    consumer.whole |= too_large && alone;
                    Ok((consumer.owed == 0 && !too_large).then_some(ReadStop::Dry))
                }
            };
        };
        let consumer_seq = meta.consumer_seq;
        if consumer_seq != consumer.last_consumer_seq + 1 {
            // A message was lost in transit; it is still in the stream.
            return Ok(Some(ReadStop::Renew));
        }
        consumer.last_consumer_seq = consumer_seq;
        consumer.owed = consumer.owed.saturating_sub(1);
        (consumer.pending, consumer.gave_up) = (meta.pending, false);
        consumer.demand.came(&self.conn, consumer.breaks);
        self.accept(message, &meta)
    }

    /// Returns the number of messages worth requesting. With a limit that is not many more than it, because others are
    /// in transit by then.
    fn most_wanted(&self) -> usize {
        match (self.range.limit, &self.latest) {
            // Most messages may yield no rows.
            (Some(_), Some(latest)) if !latest.by_subject() => usize::MAX,
            (Some(left), _) => (left as usize).saturating_sub(self.builder.len()).max(MIN_CONSUMER_ROWS),
            (None, _) => usize::MAX,
        }
    }

    fn open_end(&self) -> bool {
        self.latest.as_ref().is_some_and(Latest::open_end)
    }

    /// Creates the consumer at `next`.
    pub(super) async fn make_consumer(&mut self) -> Result<ConsumerInfo> {
        let name = format!("jetarrow-{}", unique::id()?);
        let inbox = PullInbox::new(&self.conn, &self.range.prefix, &self.range.stream, &name, Verb::Read)?;
        let body = self.consumer_request(&name);
        let breaks = self.conn.breaks();
        // Recorded before the request: a read that is closed meanwhile deletes it too.
        self.consumer = Some(Consumer {
            name: name.clone(),
            inbox,
            owed: 0,
            asked: VecDeque::new(),
            demand: Prefetch::new(
                &self.conn,
                self.range.fetch_bytes,
                self.mean,
                self.range.fetch_bytes / self.ask_bytes,
            ),
            whole: false,
            last_consumer_seq: 0,
            breaks,
            made: false,
            pending: 0,
            gave_up: false,
        });
        let asked = Instant::now();
        let info = self.api().create_consumer(&self.range.stream, &name, &body).await?;
        self.away = None;
        if let Some(consumer) = &mut self.consumer {
            consumer.made = true;
            consumer.demand.small(asked.elapsed());
        }
        // The server silently accepts a start below the stream's head; this is the actual start.
        let effective = info.delivered.stream_seq + 1;
        if effective > self.next && !self.latest.as_ref().is_some_and(Latest::by_subject) {
            if !self.earliest && self.latest.is_none() {
                self.lost(self.next, effective, self.builder.len()).await?;
            }
            self.next = effective;
        }
        self.earliest = false;
        Ok(info)
    }

    /// Returns the request that creates a consumer at `next`.
    fn consumer_request(&self, name: &str) -> Value {
        let mut body = json!({
            "stream_name": self.range.stream,
            "action": "create",
            "config": {
                "name": name,
                "ack_policy": "none",
                "mem_storage": true,
                "num_replicas": 1,
                "inactive_threshold": INACTIVE_THRESHOLD.as_nanos() as u64,
                "metadata": {OWNER_KEY: self.owner()},
            },
        });
        if self.bare || self.latest.as_ref().is_some_and(Latest::headers_only) {
            body["config"]["headers_only"] = json!(true);
        }
        if self.latest.as_ref().is_some_and(Latest::by_subject) {
            body["config"]["deliver_policy"] = json!("last_per_subject");
        } else {
            body["config"]["deliver_policy"] = json!("by_start_sequence");
            body["config"]["opt_start_seq"] = json!(self.next);
        }
        match self.range.subjects.as_slice() {
            // `last_per_subject` requires a filter.
            [] if self.latest.is_some() => body["config"]["filter_subject"] = json!(">"),
            [] => {}
            [one] => body["config"]["filter_subject"] = json!(one),
            several => body["config"]["filter_subjects"] = json!(several),
        }
        body
    }

    /// Returns the name of the connection, or the process: whose consumer this is, for those who list consumers.
    fn owner(&self) -> String {
        let name = self.conn.state.settings.name.clone();
        name.filter(|name| !name.is_empty() && name.len() <= MAX_OWNER_LENGTH)
            .unwrap_or_else(|| format!("pid {}", std::process::id()))
    }

    /// Deletes the consumer in the background. It is best effort, because the server deletes an inactive consumer
    /// itself. Only the reader's `close` and the exit of the process wait for it.
    pub(super) fn drop_consumer(&mut self) {
        let Some(Consumer { name, made, .. }) = self.consumer.take() else { return };
        if !self.conn.link.borrow().up {
            return;
        }
        let first = self.api().within(DELETE_WAIT).delete_consumer(&self.range.stream, &name);
        let (conn, prefix, stream) = (self.conn.clone(), self.range.prefix.clone(), self.range.stream.clone());
        let leaving = self.leaving.clone();
        runtime::linger(async move {
            let answered = first.await;
            if answered && !made {
                // The server may still have been creating it.
                sleep(READ_RETRY_INTERVAL).await;
                let _gone_or_not = Api::new(&conn, &prefix).within(DELETE_WAIT).delete_consumer(&stream, &name).await;
            }
            drop(leaving);
        });
    }
}

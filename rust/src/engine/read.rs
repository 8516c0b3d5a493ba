//! Reading an exact range [start, end) of a stream in order, without a durable consumer.
//!
//! An ephemeral consumer that needs no acks is pulled with two requests outstanding. It is thrown away and made anew at
//! the next sequence whenever anything is in doubt: a broken link, a missed heartbeat, a gap in its own count. The end is
//! believed when the last sequence was seen, or when the stream itself says that nothing lies between: a consumer's
//! `pending == 0` is no proof, it may sit on a replica that lags behind.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Message;
use futures_util::{FutureExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep};

use crate::engine::columns::{Batch, Builder, Layout, Meta, parse_meta};
use crate::engine::connect::Connection;
use crate::engine::pull::{Ask, PROTOCOL_LINE, PULL_BYTES, PULL_ROWS, Puller, Status};
use crate::engine::request::api;
use crate::engine::typed::Typed;
use crate::error::{JetError, Loss, Result};

/// The consumer removes itself when we vanish.
const INACTIVE: Duration = Duration::from_secs(30);
const EXPIRES: Duration = Duration::from_secs(20);
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long a read goes on trying while the server is away.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the answer to the consumer's end is waited for.
const FAREWELL: Duration = Duration::from_millis(250);
const RETRY: Duration = Duration::from_millis(250);

#[derive(Clone, Debug)]
pub struct Range {
    pub prefix: String,
    pub stream: String,
    pub start: Bound,
    /// Exclusive. Open, or beyond the end: one past the last message at opening.
    pub end: Bound,
    /// Filters; none is all.
    pub subjects: Vec<String>,
    /// Goes on with new messages, without end.
    pub follow: bool,
    pub batch_rows: usize,
    pub batch_bytes: usize,
    pub warn_on_loss: bool,
    pub layout: Layout,
}

/// Where a range begins or ends.
#[derive(Clone, Debug)]
pub enum Bound {
    Open,
    Seq(u64),
    /// The first message at or after this time (RFC 3339).
    Time(String),
}

/// What comes out of a reader: finished batches, and losses that are only to be reported.
#[allow(clippy::large_enum_variant)] // almost every item is a batch
pub enum Item {
    Batch(Batch),
    Loss(Loss),
}

pub struct Reader {
    items: mpsc::Receiver<Result<Item>>,
    task: tokio::task::JoinHandle<()>,
    pub start: u64,
    pub end: u64,
}

impl Reader {
    /// `typed` turns each batch's payloads into typed columns.
    pub async fn open(conn: Arc<Connection>, range: Range, typed: Option<Typed>) -> Result<Reader> {
        let info: StreamInfo =
            api(&conn, &range.prefix, &format!("STREAM.INFO.{}", range.stream), &Value::Null).await?;
        let past = info.state.last_seq + 1;
        let start = match &range.start {
            Bound::Open => info.state.first_seq,
            Bound::Seq(seq) => *seq,
            Bound::Time(time) => first_at(&conn, &range, time).await?.unwrap_or(past),
        };
        let end = match &range.end {
            _ if range.follow => u64::MAX,
            Bound::Open => past,
            Bound::Seq(seq) => past.min(*seq),
            Bound::Time(time) => first_at(&conn, &range, time).await?.map_or(past, |seq| past.min(seq)),
        };
        let start = start.max(1);
        // Two finished batches at most: one in the channel, one being handed over.
        let (out, items) = mpsc::channel(1);
        let mean = (info.state.bytes / info.state.messages.max(1)).max(1) as usize;
        let rows = (PULL_BYTES / 2 / mean).clamp(1, PULL_ROWS);
        let builder = Builder::new(range.layout.clone(), false);
        let run = Run {
            earliest: !matches!(range.start, Bound::Seq(_)),
            created: info.created,
            next: start,
            consumer: None,
            gap: None,
            conn,
            range,
            end,
            rows,
            builder,
            typed,
            out,
        };
        Ok(Reader { items, task: tokio::spawn(unconstrained(run.drive())), start, end })
    }

    /// The next item; `None` when the range is read.
    pub async fn next(&mut self) -> Option<Result<Item>> {
        self.items.recv().await
    }

    pub async fn close(&mut self) {
        // The task sees the closed channel, deletes its consumer and ends.
        self.items.close();
        while self.items.recv().await.is_some() {}
        let _ = (&mut self.task).await;
    }
}

#[derive(Deserialize)]
struct Found {
    message: FoundMessage,
}

#[derive(Deserialize)]
struct FoundMessage {
    seq: u64,
}

/// Asks the stream's leader for a message; `None` where there is none.
async fn find(conn: &Connection, range: &Range, what: Value) -> Result<Option<u64>> {
    let verb = format!("STREAM.MSG.GET.{}", range.stream);
    match api::<Found>(conn, &range.prefix, &verb, &what).await {
        Ok(found) => Ok(Some(found.message.seq)),
        Err(JetError::Api { code: 404, .. }) => Ok(None),
        Err(err) => Err(err),
    }
}

async fn first_at(conn: &Connection, range: &Range, time: &str) -> Result<Option<u64>> {
    find(conn, range, json!({"start_time": time})).await
}

#[derive(Deserialize)]
struct StreamInfo {
    created: String,
    state: StreamState,
}

#[derive(Deserialize)]
struct StreamState {
    messages: u64,
    bytes: u64,
    first_seq: u64,
    last_seq: u64,
}

#[derive(Deserialize)]
struct ConsumerInfo {
    num_pending: u64,
    delivered: Delivered,
}

#[derive(Deserialize)]
struct Delivered {
    stream_seq: u64,
}

struct Consumer {
    name: String,
    puller: Puller,
    /// Messages asked for and not yet come.
    owed: usize,
    last_consumer_seq: i64,
    breaks: u64,
}

/// Why the message loop stopped.
enum Stop {
    End,
    /// The consumer is of no use any more.
    Renew,
    /// Everything that the consumer had has come: is that all?
    Dry,
    /// Nobody reads any more.
    Dropped,
}

/// An answer that a server gives while it, or the stream's leader, is coming back.
fn passing(err: &JetError) -> bool {
    matches!(err, JetError::Timeout { .. } | JetError::NoResponders { .. } | JetError::Api { code: 503, .. })
}

struct Run {
    conn: Arc<Connection>,
    range: Range,
    created: String,
    end: u64,
    /// The first sequence that has not been seen.
    next: u64,
    /// Reads from whatever is first: a head that moves before the first message is no loss.
    earliest: bool,
    /// Messages in one request.
    rows: usize,
    builder: Builder,
    typed: Option<Typed>,
    out: mpsc::Sender<Result<Item>>,
    consumer: Option<Consumer>,
    /// The lowest sequence missing in the rows of the builder: deleted, or lost to retention?
    gap: Option<u64>,
}

impl Run {
    async fn drive(mut self) {
        if let Err(err) = self.read().await {
            let _ = self.out.send(Err(err)).await;
        }
        self.drop_consumer().await;
    }

    async fn read(&mut self) -> Result<()> {
        let mut trouble: Option<Instant> = None;
        while self.next < self.end {
            let stop = match self.pull().await {
                Ok(stop) => {
                    trouble = None;
                    stop
                }
                Err(err) if passing(&err) && trouble.get_or_insert_with(Instant::now).elapsed() < PATIENCE => {
                    Stop::Renew
                }
                Err(err) => return Err(err),
            };
            match stop {
                Stop::End => break,
                Stop::Dropped => return Ok(()),
                Stop::Dry if self.range.follow => {
                    // Nobody waits for messages that are here.
                    if !self.hand_out().await? {
                        return Ok(());
                    }
                }
                Stop::Dry => {
                    if self.nothing_left().await? {
                        break;
                    }
                    // The consumer's replica lags behind the stream's leader.
                    sleep(RETRY).await;
                }
                Stop::Renew => {
                    self.drop_consumer().await;
                    let mut link = self.conn.link.clone();
                    match tokio::time::timeout(PATIENCE, link.wait_for(|l| l.up || l.closed)).await {
                        Ok(Ok(link)) if !link.closed => {}
                        Err(_) => {
                            return Err(JetError::Timeout {
                                what: format!("reading stream {:?} (no connection)", self.range.stream),
                                after: PATIENCE,
                            });
                        }
                        _ => return Err(self.conn.closed()),
                    }
                    sleep(RETRY).await;
                    self.check_stream().await?;
                }
            }
        }
        self.hand_out().await?;
        Ok(())
    }

    /// Pulls until something ends it. `next` is always right, so that it can be called again.
    async fn pull(&mut self) -> Result<Stop> {
        if self.consumer.is_none() {
            let waiting = self.make_consumer().await?;
            if self.next >= self.end {
                return Ok(Stop::End);
            }
            if waiting == 0 && !self.range.follow {
                return Ok(Stop::Dry);
            }
        }
        let mut link = self.conn.link.clone();
        // A message as large as this server allows has to fit; where that is more than half, one request is enough.
        let max_bytes = (PULL_BYTES / 2).max(self.conn.client.max_payload() + PROTOCOL_LINE);
        let ahead = if max_bytes > PULL_BYTES / 2 { 0 } else { self.rows };
        loop {
            let Some(consumer) = &mut self.consumer else { return Ok(Stop::Renew) };
            let missing = usize::try_from(self.end - self.next).unwrap_or(usize::MAX);
            while consumer.owed <= ahead && consumer.owed < missing {
                let batch = self.rows.min(missing - consumer.owed);
                let ask = Ask { batch, max_bytes, expires: EXPIRES, heartbeat: HEARTBEAT, no_wait: false };
                consumer.puller.ask(&self.conn, &ask).await?;
                consumer.owed += batch;
            }
            let message = match consumer.puller.messages.next().now_or_never() {
                Some(message) => message,
                None => {
                    tokio::select! {
                        biased;
                        message = consumer.puller.messages.next() => message,
                        () = self.out.closed() => return Ok(Stop::Dropped),
                        Ok(()) = link.changed() => {
                            if self.conn.breaks() != consumer.breaks {
                                return Ok(Stop::Renew);
                            }
                            if let Some(cause) = consumer.puller.refused() {
                                return Err(cause);
                            }
                            continue;
                        }
                        () = sleep(HEARTBEAT * 3) => return Ok(Stop::Renew),
                    }
                }
            };
            let Some(message) = message else { return Err(self.conn.closed()) };
            self.conn.traffic.received(message.payload.len());
            let stop = self.take(&message)?;
            let full = self.builder.len() >= self.range.batch_rows || self.builder.bytes() >= self.range.batch_bytes;
            if full && !self.hand_out().await? {
                return Ok(Stop::Dropped);
            }
            if let Some(stop) = stop {
                return Ok(stop);
            }
        }
    }

    fn take(&mut self, message: &Message) -> Result<Option<Stop>> {
        let Some(consumer) = &mut self.consumer else { return Ok(Some(Stop::Renew)) };
        let Some(meta) = message.reply.as_deref().and_then(parse_meta) else {
            return match consumer.puller.status(message) {
                None | Some((_, Status::Heartbeat)) => Ok(None),
                Some((_, Status::Refused(err))) => Err(err),
                Some((_, Status::Gone(_))) => Ok(Some(Stop::Renew)),
                Some((_, Status::Over { unserved, too_large })) => {
                    match unserved {
                        Some(unserved) => consumer.owed = consumer.owed.saturating_sub(unserved),
                        // Nobody knows what is owed; a new consumer owes nothing.
                        None => return Ok(Some(Stop::Renew)),
                    }
                    Ok((consumer.owed == 0 && !too_large).then_some(Stop::Dry))
                }
            };
        };
        let Meta { seq, consumer_seq, pending, .. } = meta;
        let seq = seq as u64;
        if consumer_seq != consumer.last_consumer_seq + 1 {
            // A message was lost on its way; it is still in the stream.
            return Ok(Some(Stop::Renew));
        }
        consumer.last_consumer_seq = consumer_seq;
        consumer.owed = consumer.owed.saturating_sub(1);
        if seq >= self.end {
            self.next = self.end;
            return Ok(Some(Stop::End));
        }
        if seq > self.next && self.gap.is_none() {
            self.gap = Some(self.next);
        }
        self.next = seq + 1;
        self.builder.push(message, &meta)?;
        Ok(match (self.next >= self.end, pending) {
            (true, _) => Some(Stop::End),
            (false, 0) => Some(Stop::Dry),
            _ => None,
        })
    }

    /// Finishes the batch; false when nobody takes it.
    async fn hand_out(&mut self) -> Result<bool> {
        if let Some(gap) = self.gap.take() {
            self.report_loss_since(gap).await?;
        }
        if self.builder.is_empty() {
            return Ok(true);
        }
        let mut batch = self.builder.finish()?;
        if let Some(typed) = &mut self.typed {
            batch = typed.apply(batch)?;
            if batch.record.num_rows() == 0 {
                return Ok(true);
            }
        }
        Ok(self.out.send(Ok(Item::Batch(batch))).await.is_ok())
    }

    /// A gap is deleted messages, which is fine, or the head of the stream has moved past it, which is loss.
    async fn report_loss_since(&mut self, gap: u64) -> Result<()> {
        let first = self.stream_info().await?.state.first_seq;
        if first > gap { self.lost(gap, first).await } else { Ok(()) }
    }

    async fn lost(&mut self, from: u64, first: u64) -> Result<()> {
        let loss = Loss { stream: self.range.stream.clone(), asked: (from, self.end), available: first };
        // With a filter nobody can know whether what is gone would have matched.
        if !self.range.warn_on_loss && self.range.subjects.is_empty() {
            return Err(JetError::DataLoss(Box::new(loss)));
        }
        let _ = self.out.send(Ok(Item::Loss(loss))).await;
        Ok(())
    }

    async fn stream_info(&self) -> Result<StreamInfo> {
        api(&self.conn, &self.range.prefix, &format!("STREAM.INFO.{}", self.range.stream), &Value::Null).await
    }

    async fn check_stream(&self) -> Result<()> {
        match self.stream_info().await {
            Ok(info) if info.created != self.created => {
                Err(JetError::StreamRecreated { stream: self.range.stream.clone() })
            }
            Err(err) if !passing(&err) => Err(err),
            _ => Ok(()),
        }
    }

    /// Asks the stream's leader for the next message there is, for each filter in turn.
    async fn nothing_left(&self) -> Result<bool> {
        let all = [">".to_owned()];
        let filters = if self.range.subjects.is_empty() { &all[..] } else { &self.range.subjects };
        for filter in filters {
            let next = find(&self.conn, &self.range, json!({"seq": self.next, "next_by_subj": filter})).await?;
            if next.is_some_and(|seq| seq < self.end) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes the consumer at `next`; returns how many messages it has.
    async fn make_consumer(&mut self) -> Result<u64> {
        // The random part of an inbox is as unique as a name has to be.
        let inbox = self.conn.client.new_inbox();
        let name = format!("jetarrow-{}", inbox.rsplit('.').next().unwrap_or_default());
        let puller = Puller::new(&self.conn, &self.range.prefix, &self.range.stream, &name).await?;
        let mut body = json!({
            "stream_name": self.range.stream,
            "action": "create",
            "config": {
                "name": name,
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": self.next,
                "ack_policy": "none",
                "mem_storage": true,
                "num_replicas": 1,
                "inactive_threshold": INACTIVE.as_nanos() as u64,
            },
        });
        match self.range.subjects.as_slice() {
            [] => {}
            [one] => body["config"]["filter_subject"] = json!(one),
            several => body["config"]["filter_subjects"] = json!(several),
        }
        let breaks = self.conn.breaks();
        let verb = format!("CONSUMER.CREATE.{}.{name}", self.range.stream);
        let info: ConsumerInfo = api(&self.conn, &self.range.prefix, &verb, &body).await?;
        self.consumer = Some(Consumer { name, puller, owed: 0, last_consumer_seq: 0, breaks });
        // A consumer that starts below the head is accepted in silence; this is where it really starts.
        let effective = info.delivered.stream_seq + 1;
        if effective > self.next {
            if !self.earliest {
                self.lost(self.next, effective).await?;
            }
            self.next = effective;
        }
        self.earliest = false;
        Ok(info.num_pending)
    }

    async fn drop_consumer(&mut self) {
        if let Some(consumer) = self.consumer.take()
            && self.conn.link.borrow().up
        {
            let verb = format!("CONSUMER.DELETE.{}.{}", self.range.stream, consumer.name);
            // Best effort: it also removes itself when nobody pulls, and who stops reading does not want to wait.
            let delete = api::<Value>(&self.conn, &self.range.prefix, &verb, &Value::Null);
            let _late = tokio::time::timeout(FAREWELL, delete).await;
        }
    }
}

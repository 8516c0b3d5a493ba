//! Reads an exact range [start, end) of a stream in order, without a durable consumer.
//!
//! It pulls from an ephemeral consumer without acks, with several requests outstanding. On a disconnect, a missed
//! heartbeat or a gap in the consumer's sequence the consumer is replaced by one at the next sequence.
//!
//! The end counts as reached at the last sequence, or if the stream's leader confirms that no message is left. A
//! consumer's `pending == 0` is no proof, because the consumer's replica may lag behind.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::receive::batch_builder::BatchBuilder;
use crate::receive::rollback::{Mark, Marks, Rollback};
use crate::receive::typed::Typed;
use base::error::{JetError, Loss, Result};
use client::Connection;
use columns::batch::Batch;
use columns::unpack::Unpack;
use runtime::task::{Spot, weak_spot};
use wire::ack_subject::AckSubject;
use wire::message::Message;

mod arrival;
mod by_time;
mod consumer;
mod direct;
mod flush;
mod latest;
mod range;
mod reader;
mod request_sizes;
mod rolled_back;
mod stall;
mod stream;

use arrival::{ReadStop, arrival};
use consumer::Consumer;
use latest::Latest;
pub use range::{Bound, Each, OnRollback, Range};
pub use reader::Reader;
use request_sizes::{Place, RequestSizes};
use stall::Stall;

/// Inactivity after which the server deletes the consumer, and the expiry of requests.
const INACTIVE_THRESHOLD: Duration = Duration::from_secs(30);
const REQUEST_EXPIRES: Duration = Duration::from_secs(20);
/// Silence after which the server counts as unavailable. Heartbeats arrive three times as often.
const READ_SILENCE_TIMEOUT: Duration = Duration::from_secs(6);
/// Default time for which a read retries while no server answers.
pub const MAX_OUTAGE: Duration = Duration::from_secs(60);
/// Maximum wait for the response to the consumer's deletion.
const DELETE_WAIT: Duration = Duration::from_millis(250);
const READ_RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Average message size in bytes from which on unneeded payloads are not requested. Without the payload the server adds
/// a header with its size, which costs more than a small payload.
const LARGE_MESSAGE: usize = 1024;
/// Approximate size of a message without its payload.
const BARE_MESSAGE: usize = 256;
/// Approximate overhead that the server counts in addition to the stored size.
const MESSAGE_OVERHEAD: usize = 128;

/// Item of a reader: a batch, or a report of lost messages or a rolled back stream.
#[allow(clippy::large_enum_variant)] // almost every item is a batch
pub enum Item {
    Batch(Batch),
    Loss(Loss),
    RolledBack(Box<Rollback>),
}

/// Conversion of messages to batches.
#[allow(clippy::large_enum_variant)] // there is one of them
pub enum ReadFormat {
    Messages,
    /// Payloads become typed columns.
    Typed(Typed),
    /// Each payload holds rows.
    Tables(Unpack),
}

type ReadOutput = mpsc::Sender<Result<(Item, Place)>>;

struct ReadLoop {
    conn: Arc<Connection>,
    range: Range,
    created: String,
    end: u64,
    /// First sequence that was not received yet.
    next: u64,
    /// The range starts at the first stored message. A head that moves before the first message is no loss.
    earliest: bool,
    /// The server omits payloads.
    bare: bool,
    /// Average size of a message; maximum messages and bytes of one request.
    mean: usize,
    rows: usize,
    ask_bytes: usize,
    direct: bool,
    latest: Option<Latest>,
    builder: BatchBuilder,
    form: ReadFormat,
    sizes: RequestSizes,
    out: ReadOutput,
    /// Held by each task that deletes a consumer.
    leaving: mpsc::Sender<Infallible>,
    consumer: Option<Consumer>,
    /// Lowest sequence missing in the builder's rows, deleted or lost to retention, and the number of rows before it.
    gap: Option<(u64, usize)>,
    /// Time since which no server has answered.
    away: Option<Instant>,
    /// Time without progress, although the stream may have more messages.
    stall: Option<Stall>,
    /// Number of disconnects at the last check.
    breaks: u64,
    /// Last accepted message, and older ones.
    last: Option<Mark>,
    marks: Marks,
    /// The stream's last message when the read was opened.
    opened: Option<Mark>,
    /// The stream must be compared with the marks before the next message is read.
    doubtful: bool,
    /// First sequence of the range.
    start: u64,
    /// Number of messages that a mirror has omitted.
    left_out: u32,
}

impl ReadLoop {
    async fn drive(mut self) {
        let (out, conn) = (self.out.clone(), self.conn.clone());
        tokio::select! {
            biased;
            done = self.read() => if let Err(err) = done {
                let _ = out.send(Err(err)).await;
            },
            // Ends any wait: the server may not answer any more.
            () = conn.state.ending() => {
                let _ = out.send(Err(conn.closed())).await;
            }
            // Ends any wait.
            () = out.closed() => {}
        }
        self.drop_consumer();
        self.consumer = self.latest.as_mut().and_then(Latest::parked);
        self.drop_consumer();
    }

    async fn read(&mut self) -> Result<()> {
        while self.latest.is_some() || self.next < self.end {
            weak_spot(Spot::Reader);
            let stop = match self.advance().await {
                Ok(ReadStop::Renew) => ReadStop::Renew,
                Ok(stop) => {
                    self.away = None;
                    stop
                }
                Err(err) if err.is_transient() && !self.outage_left().is_zero() => ReadStop::Renew,
                // An error of the server is more specific than "no server has answered".
                Err(JetError::Timeout { .. } | JetError::Unanswered { .. }) => return Err(self.away_too_long()),
                Err(err) => return Err(err),
            };
            match stop {
                ReadStop::End => break,
                ReadStop::Again => {}
                ReadStop::Missed => {
                    self.check_stall()?;
                    self.drop_consumer();
                    self.renew_latest().await?;
                }
                ReadStop::Dropped => return Ok(()),
                ReadStop::Dry | ReadStop::Silent if self.range.follow => {
                    // The available rows are sent before the wait for more.
                    if !self.flush_over_outages().await? {
                        return Ok(());
                    }
                }
                ReadStop::Dry | ReadStop::Silent => {
                    if self.latest.is_some() {
                        // The last message may have been deleted, so that its predecessor is the last now.
                        self.drop_consumer();
                        self.renew_latest().await?;
                    }
                    self.check_stall()?;
                    sleep(READ_RETRY_INTERVAL).await;
                }
                ReadStop::Renew => {
                    self.drop_consumer();
                    self.until_linked().await?;
                    if !self.range.follow {
                        self.check_stall()?;
                    }
                    sleep(READ_RETRY_INTERVAL).await;
                    self.doubtful = true;
                    let breaks = self.conn.breaks();
                    let broken = std::mem::replace(&mut self.breaks, breaks) != breaks;
                    self.renew_latest().await?;
                    // With `follow` the available rows are sent at once, because the next message may be far off.
                    if broken && self.range.follow && !self.flush_over_outages().await? {
                        return Ok(());
                    }
                }
            }
        }
        self.flush_over_outages().await?;
        Ok(())
    }

    /// Reads until an event stops it. `End` is the end of the read, and `Dry` a possible end.
    async fn advance(&mut self) -> Result<ReadStop> {
        let stop = if self.direct { self.get().await? } else { self.pull().await? };
        let dry = matches!(stop, ReadStop::Dry | ReadStop::Silent) && !self.range.follow;
        if dry && self.nothing_left().await? {
            if self.latest.is_none() {
                // The message was deleted, or the head of the stream moved past it.
                self.gap.get_or_insert((self.next, self.builder.len()));
            }
        } else if !matches!(stop, ReadStop::End) {
            // If values are overwritten, the consumer's count is too low.
            let miscounted = matches!(stop, ReadStop::Dry) && self.latest.is_some();
            return Ok(if miscounted { ReadStop::Again } else { stop });
        }
        Ok(if self.next_stage().await? { ReadStop::Again } else { ReadStop::End })
    }

    /// Accepts the next message of the range, or the first beyond it. The caller then calls `flush_if_full`.
    fn accept(&mut self, message: &Message, meta: &AckSubject<'_>) -> Result<Option<ReadStop>> {
        if self.latest.is_some() {
            return self.accept_latest(message, meta);
        }
        let seq = meta.seq as u64;
        if seq > self.next && self.gap.is_none() {
            self.gap = Some((self.next, self.builder.len()));
        }
        if seq >= self.end {
            self.next = self.end;
            return Ok(Some(ReadStop::End));
        }
        self.next = seq + 1;
        self.stall = None;
        self.last = Some(Mark { seq, nanos: meta.nanos });
        self.keep(message, meta)?;
        Ok(match (self.next >= self.end, meta.pending) {
            (true, _) => Some(ReadStop::End),
            (false, 0) => Some(ReadStop::Dry),
            _ => None,
        })
    }

    fn keep(&mut self, message: &Message, meta: &AckSubject<'_>) -> Result<()> {
        self.conn.state.report_malformed(message, Some(meta));
        self.builder.push(message, meta)
    }
}

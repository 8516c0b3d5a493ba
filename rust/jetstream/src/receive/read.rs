//! Reading an exact range [start, end) of a stream in order, without a durable consumer.
//!
//! An ephemeral consumer that needs no acks is pulled with some requests outstanding. It is thrown away and made anew at
//! the next sequence whenever anything is in doubt: a broken link, a missed heartbeat, a gap in its own count. The end
//! is believed when the last sequence was seen, or when the stream itself says that nothing lies between: a consumer's
//! `pending == 0` is no proof, it may sit on a replica that lags behind.

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
mod stream;

use arrival::{ReadStop, arrival};
use consumer::Consumer;
use latest::Latest;
pub use range::{Bound, Each, OnRollback, Range};
pub use reader::Reader;
use request_sizes::{Place, RequestSizes};

/// The consumer removes itself when we vanish.
const INACTIVE: Duration = Duration::from_secs(30);
const EXPIRES: Duration = Duration::from_secs(20);
/// After so long without a sign of the server it is taken for away. It gives one three times as often.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(6);
/// For how long a read goes on trying while no server answers, where nobody says otherwise.
pub const OUTAGE: Duration = Duration::from_secs(60);
/// How long the answer to the consumer's deletion is waited for.
const DELETE_WAIT: Duration = Duration::from_millis(250);
const READ_RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// From so many bytes a message on, on average, a payload that nobody reads is not asked for. Without it the server sends
/// a header that says its size, and that costs more than a small payload.
const LARGE_MESSAGE: usize = 1024;
/// About what one has without its payload.
const BARE: usize = 256;
/// About what the server counts beside what is stored.
const REPLY: usize = 128;

/// What comes out of a reader: finished batches; and losses, and a stream that went back, which are only to be reported.
#[allow(clippy::large_enum_variant)] // almost every item is a batch
pub enum Item {
    Batch(Batch),
    Loss(Loss),
    RolledBack(Box<Rollback>),
}

/// What becomes of messages.
#[allow(clippy::large_enum_variant)] // there is one of them
pub enum ReadFormat {
    Messages,
    /// Their payloads are typed columns.
    Typed(Typed),
    /// Each holds rows.
    Tables(Unpack),
}

type ReadOutput = mpsc::Sender<Result<(Item, Place)>>;

struct ReadLoop {
    conn: Arc<Connection>,
    range: Range,
    created: String,
    end: u64,
    /// The first sequence that has not been seen.
    next: u64,
    /// Reads from whatever is first: a head that moves before the first message is no loss.
    earliest: bool,
    /// The server leaves payloads out.
    bare: bool,
    /// Bytes of a message, on average; most messages in one request, and bytes.
    mean: usize,
    rows: usize,
    ask_bytes: usize,
    direct: bool,
    latest: Option<Latest>,
    builder: BatchBuilder,
    form: ReadFormat,
    sizes: RequestSizes,
    out: ReadOutput,
    /// Whoever deletes a consumer has one.
    leaving: mpsc::Sender<Infallible>,
    consumer: Option<Consumer>,
    /// The lowest sequence missing in the rows of the builder: deleted, or lost to retention?
    gap: Option<u64>,
    /// Since when no server has answered.
    away: Option<Instant>,
    /// How often the link had broken when it was last looked at.
    breaks: u64,
    /// The last message that was accepted, and older ones.
    last: Option<Mark>,
    marks: Marks,
    /// The stream's last message when the read was opened.
    opened: Option<Mark>,
    /// The stream is to be compared with the marks before anything is read.
    doubtful: bool,
    /// The first sequence of the range.
    start: u64,
    /// How many messages a mirror has left out.
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
            // Whatever it waits for: the server may not answer any more.
            () = conn.hub.ending() => {
                let _ = out.send(Err(conn.closed())).await;
            }
            // Whatever it waits for.
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
                // What the server says tells more than that none has answered.
                Err(JetError::Timeout { .. } | JetError::Unanswered { .. }) => return Err(self.away_too_long()),
                Err(err) => return Err(err),
            };
            match stop {
                ReadStop::End => break,
                ReadStop::Again => {}
                ReadStop::Dropped => return Ok(()),
                ReadStop::Dry | ReadStop::Silent if self.range.follow => {
                    // What is here goes out before the wait for more.
                    if !self.flush().await? {
                        return Ok(());
                    }
                }
                ReadStop::Dry | ReadStop::Silent => {
                    if self.latest.is_some() {
                        // What was last may be gone, and what was before it is the last now.
                        self.drop_consumer();
                        self.renew_latest().await?;
                    }
                    // The consumer's replica lags behind the stream's leader.
                    sleep(READ_RETRY_INTERVAL).await;
                }
                ReadStop::Renew => {
                    self.drop_consumer();
                    let mut link = self.conn.link.clone();
                    match tokio::time::timeout(self.outage_left(), link.wait_for(|l| l.up || l.closed)).await {
                        Ok(Ok(link)) if !link.closed => {}
                        Err(_) => return Err(self.away_too_long()),
                        _ => return Err(self.conn.closed()),
                    }
                    sleep(READ_RETRY_INTERVAL).await;
                    self.doubtful = true;
                    let breaks = self.conn.breaks();
                    let broken = std::mem::replace(&mut self.breaks, breaks) != breaks;
                    self.renew_latest().await?;
                    // Who follows gets what is there; nothing may come after it for long.
                    if broken && self.range.follow && !self.flush().await? {
                        return Ok(());
                    }
                }
            }
        }
        self.flush().await?;
        Ok(())
    }

    /// Reads until something ends it. `End` is the end of the read, and `Dry` a doubt about it.
    async fn advance(&mut self) -> Result<ReadStop> {
        let stop = if self.direct { self.get().await? } else { self.pull().await? };
        let dry = matches!(stop, ReadStop::Dry | ReadStop::Silent) && !self.range.follow;
        if dry && self.nothing_left().await? {
            if self.latest.is_none() {
                // Deleted, or did the head of the stream move past it?
                self.gap.get_or_insert(self.next);
            }
        } else if !matches!(stop, ReadStop::End) {
            // Where values are overwritten, the consumer counts less than it has.
            let miscounted = matches!(stop, ReadStop::Dry) && self.latest.is_some();
            return Ok(if miscounted { ReadStop::Again } else { stop });
        }
        Ok(if self.next_stage().await? { ReadStop::Again } else { ReadStop::End })
    }

    /// The next message of the range, or the first beyond it. `flush_if_full` has to follow.
    fn accept(&mut self, message: &Message, meta: &AckSubject<'_>) -> Result<Option<ReadStop>> {
        if self.latest.is_some() {
            return self.accept_latest(message, meta);
        }
        let seq = meta.seq as u64;
        if seq > self.next && self.gap.is_none() {
            self.gap = Some(self.next);
        }
        if seq >= self.end {
            self.next = self.end;
            return Ok(Some(ReadStop::End));
        }
        self.next = seq + 1;
        self.last = Some(Mark { seq, nanos: meta.nanos });
        self.keep(message, meta)?;
        Ok(match (self.next >= self.end, meta.pending) {
            (true, _) => Some(ReadStop::End),
            (false, 0) => Some(ReadStop::Dry),
            _ => None,
        })
    }

    fn keep(&mut self, message: &Message, meta: &AckSubject<'_>) -> Result<()> {
        self.conn.hub.look_at_headers(message, Some(meta));
        self.builder.push(message, meta)
    }
}

//! Reading an exact range [start, end) of a stream in order, without a durable consumer.
//!
//! An ephemeral consumer that needs no acks is pulled with some requests outstanding. It is thrown away and made anew at
//! the next sequence whenever anything is in doubt: a broken link, a missed heartbeat, a gap in its own count. The end
//! is believed when the last sequence was seen, or when the stream itself says that nothing lies between: a consumer's
//! `pending == 0` is no proof, it may sit on a replica that lags behind.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_nats::Message;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{JoinHandle, unconstrained};
use tokio::time::{Instant, sleep};

use crate::engine::api::Api;
use crate::engine::columns::batch::Batch;
use crate::engine::columns::builder::Builder;
use crate::engine::columns::meta::Meta;
use crate::engine::columns::raw_headers::RawHeaders;
use crate::engine::columns::typed::Typed;
use crate::engine::columns::unpack::Unpack;
use crate::engine::connection::Connection;
use crate::engine::receive::demand::REQUESTS;
use crate::engine::receive::pull::{PROTOCOL_LINE, PULL_ROWS};
use crate::error::{JetError, Loss, Result};
use crate::task::{Spot, spawn, weak_spot};

mod arrival;
mod by_time;
mod consumer;
mod direct;
mod flush;
mod latest;
mod malformed;
mod range;
mod sizes;
mod stream;

use arrival::{Stop, arrival};
use by_time::first_at;
use consumer::Consumer;
use direct::check_direct;
use latest::Latest;
pub use range::{Bound, Each, Range};
use sizes::{AHEAD, Place, Sizes};

/// The consumer removes itself when we vanish.
const INACTIVE: Duration = Duration::from_secs(30);
const EXPIRES: Duration = Duration::from_secs(20);
/// After so long without a sign of the server it is taken for away. It gives one three times as often.
const SILENCE: Duration = Duration::from_secs(6);
/// For how long a read goes on trying while no server answers, where nobody says otherwise.
pub const OUTAGE: Duration = Duration::from_secs(60);
/// How long the answer to the consumer's deletion is waited for.
const DELETE_WAIT: Duration = Duration::from_millis(250);
const RETRY: Duration = Duration::from_millis(250);
/// From so many bytes a message on, on average, a payload that nobody reads is not asked for. Without it the server sends
/// a header that says its size, and that costs more than a small payload.
const LARGE: usize = 1024;
/// About what one has without its payload.
const BARE: usize = 256;
/// About what the server counts beside what is stored.
const REPLY: usize = 128;

/// What comes out of a reader: finished batches, and losses that are only to be reported.
#[allow(clippy::large_enum_variant)] // almost every item is a batch
pub enum Item {
    Batch(Batch),
    Loss(Loss),
}

/// What becomes of messages.
#[allow(clippy::large_enum_variant)] // there is one of them
pub enum Form {
    Messages,
    /// Their payloads are typed columns.
    Typed(Typed),
    /// Each holds rows.
    Tables(Unpack),
}

type Out = mpsc::Sender<Result<(Item, Place)>>;

/// Used by any number of tasks and threads; each item goes to one of them.
pub struct Reader {
    items: Mutex<mpsc::Receiver<Result<(Item, Place)>>>,
    closed: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
    /// The panic that ended the task.
    failure: Arc<OnceLock<JetError>>,
    /// Ends when the task has ended and its consumers are deleted.
    left: Mutex<mpsc::Receiver<Infallible>>,
    pub start: u64,
    pub end: u64,
    /// When the stream was created, as the server writes it.
    pub created: String,
}

impl Reader {
    pub async fn open(conn: Arc<Connection>, range: Range, form: Form) -> Result<Reader> {
        let opening = Self::open_while_up(conn.clone(), range, form);
        tokio::select! {
            biased;
            opened = opening => opened,
            () = conn.hub.ending() => Err(conn.closed()),
        }
    }

    async fn open_while_up(conn: Arc<Connection>, range: Range, form: Form) -> Result<Reader> {
        let api = Api::new(&conn, &range.prefix).within(range.timeout);
        let info = api.stream_info(&range.stream).await?;
        let direct = check_direct(&range, &info.config)?;
        let past = info.state.last_seq + 1;
        let start = match &range.start {
            Bound::Open => info.state.first_seq,
            Bound::Seq(seq) => *seq,
            Bound::Time(time) => first_at(api, &range.stream, &info.state, time).await?.unwrap_or(past),
        };
        let end = match &range.end {
            _ if range.follow => u64::MAX,
            Bound::Open => past,
            Bound::Seq(seq) => past.min(*seq),
            Bound::Time(time) => {
                first_at(api, &range.stream, &info.state, time).await?.map_or(past, |seq| past.min(seq))
            }
        };
        let start = start.max(1);
        let (out, items) = mpsc::channel(AHEAD);
        let (leaving, left) = mpsc::channel(1);
        let mean = (info.state.bytes / info.state.messages.max(1)).max(1) as usize;
        // A message as large as this server allows has to fit.
        let requests = if range.each == Each::All { REQUESTS } else { 2 };
        let ask_bytes = (range.fetch_bytes / requests).max(conn.client.max_payload() + PROTOCOL_LINE);
        let bare = mean >= LARGE && range.each == Each::All && !range.layout.has_contents();
        let mean = if bare { BARE } else { mean };
        let rows = (ask_bytes / (mean + REPLY)).clamp(1, PULL_ROWS);
        let created = info.created.clone();
        let builder = Builder::new(range.layout.clone(), false);
        let latest = match range.each {
            Each::All => None,
            Each::Latest { markers } => Some(Latest::new(markers)),
        };
        let mut run = Run {
            earliest: !matches!(range.start, Bound::Seq(_)),
            created: info.created.clone(),
            next: start,
            consumer: None,
            gap: None,
            away: None,
            breaks: conn.breaks(),
            careful: 0,
            sizes: Sizes::new(&range),
            conn,
            range,
            end,
            mean,
            bare,
            rows,
            ask_bytes,
            direct,
            latest,
            builder,
            form,
            out,
            leaving,
        };
        run.open_latest(&info).await?;
        let end = run.end;
        let failure = Arc::new(OnceLock::new());
        let known = failure.clone();
        let task = spawn(unconstrained(run.drive()), move |error| drop(known.set(error)))?;
        Ok(Reader {
            items: Mutex::new(items),
            closed: watch::Sender::new(false),
            task: Mutex::new(Some(task)),
            failure,
            left: Mutex::new(left),
            start,
            end,
            created,
        })
    }

    /// The next item; `None` when the range is read, or the reader closed.
    pub async fn next(&self) -> Option<Result<Item>> {
        let mut closed = self.closed.subscribe();
        let next = async { self.items.lock().await.recv().await };
        let item = tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => return None,
            item = next => item,
        };
        if let Some(item) = item {
            return Some(item.map(|(item, _place)| item));
        }
        // The end of the channel is not the end of the range: only the task knows.
        self.ended().await.err().map(Err)
    }

    /// Waits for the task; an error where it did not come to its end.
    async fn ended(&self) -> Result<()> {
        let mut task = self.task.lock().await;
        if let Some(handle) = task.as_mut() {
            let cut_off = handle.await.is_err();
            *task = None;
            if cut_off {
                let _first = self.failure.set(JetError::Internal("the read was cut off".into()));
            }
        }
        self.failure.get().cloned().map_or(Ok(()), Err)
    }

    /// True once `close` was called: that `next` has nothing is not the end of the range then.
    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Ends whoever waits for the next item, then the read; its consumer is deleted then, if the server is there.
    pub async fn close(&self) {
        self.closed.send_replace(true);
        {
            // The task sees the closed channel and ends.
            let mut items = self.items.lock().await;
            items.close();
            while items.recv().await.is_some() {}
        }
        let _whatever = self.ended().await;
        let _never = self.left.lock().await.recv().await;
    }
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
    /// The server leaves payloads out.
    bare: bool,
    /// Bytes of a message, on average; most messages in one request, and bytes.
    mean: usize,
    rows: usize,
    ask_bytes: usize,
    direct: bool,
    latest: Option<Latest>,
    builder: Builder,
    form: Form,
    sizes: Sizes,
    out: Out,
    /// Whoever deletes a consumer has one.
    leaving: mpsc::Sender<Infallible>,
    consumer: Option<Consumer>,
    /// The lowest sequence missing in the rows of the builder: deleted, or lost to retention?
    gap: Option<u64>,
    /// Since when no server has answered.
    away: Option<Instant>,
    /// How often the link had broken when it was last looked at, and how many messages are read one by one then.
    breaks: u64,
    careful: u32,
}

impl Run {
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
                Ok(Stop::Renew) => Stop::Renew,
                Ok(stop) => {
                    self.away = None;
                    stop
                }
                Err(err) if err.is_transient() && !self.outage_left().is_zero() => Stop::Renew,
                // What the server says tells more than that none has answered.
                Err(JetError::Timeout { .. } | JetError::Unanswered { .. }) => return Err(self.away_too_long()),
                Err(err) => return Err(err),
            };
            match stop {
                Stop::End => break,
                Stop::Again => {}
                Stop::Dropped => return Ok(()),
                Stop::Dry | Stop::Silent if self.range.follow => {
                    // What is here goes out before the wait for more.
                    if !self.flush().await? {
                        return Ok(());
                    }
                }
                Stop::Dry | Stop::Silent => {
                    if self.latest.is_some() {
                        // What was last may be gone, and what was before it is the last now.
                        self.drop_consumer();
                        self.renew_latest(false).await?;
                    }
                    // The consumer's replica lags behind the stream's leader.
                    sleep(RETRY).await;
                }
                Stop::Renew => {
                    self.drop_consumer();
                    let mut link = self.conn.link.clone();
                    match tokio::time::timeout(self.outage_left(), link.wait_for(|l| l.up || l.closed)).await {
                        Ok(Ok(link)) if !link.closed => {}
                        Err(_) => return Err(self.away_too_long()),
                        _ => return Err(self.conn.closed()),
                    }
                    sleep(RETRY).await;
                    self.check_stream().await?;
                    let breaks = self.conn.breaks();
                    let broken = std::mem::replace(&mut self.breaks, breaks) != breaks;
                    self.renew_latest(broken).await?;
                    if broken {
                        match self.step_over().await {
                            Ok(Some(Stop::Dropped)) => return Ok(()),
                            Ok(Some(_)) => break,
                            Ok(None) => {}
                            // Looked at again after the next break.
                            Err(err) if err.is_transient() => {}
                            Err(err) => return Err(err),
                        }
                        // Who follows gets what is there; nothing may come after it for long.
                        if self.range.follow && !self.flush().await? {
                            return Ok(());
                        }
                    }
                }
            }
        }
        self.flush().await?;
        Ok(())
    }

    /// Reads until something ends it. `End` is the end of the read, and `Dry` a doubt about it.
    async fn advance(&mut self) -> Result<Stop> {
        let stop = if self.direct { self.get().await? } else { self.pull().await? };
        let dry = matches!(stop, Stop::Dry | Stop::Silent) && !self.range.follow;
        if dry && self.nothing_left().await? {
            if self.latest.is_none() {
                // Deleted, or did the head of the stream move past it?
                self.gap.get_or_insert(self.next);
            }
        } else if !matches!(stop, Stop::End) {
            // Where values are overwritten, the consumer counts less than it has.
            let miscounted = matches!(stop, Stop::Dry) && self.latest.is_some();
            return Ok(if miscounted { Stop::Again } else { stop });
        }
        Ok(if self.next_stage().await? { Stop::Again } else { Stop::End })
    }

    /// The next message of the range, or the first beyond it. `flush_if_full` has to follow.
    fn accept(&mut self, message: &Message, meta: &Meta<'_>) -> Result<Option<Stop>> {
        self.accept_with(message, meta, None)
    }

    fn accept_with(
        &mut self,
        message: &Message,
        meta: &Meta<'_>,
        headers: Option<&RawHeaders>,
    ) -> Result<Option<Stop>> {
        if self.latest.is_some() {
            return self.accept_latest(message, meta, headers);
        }
        let seq = meta.seq as u64;
        if seq > self.next && self.gap.is_none() {
            self.gap = Some(self.next);
        }
        if seq >= self.end {
            self.next = self.end;
            return Ok(Some(Stop::End));
        }
        self.next = seq + 1;
        self.builder.push_with(message, meta, headers)?;
        Ok(match (self.next >= self.end, meta.pending) {
            (true, _) => Some(Stop::End),
            (false, 0) => Some(Stop::Dry),
            _ => None,
        })
    }
}

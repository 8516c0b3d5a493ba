//! Handle of a read's task: its items, its failure and its end.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{JoinHandle, unconstrained};

use super::by_time::first_at;
use super::direct::check_direct;
use super::latest::Latest;
use super::request_sizes::{BATCHES_AHEAD, Place, RequestSizes};
use super::{BARE_MESSAGE, Bound, Each, Item, LARGE_MESSAGE, MESSAGE_OVERHEAD, Range, ReadFormat, ReadLoop};
use crate::api::{Api, StreamState};
use crate::receive::batch_builder::BatchBuilder;
use crate::receive::prefetch::OUTSTANDING_REQUESTS;
use crate::receive::pull::{PROTOCOL_LINE, PULL_ROWS};
use crate::receive::rollback::{Extent, Mark, Marks};
use base::error::{JetError, Loss, Result};
use client::Connection;
use runtime::task::spawn;

/// Reader, shared by any number of tasks and threads; each item is delivered once.
pub struct Reader {
    items: Mutex<mpsc::Receiver<Result<(Item, Place)>>>,
    closed: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
    /// The panic that ended the task.
    failure: Arc<OnceLock<JetError>>,
    /// Closed when the task has ended and its consumers are deleted.
    left: Mutex<mpsc::Receiver<Infallible>>,
    pub start: u64,
    pub end: u64,
    /// Creation time of the stream, as the server writes it.
    pub created: String,
    /// The stream's last message when the read was opened.
    pub opened: Option<Mark>,
}

/// Returns the first sequence of a range, and the one after the last.
async fn bounds(api: Api<'_>, range: &Range, state: &StreamState) -> Result<(u64, u64)> {
    let past = state.last_seq + 1;
    let start = match &range.start {
        Bound::Open => state.first_seq,
        Bound::Seq(seq) => *seq,
        Bound::Time(time) => first_at(api, &range.stream, state, time).await?.unwrap_or(past),
    };
    let end = match &range.end {
        _ if range.follow => u64::MAX,
        Bound::Open => past,
        Bound::Seq(seq) => past.min(*seq),
        Bound::Time(time) => first_at(api, &range.stream, state, time).await?.map_or(past, |seq| past.min(seq)),
    };
    Ok((start.max(1), end))
}

/// Returns the loss, if the range begins at a sequence that the stream has not reached.
fn loss_at_start(range: &Range, start: u64, past: u64) -> Option<Loss> {
    let is_empty = matches!(&range.end, Bound::Seq(seq) if *seq <= start);
    let is_beyond = matches!(range.start, Bound::Seq(_)) && start > past && !range.follow && !is_empty;
    is_beyond.then(|| Loss { stream: range.stream.clone(), asked: (start, start + 1), available: past })
}

/// Size of the first pull requests.
struct PullSize {
    ask_bytes: usize,
    /// Mean size of a message.
    mean: usize,
    /// Messages are requested without their payloads.
    bare: bool,
    rows: usize,
}

impl PullSize {
    fn of(range: &Range, state: &StreamState, max_payload: usize) -> PullSize {
        let requests = if range.each == Each::All { OUTSTANDING_REQUESTS } else { 2 };
        // A message as large as this server allows must fit.
        let ask_bytes = (range.fetch_bytes / requests).max(max_payload + PROTOCOL_LINE);
        let mean = (state.bytes / state.messages.max(1)).max(1) as usize;
        let bare = mean >= LARGE_MESSAGE && range.each == Each::All && !range.layout.has_contents();
        let mean = if bare { BARE_MESSAGE } else { mean };
        PullSize { ask_bytes, mean, bare, rows: (ask_bytes / (mean + MESSAGE_OVERHEAD)).clamp(1, PULL_ROWS) }
    }
}

impl Reader {
    pub async fn open(conn: Arc<Connection>, range: Range, form: ReadFormat) -> Result<Reader> {
        let opening = Self::open_while_up(conn.clone(), range, form);
        tokio::select! {
            biased;
            opened = opening => opened,
            () = conn.state.ending() => Err(conn.closed()),
        }
    }

    async fn open_while_up(conn: Arc<Connection>, range: Range, form: ReadFormat) -> Result<Reader> {
        let api = Api::new(&conn, &range.prefix).within(range.timeout);
        let info = api.stream_info(&range.stream).await?;
        let direct = check_direct(&range, &info.config)?;
        let past = info.state.last_seq + 1;
        let (start, end) = bounds(api, &range, &info.state).await?;
        let (out, items) = mpsc::channel(BATCHES_AHEAD);
        if let Some(loss) = loss_at_start(&range, start, past) {
            if !range.warn_on_loss {
                return Err(JetError::DataLoss(Box::new(loss)));
            }
            let _first = out.send(Ok((Item::Loss(loss), None))).await;
        }
        let (leaving, left) = mpsc::channel(1);
        let PullSize { ask_bytes, mean, bare, rows } = PullSize::of(&range, &info.state, conn.client.max_payload());
        let builder = BatchBuilder::new(range.layout.clone(), false);
        let latest = match range.each {
            Each::All => None,
            Each::Latest { markers } => Some(Latest::new(markers)),
        };
        let mut run = ReadLoop {
            earliest: !matches!(range.start, Bound::Seq(_)),
            created: info.created.clone(),
            next: start,
            consumer: None,
            gap: None,
            away: None,
            stall: None,
            breaks: conn.breaks(),
            left_out: 0,
            last: None,
            marks: Marks::default(),
            opened: Extent::from(&info.state).last(),
            doubtful: !range.marks.is_empty(),
            start,
            sizes: RequestSizes::new(&range),
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
        Reader::spawn(run, items, left)
    }

    /// Starts the task.
    fn spawn(
        run: ReadLoop,
        items: mpsc::Receiver<Result<(Item, Place)>>,
        left: mpsc::Receiver<Infallible>,
    ) -> Result<Reader> {
        let (start, end, opened) = (run.start, run.end, run.opened);
        let created = run.created.clone();
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
            opened,
        })
    }

    /// Returns the next item; `None` at the end of the range, or if the reader is closed.
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
        // The end of the channel is not the end of the range, so the task's result is checked.
        self.ended().await.err().map(Err)
    }

    /// Waits for the task; an error if it did not complete.
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

    /// True after `close`. `None` from `next` is then not the end of the range.
    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Closes the reader: ends waits for the next item, then the read. The consumer is deleted if the server is
    /// reachable.
    pub async fn close(&self) {
        self.closed.send_replace(true);
        {
            // The task detects the closed channel and ends.
            let mut items = self.items.lock().await;
            items.close();
            while items.recv().await.is_some() {}
        }
        let _whatever = self.ended().await;
        let _never = self.left.lock().await.recv().await;
    }
}

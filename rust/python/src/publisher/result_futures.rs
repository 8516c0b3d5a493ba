//! The results of a publisher's messages, and their futures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::intern;
use pyo3::prelude::*;
use slab::Slab;

use crate::bridge::{Event, Mailbox, all, settle};
use crate::error::{PyResult, Raised};
use crate::puback::{self, Acks};
use base::error::JetError;
use base::lock::lock;
use jetstream::publish::puback::{Origin, PubAck};
use jetstream::publish::window::ResultSink;

/// The result of one message.
pub enum RowResult {
    Stored { origin: Arc<Origin>, seq: u64, duplicate: bool },
    InFull(Box<PubAck>),
    Failed(Box<JetError>),
}

/// The future of a message without a result, and the message's bytes.
pub struct WaitingFutures {
    pub future: Py<PyAny>,
    pub bytes: u64,
}

/// State that the Python object and the publish loop share. The futures are used with the GIL held only.
#[derive(Default)]
pub struct ResultState {
    waiting: Mutex<Slab<WaitingFutures>>,
    /// Futures that are resolved when there is room again.
    stalled: Mutex<Vec<Py<PyAny>>>,
    /// Failed futures for `take_failed`; `None` if it is not called, because they would accumulate.
    failed: Option<Mutex<Vec<Py<PyAny>>>>,
    pending: AtomicU64,
    pending_bytes: AtomicU64,
    pub stored: AtomicU64,
    pub duplicates: AtomicU64,
    pub errors: AtomicU64,
}

impl ResultState {
    pub fn new(keep_failed: bool) -> Self {
        ResultState { failed: keep_failed.then(Mutex::default), ..Default::default() }
    }

    /// Messages without a result, and their bytes.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes.load(Ordering::Relaxed)
    }

    /// Adds a message. Returns its row number, and the number of other messages without a result.
    pub fn add(&self, waiting: WaitingFutures) -> (u64, u64) {
        let bytes = waiting.bytes;
        let row = lock(&self.waiting).insert(waiting) as u64;
        self.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
        (row, self.pending.fetch_add(1, Ordering::Relaxed))
    }

    /// Adds a future that resolves as soon as a message has its result.
    pub fn stall(&self, py: Python<'_>, waiter: Py<PyAny>) -> PyResult<()> {
        lock(&self.stalled).push(waiter);
        // Checked after the push, so that the last result either finds the future or is detected here.
        if self.pending() == 0 { self.wake(py) } else { Ok(()) }
    }

    pub fn take_failed(&self) -> Vec<Py<PyAny>> {
        self.failed.as_ref().map_or_else(Vec::new, |failed| std::mem::take(&mut *lock(failed)))
    }

    /// Resolves the futures of these results. Requires the GIL.
    pub fn deliver(&self, py: Python<'_>, answers: Vec<(u64, RowResult)>) -> PyResult<()> {
        let taken: Vec<_> = {
            let mut waiting = lock(&self.waiting);
            let take = |(row, answer)| Some((waiting.try_remove(row as usize)?, answer));
            answers.into_iter().filter_map(take).collect()
        };
        let mut acks = Acks::default();
        let delivered = taken.into_iter().map(|(waiting, answer)| self.resolve(py, waiting, answer, &mut acks));
        let outcome = all(py, delivered);
        self.wake(py).and(outcome)
    }

    /// Fails all messages, because no more results will arrive.
    pub fn fail_all(&self, py: Python<'_>, error: &JetError) -> PyResult<()> {
        let rows: Vec<_> = lock(&self.waiting).iter().map(|(row, _)| row as u64).collect();
        self.deliver(py, rows.into_iter().map(|row| (row, RowResult::Failed(Box::new(error.clone())))).collect())
    }

    fn resolve<'py>(
        &self,
        py: Python<'py>,
        waiting: WaitingFutures,
        answer: RowResult,
        acks: &mut Acks<'py>,
    ) -> PyResult<()> {
        let WaitingFutures { future, bytes } = waiting;
        self.count(py, &answer, &future);
        // Counted before, because a caller that finds no pending message reads the failed ones. Settled after, because
        // a callback can publish the next message.
        self.pending.fetch_sub(1, Ordering::Relaxed);
        self.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let future = future.bind(py);
        let outcome = match answer {
            RowResult::Stored { .. } if is_forgotten(future)? => return Ok(()),
            RowResult::Stored { origin, seq, duplicate } => acks.build(py, &origin, seq, duplicate),
            RowResult::InFull(full) => puback::build_in_full(py, *full),
            RowResult::Failed(err) => Err(Raised::from(*err)),
        };
        settle(future, outcome)
    }

    fn count(&self, py: Python<'_>, answer: &RowResult, future: &Py<PyAny>) {
        let counter = match answer {
            RowResult::Stored { duplicate: false, .. } => &self.stored,
            RowResult::Stored { .. } => &self.duplicates,
            RowResult::InFull(full) if full.duplicate => &self.duplicates,
            RowResult::InFull(_) => &self.stored,
            RowResult::Failed(_) => {
                if let Some(failed) = &self.failed {
                    let future = future.clone_ref(py);
                    lock(failed).push(future);
                }
                &self.errors
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Resolves the futures that wait for room.
    fn wake(&self, py: Python<'_>) -> PyResult<()> {
        // Removed first, because a callback of a future can run at once and take this lock.
        let waiters = std::mem::take(&mut *lock(&self.stalled));
        all(py, waiters.into_iter().map(|waiter| settle(waiter.bind(py), Ok(py.None().into_bound(py)))))
    }
}

/// True if no other code has the future and it has no callbacks, so it needs no result.
fn is_forgotten(future: &Bound<'_, PyAny>) -> PyResult<bool> {
    #[allow(deprecated, reason = "what is to replace it is unsafe, and says the same")]
    let held = future.get_refcnt() > 1;
    Ok(!held && future.getattr_opt(intern!(future.py(), "_callbacks"))?.is_some_and(|to_call| to_call.is_none()))
}

/// Collects the results of a burst and delivers them as one event.
pub struct ResultFutures {
    pub shared: Arc<ResultState>,
    pub mailbox: Arc<Mailbox>,
    pub ready: Vec<(u64, RowResult)>,
}

impl Clone for ResultFutures {
    /// Shares the futures; the results collected so far are not copied.
    fn clone(&self) -> Self {
        ResultFutures { shared: self.shared.clone(), mailbox: self.mailbox.clone(), ready: Vec::new() }
    }
}

impl ResultSink for ResultFutures {
    fn stored(&mut self, row: u64, origin: &Arc<Origin>, seq: u64, duplicate: bool) {
        self.ready.push((row, RowResult::Stored { origin: origin.clone(), seq, duplicate }));
    }

    fn stored_in_full(&mut self, row: u64, ack: PubAck) {
        self.ready.push((row, RowResult::InFull(Box::new(ack))));
    }

    fn failed(&mut self, row: u64, err: JetError) {
        self.ready.push((row, RowResult::Failed(Box::new(err))));
    }

    fn flush(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        let (shared, answers) = (self.shared.clone(), std::mem::take(&mut self.ready));
        self.mailbox.push(0, Event::Many(Box::new(move |py| shared.deliver(py, answers))));
    }
}

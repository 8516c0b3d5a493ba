//! Publishing message by message: a future of the loop for each, resolved many at a time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_nats::header::NATS_MESSAGE_ID;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use slab::Slab;

use crate::bridge::{Bridge, Event, Mailbox, all, settle};
use crate::engine::connection::congestion::MOST_MESSAGES;
use crate::engine::publish::puback::{Origin, PubAck};
use crate::engine::publish::publisher::{self as engine, Feed};
use crate::engine::publish::rows::{Body, Single};
use crate::engine::publish::size::check_size;
use crate::engine::publish::window::{Outlet, Window};
use crate::error::{About, JetError};
use crate::lock::lock;
use crate::py::connect::Connection;
use crate::py::convert::{Timeout, Word, seconds};
use crate::py::headers;
use crate::py::lane::{Lane, Lanes};
use crate::py::payload::Cell;
use crate::py::puback;
use crate::runtime::Owned;

mod way;

use way::Way;

/// What came back for one message.
enum Answer {
    Stored { origin: Arc<Origin>, seq: u64, duplicate: bool },
    InFull(Box<PubAck>),
    Failed(Box<JetError>),
}

/// What the Python side and the publish loop share. The futures are touched only with the GIL held.
struct Shared {
    waiting: Mutex<Slab<Waiting>>,
    /// Woken when there is room again.
    stalled: Mutex<Vec<Py<PyAny>>>,
    /// Kept for `take_failed`, where somebody will ask; otherwise they would pile up.
    failed: Option<Mutex<Vec<Py<PyAny>>>>,
    /// Its futures are asyncio's.
    of_a_loop: bool,
    pending: AtomicU64,
    pending_bytes: AtomicU64,
    stored: AtomicU64,
    duplicates: AtomicU64,
    errors: AtomicU64,
}

struct Waiting {
    future: Py<PyAny>,
    bytes: u64,
}

/// Most bytes of a window that grows, where the caller bounds none.
const MOST_BYTES: usize = 64 << 20;
/// As soon as this many messages wait they are handed over, without waiting for the end of the loop's turn.
const BURST: usize = 128;

#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Publisher {
    way: Arc<Way>,
    shared: Arc<Shared>,
    lanes: Arc<Lanes>,
    /// False where there is no loop: every message is handed over by itself.
    by_turn: bool,
    /// At most so many messages, and bytes of them, have no answer; `None`: see `is_crowded`.
    max_inflight: Option<u64>,
    max_bytes: u64,
    /// Bytes that the loop has unanswered just now, where that is left to it; and how many messages may wait whatever it
    /// says.
    window: Arc<AtomicUsize>,
    spare: u64,
    /// Bytes of the message that had no room last.
    refused: AtomicU64,
}

#[pymethods]
impl Connection {
    /// A publisher for one event loop: that of `bridge`.
    #[pyo3(signature = (bridge, *, prefix, max_inflight, max_bytes, spare, timeout, by_turn, keep_failed))]
    fn publisher(
        &self,
        bridge: &Bridge,
        prefix: String,
        max_inflight: Option<usize>,
        max_bytes: Option<u64>,
        spare: u64,
        timeout: f64,
        by_turn: bool,
        keep_failed: bool,
    ) -> PyResult<Publisher> {
        let conn = self.get()?;
        if max_inflight == Some(0) {
            return Err(PyValueError::new_err("max_inflight must be at least 1"));
        }
        let timeout = seconds("ack_timeout", timeout)?;
        let told = Arc::new(AtomicUsize::new(0));
        // The bytes are bounded here, before they are copied; a window that grows has a bound in any case.
        let most = if max_inflight.is_some() { usize::MAX } else { MOST_BYTES };
        let one_call = false;
        let window =
            Window { max_inflight, max_bytes: most, told: told.clone(), timeout, resend: None, prefix, one_call };
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            stalled: Mutex::default(),
            failed: keep_failed.then(Mutex::default),
            of_a_loop: by_turn,
            pending: AtomicU64::new(0),
            pending_bytes: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        });
        let outlet = Answers { shared: shared.clone(), mailbox: bridge.mailbox.clone(), ready: Vec::new() };
        let (all, mailbox) = (shared.clone(), bridge.mailbox.clone());
        let failed = move |error| {
            let all = all.clone();
            mailbox.push(0, Event::Many(Box::new(move |py| all.fail_all(py, &error))));
        };
        let inner = Owned::new(engine::Publisher::start(conn, window, outlet, failed)?);
        let way = Arc::new(Way { inner, shared: shared.clone(), turn: Mutex::default() });
        let lane: Arc<dyn Lane> = way.clone();
        self.lanes.add(Arc::downgrade(&lane));
        Ok(Publisher {
            way,
            shared,
            lanes: self.lanes.clone(),
            by_turn,
            max_inflight: max_inflight.map(|most| most as u64),
            max_bytes: max_bytes.unwrap_or(u64::MAX),
            window: told,
            spare,
            refused: AtomicU64::new(0),
        })
    }
}

#[pymethods]
impl Publisher {
    /// Queues one message; the future resolves to its `PubAck` or a typed error. None where there is no room.
    #[pyo3(signature = (event_loop, subject, payload, headers, msg_id, timeout))]
    fn publish<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
        event_loop: &Bound<'py, PyAny>,
        subject: Word<'py>,
        payload: &Bound<'py, PyAny>,
        headers: Option<headers::Given<'py>>,
        msg_id: Option<&Bound<'py, PyString>>,
        timeout: Option<Timeout>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let subject = subject.0;
        let this = slf.get();
        let inner = this.way.inner.get()?;
        if this.is_crowded() {
            return Ok(None);
        }
        let mut map = headers.as_ref().map(|given| headers::from_python(&given.0)).transpose()?;
        if let Some(id) = msg_id {
            let name = NATS_MESSAGE_ID.as_ref();
            headers::append(map.get_or_insert_default(), name, &headers::value(name, id)?)?;
        }
        let cell = Cell::new(payload)?;
        let what = || About::Other(format!("the message for {subject:?}"));
        let size = check_size(what, cell.as_slice().len(), map.as_ref(), inner.max_payload())?;
        let timeout = timeout.map(|Timeout(timeout)| timeout);
        let bytes = (size + subject.len()) as u64;
        if this.is_too_much(bytes) {
            this.refused.store(bytes, Ordering::Relaxed);
            return Ok(None);
        }
        // An exception is a Python object: it is made when the lock is free again.
        let taken = {
            let mut turn = lock(&this.way.turn);
            turn.subject(subject).map(|subject| (subject, turn.arena.copy(cell.as_slice())))
        };
        let (to, payload) = taken?;
        let future = event_loop.call_method0(intern!(py, "create_future"))?;
        let waiting = Waiting { future: future.clone().unbind(), bytes };
        let row = lock(&this.shared.waiting).insert(waiting) as u64;
        let others = this.shared.pending.fetch_add(1, Ordering::Relaxed);
        this.shared.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
        this.lanes.publish();
        let item = Feed::Item((row, Body::Single(Box::new(Single { subject: to, payload, headers: map, timeout }))));
        // With others in flight the wait until the end of the turn costs nothing.
        if !this.by_turn || others == 0 {
            this.way.send(vec![item])?;
            return Ok(Some(future));
        }
        let waiting = {
            let mut turn = lock(&this.way.turn);
            if turn.items.capacity() == 0 {
                turn.items.reserve_exact(BURST);
            }
            turn.items.push(item);
            turn.items.len()
        };
        if waiting == 1 {
            event_loop.call_method1(intern!(py, "call_soon"), (slf.getattr(intern!(py, "hand_over"))?,))?;
        } else if waiting >= BURST {
            this.way.hand_over()?;
        }
        Ok(Some(future))
    }

    /// True as long as the message that was refused last would still have to wait.
    fn full(&self) -> PyResult<bool> {
        self.way.inner.get()?;
        Ok(self.is_crowded() || self.is_too_much(self.refused.load(Ordering::Relaxed)))
    }

    /// Hands over what was published in this turn of the loop.
    fn hand_over(&self) -> PyResult<()> {
        self.way.hand_over()
    }

    /// A future that resolves when some message has got its answer.
    fn room<'py>(&self, py: Python<'py>, event_loop: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // In a forked process nobody would wake it.
        self.way.inner.get()?;
        let future = event_loop.call_method0(intern!(py, "create_future"))?;
        let waiter = future.clone().unbind();
        lock(&self.shared.stalled).push(waiter);
        // Looked at after the push, so that the last answer finds it, or is seen here.
        if self.shared.pending.load(Ordering::Relaxed) == 0 {
            self.shared.wake(py)?;
        }
        Ok(future)
    }

    /// Messages that have no answer yet.
    #[getter]
    fn pending(&self) -> PyResult<u64> {
        self.way.inner.get()?;
        Ok(self.shared.pending.load(Ordering::Relaxed))
    }

    #[getter]
    fn pending_bytes(&self) -> u64 {
        self.shared.pending_bytes.load(Ordering::Relaxed)
    }

    /// Messages stored so far.
    #[getter]
    fn stored(&self) -> u64 {
        self.shared.stored.load(Ordering::Relaxed)
    }

    /// Messages so far whose id the stream knew.
    #[getter]
    fn duplicates(&self) -> u64 {
        self.shared.duplicates.load(Ordering::Relaxed)
    }

    /// Messages that failed so far.
    #[getter]
    fn errors(&self) -> u64 {
        self.shared.errors.load(Ordering::Relaxed)
    }

    /// The futures that failed since the last call.
    fn take_failed(&self) -> Vec<Py<PyAny>> {
        self.shared.failed.as_ref().map_or_else(Vec::new, |failed| std::mem::take(&mut *lock(failed)))
    }
}

impl Publisher {
    /// Where the loop chooses its window, as much again waits for it, so that it never waits for Python.
    fn is_crowded(&self) -> bool {
        let pending = self.shared.pending.load(Ordering::Relaxed);
        match self.max_inflight {
            Some(most) => pending >= most,
            None => {
                let window = self.window.load(Ordering::Relaxed) as u64;
                pending >= self.spare && self.pending_bytes() >= 2 * window || pending >= 2 * MOST_MESSAGES as u64
            }
        }
    }

    /// A message larger than `max_bytes` goes alone.
    fn is_too_much(&self, bytes: u64) -> bool {
        let pending = self.pending_bytes();
        pending > 0 && pending.saturating_add(bytes) > self.max_bytes
    }
}

impl Shared {
    fn take(&self, row: u64) -> Option<Py<PyAny>> {
        let waiting = lock(&self.waiting).try_remove(row as usize)?;
        self.pending.fetch_sub(1, Ordering::Relaxed);
        self.pending_bytes.fetch_sub(waiting.bytes, Ordering::Relaxed);
        Some(waiting.future)
    }

    fn deliver(&self, py: Python<'_>, answers: Vec<(u64, Answer)>) -> PyResult<()> {
        let delivered = answers.into_iter().map(|(row, answer)| self.resolve(py, row, answer));
        let outcome = all(py, delivered);
        self.wake(py).and(outcome)
    }

    /// No message that was handed over will have an answer.
    fn fail_all(&self, py: Python<'_>, error: &JetError) -> PyResult<()> {
        let rows: Vec<_> = lock(&self.waiting).iter().map(|(row, _)| row as u64).collect();
        self.deliver(py, rows.into_iter().map(|row| (row, Answer::Failed(Box::new(error.clone())))).collect())
    }

    fn resolve(&self, py: Python<'_>, row: u64, answer: Answer) -> PyResult<()> {
        let Some(future) = self.take(row) else { return Ok(()) };
        let outcome = match answer {
            Answer::Stored { origin, seq, duplicate } => {
                self.count(duplicate);
                if self.is_forgotten(future.bind(py))? {
                    return Ok(());
                }
                puback::build(py, &origin.stream, origin.domain.as_deref(), seq, duplicate)
            }
            Answer::InFull(full) => {
                self.count(full.duplicate);
                puback::build_in_full(py, *full)
            }
            Answer::Failed(err) => {
                self.errors.fetch_add(1, Ordering::Relaxed);
                if let Some(failed) = &self.failed {
                    let future = future.clone_ref(py);
                    lock(failed).push(future);
                }
                Err(PyErr::from(*err))
            }
        };
        settle(future.bind(py), outcome)
    }

    /// Nobody but us has the future, and nothing is to be called when it is done: it needs no result.
    fn is_forgotten(&self, future: &Bound<'_, PyAny>) -> PyResult<bool> {
        #[allow(deprecated, reason = "what is to replace it is unsafe, and says the same")]
        let held = !self.of_a_loop || future.get_refcnt() > 1;
        Ok(!held && future.getattr_opt(intern!(future.py(), "_callbacks"))?.is_some_and(|to_call| to_call.is_none()))
    }

    /// Wakes those who wait for room.
    fn wake(&self, py: Python<'_>) -> PyResult<()> {
        // Taken out first: a future's callbacks may run at once, and come back to this lock.
        let waiters = std::mem::take(&mut *lock(&self.stalled));
        all(py, waiters.into_iter().map(|waiter| settle(waiter.bind(py), Ok(py.None().into_bound(py)))))
    }

    fn count(&self, duplicate: bool) {
        let counter = if duplicate { &self.duplicates } else { &self.stored };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Collects the answers of a burst and hands them over as one event.
struct Answers {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    ready: Vec<(u64, Answer)>,
}

impl Outlet for Answers {
    fn stored(&mut self, row: u64, origin: &Arc<Origin>, seq: u64, duplicate: bool) {
        self.ready.push((row, Answer::Stored { origin: origin.clone(), seq, duplicate }));
    }

    fn stored_in_full(&mut self, row: u64, ack: PubAck) {
        self.ready.push((row, Answer::InFull(Box::new(ack))));
    }

    fn failed(&mut self, row: u64, err: JetError) {
        self.ready.push((row, Answer::Failed(Box::new(err))));
    }

    fn flush(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        let (shared, answers) = (self.shared.clone(), std::mem::take(&mut self.ready));
        self.mailbox.push(0, Event::Many(Box::new(move |py| shared.deliver(py, answers))));
    }
}

//! The class `Publisher`: publishes single messages with a future for each, and resolves many futures at once.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::bridge::{Bridge, Event, MOST_LINGERED_FOR};
use crate::connect::Connection;
use crate::convert::{Timeout, Word, seconds};
use crate::error::PyResult;
use crate::headers;
use crate::payload::Cell;
use crate::publisher_fence::{PublisherFeed, PublisherFences};
use crate::python_call::{call_soon, create_future};
use base::error::About;
use base::lock::lock;
use client::congestion::MAX_IN_FLIGHT_MESSAGES;
use jetstream::publish::body::{Body, Single};
use jetstream::publish::publisher::{self as engine, Feed};
use jetstream::publish::window::Window;
use runtime::Owned;
use wire::arena::OWN_ALLOCATION_BYTES;
use wire::nats::header::NATS_MESSAGE_ID;
use wire::size::check_size;
use wire::subject;

mod publisher_queue;
mod result_futures;

use publisher_queue::PublisherQueue;
use result_futures::{ResultFutures, ResultState, RowResult, WaitingFutures};

/// Maximum bytes in flight of an adaptive window without a limit of the caller.
const MOST_BYTES: usize = 64 << 20;
/// Number of queued messages at which they are sent before the end of the loop's iteration.
const SEND_THRESHOLD: usize = 128;

/// A publisher of one event loop.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Publisher {
    way: Arc<PublisherQueue>,
    shared: Arc<ResultState>,
    publisher_fences: Arc<PublisherFences>,
    /// Messages are sent at the end of the loop's iteration; false without a loop.
    by_turn: bool,
    /// The loop will call `hand_over`.
    promised: AtomicBool,
    /// Maximum messages and bytes without an ack; `None`: see `is_crowded`.
    max_inflight: Option<u64>,
    max_bytes: u64,
    /// Current bytes in flight of an adaptive window, and the number of messages that may wait in any case.
    window: Arc<AtomicUsize>,
    spare: u64,
    /// Bytes of the last message that was rejected for lack of room.
    refused: AtomicU64,
}

#[pymethods]
impl Connection {
    /// Creates a publisher for the event loop of `bridge`.
    #[pyo3(signature = (bridge, *, prefix, max_inflight, max_bytes, spare, timeout, by_turn, keep_failed, durable))]
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
        durable: bool,
    ) -> PyResult<Publisher> {
        let conn = self.get()?;
        if max_inflight == Some(0) {
            return Err(PyValueError::new_err("max_inflight must be at least 1").into());
        }
        let timeout = seconds("ack_timeout", timeout)?;
        let published_window = Arc::new(AtomicUsize::new(0));
        // The bytes are limited here, before they are copied. An adaptive window is always limited.
        let most = if max_inflight.is_some() { usize::MAX } else { MOST_BYTES };
        let window = Window {
            max_inflight,
            max_bytes: most,
            published_window: published_window.clone(),
            urgent: Arc::default(),
            timeout,
            resend: None,
            prefix,
            is_batch: false,
        };
        let shared = Arc::new(ResultState::new(keep_failed));
        let outlet = ResultFutures { shared: shared.clone(), mailbox: bridge.mailbox.clone(), ready: Vec::new() };
        let (all, mailbox) = (shared.clone(), bridge.mailbox.clone());
        let failed = move |error| {
            let all = all.clone();
            mailbox.push(0, Event::Many(Box::new(move |py| all.fail_all(py, &error))));
        };
        let inner = Owned::new(match durable {
            true => {
                // The bytes that may wait are limited; a chunk takes what waits.
                published_window.store(MOST_BYTES / 2, Ordering::Relaxed);
                engine::Publisher::start_durable(conn, window, outlet, failed)?
            }
            false => engine::Publisher::start(conn, window, outlet, failed)?,
        });
        let way = Arc::new(PublisherQueue { inner, shared: shared.clone(), turn: Mutex::default() });
        let feed: Arc<dyn PublisherFeed> = way.clone();
        self.publisher_fences.add(Arc::downgrade(&feed));
        Ok(Publisher {
            way,
            shared,
            publisher_fences: self.publisher_fences.clone(),
            by_turn,
            promised: AtomicBool::new(false),
            max_inflight: max_inflight.map(|most| most as u64),
            max_bytes: max_bytes.unwrap_or(u64::MAX),
            window: published_window,
            spare,
            refused: AtomicU64::new(0),
        })
    }
}

#[pymethods]
impl Publisher {
    /// Queues one message and returns a future of the loop, for its `PubAck` or error. None if there is no room.
    #[pyo3(signature = (event_loop, subject, payload, headers, msg_id, timeout))]
    fn publish<'py>(
        this: &Bound<'py, Self>,
        event_loop: &Bound<'py, PyAny>,
        subject: Word<'py>,
        payload: &Bound<'py, PyAny>,
        headers: Option<headers::Given<'py>>,
        msg_id: Option<&Bound<'py, PyString>>,
        timeout: Option<Timeout>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let timeout = timeout.map(|Timeout(timeout)| timeout);
        let Some(row) = this.get().admit(subject.0, payload, headers, msg_id, timeout)? else { return Ok(None) };
        let future = create_future(event_loop)?;
        row.queue(this, event_loop, future.clone().unbind())?;
        Ok(Some(future))
    }

    /// True while the message that was rejected last would still have to wait.
    fn full(&self) -> PyResult<bool> {
        self.way.inner.get()?;
        Ok(self.is_crowded() || self.is_too_much(self.refused.load(Ordering::Relaxed)))
    }

    /// Sends the messages of this iteration of the loop.
    fn hand_over(&self) -> PyResult<()> {
        self.promised.store(false, Ordering::Relaxed);
        self.way.hand_over()
    }

    /// Waits for the next ack as `Bridge.linger`, if the loop has no work other than to send the queued messages.
    fn linger(&self, py: Python<'_>, bridge: &Bridge) -> PyResult<()> {
        // With many in flight the loop has work soon.
        if self.shared.pending() > MOST_LINGERED_FOR as u64 {
            return Ok(());
        }
        let hand_over = || self.way.hand_over();
        let promised = self.promised.load(Ordering::Relaxed);
        bridge.linger_after(py, if promised { Some(&hand_over) } else { None }, false)
    }

    /// Returns a future that resolves when a message gets its ack or error.
    fn room<'py>(&self, py: Python<'py>, event_loop: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // A forked process has no thread that would resolve it.
        self.way.inner.get()?;
        let future = create_future(event_loop)?;
        self.shared.stall(py, future.clone().unbind())?;
        Ok(future)
    }

    /// Messages without an ack.
    #[getter]
    fn pending(&self) -> PyResult<u64> {
        self.way.inner.get()?;
        Ok(self.shared.pending())
    }

    #[getter]
    fn pending_bytes(&self) -> u64 {
        self.shared.pending_bytes()
    }

    /// Messages stored so far.
    #[getter]
    fn stored(&self) -> u64 {
        self.shared.stored.load(Ordering::Relaxed)
    }

    /// Messages so far whose id the stream already had.
    #[getter]
    fn duplicates(&self) -> u64 {
        self.shared.duplicates.load(Ordering::Relaxed)
    }

    /// Messages that failed so far.
    #[getter]
    fn errors(&self) -> u64 {
        self.shared.errors.load(Ordering::Relaxed)
    }

    /// Returns the futures that failed since the last call.
    fn take_failed(&self) -> Vec<Py<PyAny>> {
        self.shared.take_failed()
    }
}

impl Publisher {
    /// Validates and copies the message. `None` if there is no room.
    fn admit(
        &self,
        subject: &str,
        payload: &Bound<'_, PyAny>,
        headers: Option<headers::Given<'_>>,
        msg_id: Option<&Bound<'_, PyString>>,
        timeout: Option<Duration>,
    ) -> PyResult<Option<Row>> {
        let inner = self.way.inner.get()?;
        // A call that waits for its ack needs no limit.
        if (timeout.is_none() || self.max_inflight.is_some()) && self.is_crowded() {
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
        let bytes = (size + subject.len()) as u64;
        if self.is_too_much(bytes) {
            self.refused.store(bytes, Ordering::Relaxed);
            return Ok(None);
        }
        let small = Some(cell.as_slice()).filter(|payload| payload.len() < OWN_ALLOCATION_BYTES);
        // Python objects, such as exceptions, are created and dropped outside of the lock.
        let taken = {
            let mut turn = lock(&self.way.turn);
            turn.copies
                .subject(subject, subject::check)
                .map(|subject| (subject, small.map(|small| turn.copies.arena.copy(small))))
        };
        let (subject, copied) = taken?;
        let payload = copied.unwrap_or_else(|| cell.in_place());
        Ok(Some(Row { message: Box::new(Single { subject, payload, headers: map, timeout }), bytes }))
    }

    /// True if no message may be added. With an adaptive window, as many bytes may wait as are in flight, so that the
    /// window is not limited by Python.
    fn is_crowded(&self) -> bool {
        let pending = self.shared.pending();
        match self.max_inflight {
            Some(most) => pending >= most,
            None => {
                let window = self.window.load(Ordering::Relaxed) as u64;
                pending >= self.spare && self.pending_bytes() >= 2 * window
                    || pending >= 2 * MAX_IN_FLIGHT_MESSAGES as u64
            }
        }
    }

    /// True if the bytes exceed `max_bytes`. A single message may exceed it.
    fn is_too_much(&self, bytes: u64) -> bool {
        let pending = self.pending_bytes();
        pending > 0 && pending.saturating_add(bytes) > self.max_bytes
    }
}

/// A message that has room.
struct Row {
    message: Box<Single>,
    bytes: u64,
}

impl Row {
    /// Sends the message, now or at the end of the loop's iteration.
    fn queue(self, publisher: &Bound<'_, Publisher>, event_loop: &Bound<'_, PyAny>, future: Py<PyAny>) -> PyResult<()> {
        let (py, this) = (publisher.py(), publisher.get());
        let (row, others) = this.shared.add(WaitingFutures { future, bytes: self.bytes });
        this.publisher_fences.publish();
        let item = Feed::Row((row, Body::Single(self.message)));
        // With other messages in flight, a delay until the end of the iteration costs nothing.
        if !this.by_turn || others == 0 {
            return this.way.send(vec![item]);
        }
        let waiting = {
            let mut turn = lock(&this.way.turn);
            if turn.items.capacity() == 0 {
                turn.items.reserve_exact(SEND_THRESHOLD);
            }
            turn.items.push(item);
            turn.items.len()
        };
        if !this.promised.load(Ordering::Relaxed) {
            let hand_over = publisher.getattr(intern!(py, "hand_over"))?;
            call_soon(event_loop, &hand_over)?;
            this.promised.store(true, Ordering::Relaxed);
        } else if waiting >= SEND_THRESHOLD {
            this.way.hand_over()?;
        }
        Ok(())
    }
}

//! Core publish: messages are queued in order, without waiting.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use pyo3::intern;
use pyo3::prelude::*;

use crate::call::Call;
use crate::connect::Connection;
use crate::convert::Word;
use crate::error::PyResult;
use crate::headers;
use crate::payload::{Cell, message};
use crate::python_call::call_soon;
use base::error::About;
use base::lock::lock;
use client as engine;
use client::outbox::{Outgoing, QueueReceipt};
use client::traffic::Verb;
use wire::arena::OWN_ALLOCATION_BYTES;
use wire::size::message_size;

#[pymethods]
impl Connection {
    /// Queues one message and returns the number of queued bytes, at most `pending_size` while disconnected.
    ///
    /// With an event loop, the messages of one iteration are sent together at its end.
    #[pyo3(signature = (event_loop, subject, payload, reply, headers))]
    fn send(
        slf: &Bound<'_, Self>,
        event_loop: Option<&Bound<'_, PyAny>>,
        subject: Word<'_>,
        payload: &Bound<'_, PyAny>,
        reply: Option<Word<'_>>,
        headers: Option<headers::Given<'_>>,
    ) -> PyResult<usize> {
        let this = slf.get();
        let conn = this.connection()?;
        let (subject, reply) = (subject.0, reply.map_or("", |reply| reply.0));
        let checked = lock(&this.copies).subject(subject, |subject| conn.check(subject))?;
        if !reply.is_empty() {
            conn.check(reply)?;
        }
        let what = || About::Other(format!("the message for {subject:?}"));
        let (payload, headers) =
            message(what, payload, |cell| this.copied(cell), || headers::lenient(headers), conn.client.max_payload())?;
        let link = *conn.link.borrow();
        if link.closed {
            return Err(conn.closed().into());
        }
        let reply = (!reply.is_empty()).then(|| reply.into());
        let message = Outgoing { subject: checked, reply, headers, payload };
        this.publisher_fences.close_fences(&conn.outbox);
        if !link.up {
            conn.check_room(message_size(&message))?;
        }
        Ok(Connection::hold(slf, conn, event_loop, message, Verb::Publish)?.bytes)
    }

    /// Flushes the messages that were queued in this iteration of the loop.
    fn kick(&self) -> PyResult<()> {
        self.promised.store(0, Ordering::Relaxed);
        self.connection()?.outbox.flush_now();
        Ok(())
    }

    /// Waits until at most `bytes` bytes are queued, or the connection is lost; 0 for an empty queue.
    fn room(&self, bytes: usize) -> PyResult<Call> {
        let conn = self.get()?;
        let work = async move {
            conn.while_up(conn.outbox.room(bytes)).await;
            Ok(())
        };
        Ok(Call::unit(work))
    }

    /// Bytes of the queued messages, with subjects and headers.
    #[getter]
    fn pending_bytes(&self) -> PyResult<usize> {
        Ok(self.connection()?.outbox.bytes())
    }
}

impl Connection {
    /// Copies a payload that has no response. Python's object is dropped outside of the lock.
    fn copied(&self, payload: Cell) -> Bytes {
        match payload {
            Cell::Copied(bytes) => bytes.into(),
            cell => lock(&self.copies).arena.copy(cell.as_slice()),
        }
    }

    /// Converts a payload that has a response. It is copied if that is cheaper than sending it without a copy.
    pub fn of_a_request(&self, payload: Cell) -> Bytes {
        if payload.as_slice().len() < OWN_ALLOCATION_BYTES { self.copied(payload) } else { payload.in_place() }
    }

    /// Queues a message for the end of the loop's iteration, or until many are queued. Sends it at once without a loop.
    pub fn hold(
        slf: &Bound<'_, Self>,
        conn: &engine::Connection,
        event_loop: Option<&Bound<'_, PyAny>>,
        message: Outgoing,
        verb: Verb,
    ) -> PyResult<QueueReceipt> {
        let Some(event_loop) = event_loop else { return Ok(conn.outbox.push(message, verb)) };
        let held = conn.outbox.hold(message, verb);
        if held.enough {
            conn.outbox.flush_now();
        } else {
            Connection::kick_later(slf, event_loop)?;
        }
        Ok(held)
    }

    /// Schedules a flush of the outbox at the end of the loop's iteration. The flush of another loop does not count,
    /// because that loop may be closed.
    pub fn kick_later(slf: &Bound<'_, Self>, event_loop: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let promise = event_loop.as_ptr() as usize;
        if slf.get().promised.swap(promise, Ordering::Relaxed) != promise {
            let kick = slf.getattr(intern!(py, "kick"))?;
            call_soon(event_loop, &kick)?;
        }
        Ok(())
    }
}

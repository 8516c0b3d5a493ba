//! Core publish: queued without waiting, in order.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::engine::connection::outbox::Outgoing;
use crate::engine::publish::rows::header_size;
use crate::engine::subject;
use crate::error::JetError;
use crate::py::call::Call;
use crate::py::connect::Connection;
use crate::py::headers;
use crate::py::payload::Cell;

/// So many messages are sent without waiting for the loop's next turn.
pub const BURST: usize = 128;

#[pymethods]
impl Connection {
    /// Queues one message and returns how many bytes are queued now. While the link is down at most `limit` bytes are.
    /// With an event loop, the messages of one turn are sent together at its end.
    #[pyo3(signature = (event_loop, subject, payload, reply, headers, limit))]
    fn send(
        slf: &Bound<'_, Self>,
        event_loop: Option<&Bound<'_, PyAny>>,
        subject: &str,
        payload: &Bound<'_, PyAny>,
        reply: &str,
        headers: Option<&Bound<'_, PyDict>>,
        limit: usize,
    ) -> PyResult<usize> {
        let this = slf.get();
        let conn = this.connection()?;
        subject::check(subject)?;
        if !reply.is_empty() {
            subject::check(reply)?;
        }
        let payload = Bytes::copy_from_slice(Cell::new(payload)?.as_slice());
        let headers = headers.map(headers::lenient).transpose()?.filter(|map| !map.is_empty());
        let size = payload.len() + headers.as_ref().map_or(0, header_size);
        let most = conn.client.max_payload();
        if size > most {
            return Err(JetError::MaxPayload { what: format!("the message for {subject:?}"), size, limit: most }.into());
        }
        let link = *conn.link.borrow();
        if link.closed {
            return Err(conn.closed().into());
        }
        if !link.up && conn.outbox.bytes() + payload.len() > limit {
            return Err(JetError::OutboundLimit { limit }.into());
        }
        let reply = (!reply.is_empty()).then(|| reply.into());
        let held = conn.outbox.hold(Outgoing { subject: subject.into(), reply, headers, payload });
        match event_loop {
            Some(event_loop) if held.messages < BURST => Connection::kick_later(slf, event_loop)?,
            _ => conn.outbox.kick(),
        }
        Ok(held.bytes)
    }

    /// Sends what was queued in this turn of the loop.
    fn kick(&self) -> PyResult<()> {
        self.promised.store(0, Ordering::Relaxed);
        self.connection()?.outbox.kick();
        Ok(())
    }

    /// Waits until at most `bytes` of core messages are queued, or the link is down; 0 is none.
    fn room(&self, bytes: usize) -> PyResult<Call> {
        let conn = self.get()?;
        let work = async move {
            conn.while_up(conn.outbox.room(bytes)).await;
            Ok(())
        };
        Ok(Call::new(work, |py, ()| Ok(py.None().into_bound(py))))
    }

    /// Payload bytes of core messages that are queued.
    #[getter]
    fn pending_bytes(&self) -> PyResult<usize> {
        Ok(self.connection()?.outbox.bytes())
    }
}

impl Connection {
    /// Kicks the outbox at the end of the loop's turn. What another loop has promised counts for nothing: it may be gone.
    pub fn kick_later(slf: &Bound<'_, Self>, event_loop: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let promise = event_loop.as_ptr() as usize;
        if slf.get().promised.swap(promise, Ordering::Relaxed) != promise {
            let kick = slf.getattr(intern!(py, "kick"))?;
            event_loop.call_method1(intern!(py, "call_soon"), (kick,))?;
        }
        Ok(())
    }
}

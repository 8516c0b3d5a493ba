//! Core publish: queued without waiting, in order.

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::engine::outbox::Outgoing;
use crate::engine::rows::header_size;
use crate::engine::subject;
use crate::error::JetError;
use crate::py::call::Call;
use crate::py::connect::Connection;
use crate::py::headers;
use crate::py::payload::Cell;

#[pymethods]
impl Connection {
    /// Queues one message and returns how many bytes are queued now. While the link is down at most `limit` bytes are.
    #[pyo3(signature = (subject, payload, reply, headers, limit))]
    fn send(
        &self,
        subject: &str,
        payload: &Bound<'_, PyAny>,
        reply: &str,
        headers: Option<&Bound<'_, PyDict>>,
        limit: usize,
    ) -> PyResult<usize> {
        let conn = self.connection()?;
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
        Ok(conn.outbox.push(Outgoing { subject: subject.into(), reply, headers, payload }))
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

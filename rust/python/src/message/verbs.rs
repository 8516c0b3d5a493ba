//! Native parts of a message's verbs, and what the messages of other faces are made of.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::Msg;
use crate::connect::Connection;
use crate::error::PyResult;
use crate::python_call::begin_call;
use crate::python_names::{JS_API, import};
use wire::ack_subject::parse_ack_subject;

#[pymethods]
impl Msg {
    /// Returns the connection and the reply subject for an ack. None if a program set another client, or if the reply
    /// subject is not an ack subject.
    fn _consumer<'py>(&self, py: Python<'py>) -> PyResult<Option<(&Bound<'py, PyAny>, Cow<'_, str>)>> {
        let Some(session) = self.came_by(py)? else { return Ok(None) };
        let reply = self.reply_subject(py)?;
        Ok(parse_ack_subject(&reply).is_some().then_some((session, reply)))
    }

    /// The connection that received the message; None if a program set another client.
    #[getter(_session)]
    fn came_by<'py>(&self, py: Python<'py>) -> PyResult<Option<&Bound<'py, PyAny>>> {
        let replaced = self.written(py, intern!(py, "_client"))?.is_some();
        Ok(self.session.as_ref().filter(|_| !replaced).map(|session| session.bind(py)))
    }

    /// Marks the message as acknowledged; False if it is already.
    fn _claim(&self) -> bool {
        !self.acked.swap(true, Ordering::Relaxed)
    }

    /// Queues a plain ack, and marks the message as acknowledged. False if a program has changed the message, if it is
    /// acknowledged already, or if the connection is closed: the general way then reports why.
    fn _ack_received(&self, event_loop: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = event_loop.py();
        let Some(session) = self.came_by(py)? else { return Ok(false) };
        let connection = session.getattr(intern!(py, "connection"))?;
        let Ok(connection) = connection.cast::<Connection>() else { return Ok(false) };
        if self.written(py, intern!(py, "reply"))?.is_some() || !self._claim() {
            return Ok(false);
        }
        let acked = Connection::ack_received(connection, event_loop, &self.content);
        if !matches!(acked, Ok(true)) {
            self.acked.store(false, Ordering::Relaxed);
        }
        acked
    }

    /// Returns the `AckKind` of a name or value. Its error lists the kinds.
    #[staticmethod]
    fn _kind<'py>(kind: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let _call = begin_call(kind.py());
        Ok(import(kind.py(), JS_API, "AckKind")?.call1((kind,))?)
    }

    /// The received parts: subject, payload, reply, headers with all values, and code and description of the server's
    /// status line. None for what is absent.
    fn _parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let content = &self.content;
        let reply = Some(content.reply()).filter(|reply| !reply.is_empty());
        let headers = self.headers_that_came(py)?;
        let (mut code, mut description) = (None, None);
        if let Some(headers) = headers.as_ref().filter(|_| content.has_status_line) {
            let take = |name: &Bound<'py, PyString>| -> PyResult<Option<Bound<'py, PyAny>>> {
                let Some(values) = headers.get_item(name)? else { return Ok(None) };
                headers.del_item(name)?;
                Ok(Some(values.get_item(-1)?))
            };
            (code, description) = (take(intern!(py, "Status"))?, take(intern!(py, "Description"))?);
        }
        let headers = headers.filter(|headers| !headers.is_empty());
        let (subject, data) = (content.subject(), PyBytes::new(py, content.data()));
        Ok((subject, data, reply, headers, code, description).into_pyobject(py)?)
    }
}

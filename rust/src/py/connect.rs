//! The connection as Python holds it, and the verbs that go through it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::engine::connect as engine;
use crate::engine::connect::ping::round_trip;
use crate::engine::request::request;
use crate::engine::rows::header_size;
use crate::engine::subject;
use crate::error::JetError;
use crate::py::call::Call;
use crate::py::headers;
use crate::py::message::Msg;
use crate::py::notices::Notices;
use crate::py::options::Given;
use crate::py::payload::Cell;
use crate::runtime::Owned;

/// Seconds from Python: finite, not negative, and short enough that no clock overflows.
pub fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    const YEAR: f64 = 366.0 * 24.0 * 3600.0;
    if value.is_nan() || value < 0.0 {
        return Err(PyValueError::new_err(format!("{name} must be a number of seconds, 0 or more, not {value}")));
    }
    Ok(Duration::from_secs_f64(value.min(YEAR)))
}

#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Connection {
    inner: Owned<Arc<engine::Connection>>,
}

impl Connection {
    /// The connection, for use in this process only.
    pub fn get(&self) -> Result<Arc<engine::Connection>, JetError> {
        self.inner.get().cloned()
    }

    pub fn connection(&self) -> Result<&engine::Connection, JetError> {
        self.inner.get().map(|conn| &**conn)
    }
}

/// Opens a connection; the call's result is a `Connection`. `notices` is None in the sync twin.
#[pyfunction]
#[pyo3(signature = (options, notices))]
pub fn connect(py: Python<'_>, options: Given, notices: Option<&Notices>) -> PyResult<Call> {
    let options = options.into_options(py, notices)?;
    Ok(Call::new(engine::connect(options), |py, conn| {
        Ok(Connection { inner: Owned::new(Arc::new(conn)) }.into_pyobject(py)?.into_any())
    }))
}

#[pymethods]
impl Connection {
    /// One request; the result is the payload of the answer.
    #[pyo3(signature = (subject, payload, *, timeout, headers=None))]
    fn request(
        &self,
        subject: String,
        payload: &[u8],
        timeout: f64,
        headers: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Call> {
        let conn = self.get()?;
        subject::check_tokens(&subject)?;
        let timeout = seconds("timeout", timeout)?;
        let payload = Bytes::copy_from_slice(payload);
        let headers = headers.map(headers::from_python).transpose()?;
        Ok(Call::new(async move { request(&conn, subject, payload, headers, timeout).await }, |py, answer| {
            Ok(PyBytes::new(py, &answer.payload).into_any())
        }))
    }

    /// The same; the result is the whole message. `nc` is what its verbs go through.
    #[pyo3(signature = (nc, subject, payload, *, timeout, headers=None))]
    fn request_msg(
        &self,
        nc: Py<PyAny>,
        subject: String,
        payload: &Bound<'_, PyAny>,
        timeout: f64,
        headers: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Call> {
        let conn = self.get()?;
        subject::check(&subject)?;
        let timeout = seconds("timeout", timeout)?;
        let payload = Bytes::copy_from_slice(Cell::new(payload)?.as_slice());
        let headers = headers.map(headers::lenient).transpose()?;
        let size = payload.len() + headers.as_ref().map_or(0, header_size);
        let limit = conn.client.max_payload();
        if size > limit {
            return Err(JetError::MaxPayload { what: format!("the request to {subject:?}"), size, limit }.into());
        }
        Ok(Call::new(async move { request(&conn, subject, payload, headers, timeout).await }, |py, answer| {
            Ok(Msg::received(nc, answer).into_pyobject(py)?.into_any())
        }))
    }

    /// A subject that nobody else uses.
    fn new_inbox(&self) -> PyResult<String> {
        Ok(self.connection()?.client.new_inbox())
    }

    /// A round trip through the server.
    fn flush(&self, timeout: f64) -> PyResult<Call> {
        let conn = self.get()?;
        let timeout = seconds("timeout", timeout)?;
        Ok(Call::new(async move { round_trip(&conn, timeout).await }, |py, ()| Ok(py.None().into_bound(py))))
    }

    /// Sends what is queued and ends the connection.
    fn close(&self) -> PyResult<Call> {
        let conn = self.get()?;
        Ok(Call::new(
            async move {
                conn.close().await;
                Ok(())
            },
            |py, ()| Ok(py.None().into_bound(py)),
        ))
    }
}

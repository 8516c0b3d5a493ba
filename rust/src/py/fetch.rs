//! A pull subscription, as Python holds it.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::engine::columns::{Column, Layout};
use crate::engine::fetch::{self as engine, Fetch};
use crate::engine::subject;
use crate::py::batch::Batch;
use crate::py::call::Call;
use crate::py::connect::{Connection, seconds};
use crate::runtime::Owned;

#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct PullSubscription {
    inner: Owned<Arc<engine::PullSubscription>>,
}

#[pymethods]
impl Connection {
    /// Listens for the messages of a pull consumer; the result is a `PullSubscription`.
    fn pull_subscribe(&self, prefix: String, stream: String, consumer: String) -> PyResult<Call> {
        let conn = self.get()?;
        subject::check_name("stream", &stream)?;
        subject::check_name("consumer", &consumer)?;
        Ok(Call::new(engine::PullSubscription::new(conn, prefix, stream, consumer), |py, sub| {
            Ok(PullSubscription { inner: Owned::new(Arc::new(sub)) }.into_pyobject(py)?.into_any())
        }))
    }
}

#[pymethods]
impl PullSubscription {
    /// Up to `max_messages` as a `Batch`.
    #[pyo3(signature = (max_messages, *, max_bytes, timeout, min_messages, heartbeat, columns))]
    fn fetch_batch(
        &self,
        max_messages: usize,
        max_bytes: Option<usize>,
        timeout: f64,
        min_messages: usize,
        heartbeat: Option<f64>,
        columns: Option<Vec<String>>,
    ) -> PyResult<Call> {
        let sub = self.inner.get()?.clone();
        if max_messages == 0 || max_bytes == Some(0) {
            return Err(PyValueError::new_err("max_messages and max_bytes must be at least 1"));
        }
        if min_messages > max_messages {
            return Err(PyValueError::new_err(format!(
                "min_messages={min_messages} is more than max_messages={max_messages}"
            )));
        }
        let columns = columns.map_or_else(|| Ok(Column::DEFAULT.to_vec()), |names| Column::parse(&names))?;
        let fetch = Fetch {
            max_messages,
            max_bytes,
            timeout: seconds("timeout", timeout)?,
            min_messages,
            heartbeat: heartbeat.map(|h| seconds("heartbeat", h)).transpose()?,
            layout: Layout::new(columns, false),
        };
        Ok(Call::new(async move { sub.fetch_batch(fetch).await }, |py, batch| {
            Ok(Batch { inner: batch }.into_pyobject(py)?.into_any())
        }))
    }
}

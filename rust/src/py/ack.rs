//! Acknowledging rows of a batch, as Python calls it.

use async_nats::Subject;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::engine::ack::{Kind, ack};
use crate::py::batch::Batch;
use crate::py::call::Call;
use crate::py::connect::{Connection, seconds};

#[pymethods]
impl Connection {
    /// Sends one ack per chosen row of `batch`: `rows` is None, row numbers, or a mask.
    #[pyo3(signature = (batch, kind, rows, *, delay=None, reason=None))]
    fn ack(
        &self,
        batch: &Batch,
        kind: &str,
        rows: Option<&Bound<'_, PyAny>>,
        delay: Option<f64>,
        reason: Option<String>,
    ) -> PyResult<Call> {
        let conn = self.get()?;
        let kind = match kind {
            "ack" => Kind::Ack,
            "nak" => Kind::Nak(delay.map(|d| seconds("delay", d)).transpose()?),
            "in_progress" => Kind::Progress,
            "term" => Kind::Term(reason),
            other => return Err(PyValueError::new_err(format!("unknown kind of ack {other:?}"))),
        };
        let chosen = batch.select(rows)?;
        let Some(replies) = batch.inner.replies.clone() else {
            return Err(PyValueError::new_err("these messages were read without a consumer that takes acks"));
        };
        let subjects: Vec<Subject> = chosen.into_iter().map(|row| replies.value(row).into()).collect();
        let work = async move { ack(&conn, subjects, &kind).await };
        Ok(Call::new(work, |py, ()| Ok(py.None().into_bound(py))))
    }
}

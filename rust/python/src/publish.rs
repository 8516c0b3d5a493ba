//! The verbs `publish` and `publish_batch`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{Array as _, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString, PyTuple};

use crate::arrow::is_producer;
use crate::batch::{Array, export, export_schema};
use crate::bridge::Progress;
use crate::call::Call;
use crate::connect::Connection;
use crate::convert::{Timeout, Word, seconds};
use crate::error::{PyResult, to_exception};
use crate::payload::message;
use crate::rows::{self, RowArguments};
use crate::table::TableMessages;
use crate::{headers, puback};
use base::error::{About, JetError};
use jetstream::api::MAX_ATOMIC_ROWS;
use jetstream::publish::chunks::Chunking;
use jetstream::publish::outcome::{Outcome, RowBlocks};
use jetstream::publish::row_numbers::SharedRowNumbers;
use jetstream::publish::window::Window;
use jetstream::publish::{self as engine, Mode};
use wire::nats::header::NATS_EXPECTED_STREAM;
use wire::subject;

#[pymethods]
impl Connection {
    /// Publishes one message. The result is its `PubAck`.
    #[pyo3(signature = (subject, payload, *, prefix, timeout, headers=None))]
    fn publish(
        &self,
        subject: Word<'_>,
        payload: &Bound<'_, PyAny>,
        prefix: String,
        timeout: Timeout,
        headers: Option<headers::Given<'_>>,
    ) -> PyResult<Call> {
        let conn = self.get()?;
        subject::check(subject.0)?;
        let subject = subject.0.to_owned();
        let Timeout(timeout) = timeout;
        let what = || About::Other(format!("the message for {subject:?}"));
        let headers = || headers.as_ref().map(|given| headers::from_python(&given.0)).transpose();
        let (payload, headers) =
            message(what, payload, |cell| self.of_a_request(cell), headers, conn.client.max_payload())?;
        Ok(Call::new(
            async move { engine::publish(&conn, subject, payload, headers, prefix, timeout).await },
            puback::build_in_full,
        ))
    }

    /// Publishes many messages with a limit on those in flight. The result is a `PublishOutcome`.
    #[pyo3(signature = (subject, payloads, *, prefix, headers, msg_ids, msg_ttl, expected_stream, mode,
                        max_inflight, max_bytes, timeout, resend, progress, chunk=None, split=false, first_row=0, table=None, ignore_extra=false))]
    fn publish_batch(
        &self,
        subject: Option<&Bound<'_, PyAny>>,
        payloads: &Bound<'_, PyAny>,
        prefix: String,
        headers: Option<&Bound<'_, PyAny>>,
        msg_ids: Option<&Bound<'_, PyAny>>,
        msg_ttl: Option<String>,
        expected_stream: Option<&Bound<'_, PyString>>,
        mode: &str,
        max_inflight: Option<usize>,
        max_bytes: usize,
        timeout: f64,
        resend: Option<bool>,
        progress: Option<Py<PyAny>>,
        chunk: Option<usize>,
        split: bool,
        first_row: u64,
        table: Option<&TableMessages>,
        ignore_extra: bool,
    ) -> PyResult<Call> {
        let conn = self.get()?;
        subject::check(&prefix)?;
        let mode = match (mode.parse()?, chunk) {
            (Mode::Atomic, Some(rows @ 1..=MAX_ATOMIC_ROWS)) => Mode::Chunks(Chunking { rows, split, live: false }),
            (Mode::Atomic, Some(_)) => {
                return Err(PyValueError::new_err(format!("chunk must be 1 to {MAX_ATOMIC_ROWS} rows")).into());
            }
            (_, Some(_)) => return Err(PyValueError::new_err("chunk= needs mode=\"atomic\"").into()),
            (mode, None) => mode,
        };
        if max_inflight == Some(0) {
            return Err(PyValueError::new_err("max_inflight must be at least 1").into());
        }
        if max_bytes == 0 {
            return Err(PyValueError::new_err("max_bytes must be at least 1").into());
        }
        let expected_stream = expected_stream.map(parse_stream).transpose()?;
        let arguments = RowArguments { subject, headers, msg_ids, expected_stream, msg_ttl, first_row, ignore_extra };
        let limit = conn.client.max_payload();
        let (blocks, total, keep) = if is_producer(payloads)? {
            let (blocks, total) = rows::blocks(payloads, arguments, limit)?;
            (blocks, total, None)
        } else {
            let rows = Arc::new(rows::rows(payloads, arguments, limit)?);
            let blocks: RowBlocks = Box::pin(futures_util::stream::iter([Ok(rows.clone())]));
            // Kept until the end, so that the objects of the rows are released with the GIL held.
            (blocks, Some(rows.len), Some(rows))
        };
        let timeout = seconds("timeout", timeout)?;
        let (published_window, urgent) = Default::default();
        let window =
            Window { max_inflight, max_bytes, published_window, urgent, timeout, resend, prefix, is_batch: true };
        let done = Arc::new(AtomicU64::new(0));
        let report = progress.map(|callback| progress_of(callback, done.clone(), total));
        let numbering = Numbering { first_row, table: table.and_then(|table| table.numbers.clone()) };
        let reported = numbering.clone();
        let work = async move {
            let outcome = engine::publish_batch(&conn, blocks, mode, window, done).await;
            outcome.map_err(|err| err.renumbered(&|row| reported.first(row)))
        };
        let call = Call::new(work, move |py, outcome| {
            drop(keep);
            Ok(PublishOutcome { inner: outcome, numbering }.into_pyobject(py)?.into_any())
        });
        Ok(call.with_progress(report))
    }
}

/// Checks the stream that rows expect.
fn parse_stream(name: &Bound<'_, PyString>) -> PyResult<String> {
    let name = headers::value(NATS_EXPECTED_STREAM.as_ref(), name)?.to_string();
    subject::check_name("stream", &name)?;
    Ok(name)
}

/// Calls the callback with the number of rows done and the total, if that is known.
fn progress_of(callback: Py<PyAny>, done: Arc<AtomicU64>, total: Option<usize>) -> Progress {
    Progress { report: Box::new(move |py| Ok(callback.call1(py, (done.load(Ordering::Relaxed), total)).map(drop)?)) }
}

/// The numbers of rows in errors.
#[derive(Clone)]
struct Numbering {
    first_row: u64,
    /// The rows of a table that each published row, a message, has.
    table: Option<SharedRowNumbers>,
}

impl Numbering {
    /// Returns the numbers of a published row.
    fn rows(&self, row: u64) -> Vec<u64> {
        let row = self.first_row.saturating_add(row);
        self.table.as_ref().map_or_else(|| vec![row], |table| table.of(row))
    }

    fn first(&self, row: u64) -> u64 {
        self.rows(row).first().copied().unwrap_or(row)
    }
}

/// The result of every row.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct PublishOutcome {
    inner: Outcome,
    numbering: Numbering,
}

/// A row that was not stored, and its error.
#[pyclass(frozen, get_all, module = "jetarrow._jetarrow")]
pub struct FailedRow {
    row: u64,
    error: Py<PyAny>,
}

impl PublishOutcome {
    fn seq_array(&self) -> Int64Array {
        self.inner.seqs.iter().map(|seq| (seq > 0).then_some(seq)).collect()
    }

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("row", DataType::Int64, false),
            Field::new("seq", DataType::Int64, true),
            Field::new("status", DataType::Utf8, false),
            Field::new("error", DataType::Utf8, true),
        ])
    }

    fn table(&self) -> Result<RecordBatch, arrow_schema::ArrowError> {
        let rows = self.inner.seqs.len();
        let mut errors = vec![None; rows];
        for (row, err) in &self.inner.errors {
            errors[*row as usize] = Some(err.clone().renumbered(&|row| self.numbering.first(row)).to_string());
        }
        let status = (0..rows).map(|row| match (&errors[row], self.inner.seqs.is_duplicate(row)) {
            (Some(_), _) => "error",
            (None, true) => "duplicate",
            (None, false) => "stored",
        });
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..rows as i64)),
            Arc::new(self.seq_array()),
            Arc::new(StringArray::from_iter_values(status)),
            Arc::new(errors.iter().map(Option::as_deref).collect::<StringArray>()),
        ];
        RecordBatch::try_new(Arc::new(Self::schema()), columns)
    }
}

#[pymethods]
impl PublishOutcome {
    #[getter]
    fn stream(&self) -> Option<&str> {
        self.inner.stream.as_deref()
    }

    #[getter]
    fn count(&self) -> usize {
        self.inner.seqs.len()
    }

    #[getter]
    fn stored(&self) -> u64 {
        self.inner.stored()
    }

    #[getter]
    fn duplicates(&self) -> Option<u64> {
        self.inner.counts_duplicates.then_some(self.inner.duplicates)
    }

    #[getter]
    fn seqs(&self) -> Array {
        let array = self.seq_array();
        Array::new(Field::new("seq", array.data_type().clone(), true), Arc::new(array))
    }

    /// The failed rows, in order. A message of a table fails with all its rows.
    fn errors(&self, py: Python<'_>) -> PyResult<Vec<FailedRow>> {
        let mut failed = Vec::with_capacity(self.inner.errors.len());
        for (message, err) in &self.inner.errors {
            for row in self.numbering.rows(*message) {
                let number = |other| if other == *message { row } else { self.numbering.first(other) };
                let error = to_exception(py, &err.clone().renumbered(&number))?.unbind();
                failed.push(FailedRow { row, error });
            }
        }
        failed.sort_by_key(|failed| failed.row);
        Ok(failed)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_schema(py, &Self::schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let table = self.table().map_err(|e| JetError::Internal(e.to_string()))?;
        export(py, table, requested_schema)
    }
}

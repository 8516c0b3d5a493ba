//! The class `Reader`: a read of a range.

use std::sync::Arc;

use arrow_array::{ArrayRef, StructArray};
use arrow_schema::{ArrowError, Field, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString};
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};

use crate::batch::{Batch, export_schema};
use crate::block_on::block_on;
use crate::call::Call;
use crate::connect::Connection;
use crate::convert::{SURROGATE, Timeout, utf8};
use crate::error::{PyResult, to_exception};
use crate::loss::Loss;
use crate::requested;
use crate::typed::{typed, unpack};
use base::error::JetError;
use base::panics::caught;
use jetstream::api::Api;
use jetstream::receive::column::{Column, Layout};
use jetstream::receive::read::{self as engine, Bound, Each, Item, Range, ReadFormat};
use jetstream::receive::rollback::{Extent, Mark, Marks, verify};
use runtime::Owned;
use wire::subject;

/// A read of a range of a stream.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Reader {
    inner: Owned<Arc<engine::Reader>>,
    schema: SchemaRef,
    start: u64,
    end: u64,
    created: String,
    opened: Option<(u64, i64)>,
}

#[pymethods]
impl Connection {
    /// Opens a read of [start, end). The result is a `Reader`.
    #[pyo3(signature = (prefix, stream, *, start_seq, end_seq, start_time, end_time, subjects, follow, columns, batch_rows,
                        batch_bytes, fetch_bytes, microseconds, warn_on_loss, direct, schema, mode, timeout, latest=false,
                        markers=true, bucket=None, flatten=false, limit=None, format="json", grow=false, outage=None,
                        marks=Vec::new(), on_rollback="fail"))]
    fn read(
        &self,
        prefix: String,
        stream: &pyo3::Bound<'_, PyString>,
        start_seq: Option<u64>,
        end_seq: Option<u64>,
        start_time: Option<String>,
        end_time: Option<String>,
        subjects: Vec<pyo3::Bound<'_, PyString>>,
        follow: bool,
        columns: Option<Vec<String>>,
        batch_rows: usize,
        batch_bytes: usize,
        fetch_bytes: usize,
        microseconds: bool,
        warn_on_loss: bool,
        direct: Option<bool>,
        schema: Option<&pyo3::Bound<'_, PyAny>>,
        mode: &str,
        timeout: Timeout,
        latest: bool,
        markers: bool,
        bucket: Option<&str>,
        flatten: bool,
        limit: Option<u64>,
        format: &str,
        grow: bool,
        outage: Option<Timeout>,
        marks: Vec<(u64, i64)>,
        on_rollback: &str,
    ) -> PyResult<Call> {
        let conn = self.get()?;
        subject::check(&prefix)?;
        let stream = utf8(stream, || JetError::Value(format!("the stream name: {SURROGATE}")))?.to_string();
        subject::check_name("stream", &stream)?;
        if batch_rows == 0 || batch_bytes == 0 {
            return Err(PyValueError::new_err("batch_rows and batch_bytes must be at least 1").into());
        }
        let tables = format == "arrow";
        let layout = match bucket {
            None => Layout::new(parse_columns(columns, schema.is_some(), tables)?, microseconds),
            Some(prefix) => Layout::entries(prefix, microseconds),
        };
        let start = bound("start", start_seq, start_time)?;
        let end = bound("end", end_seq, end_time)?;
        if follow && !matches!(end, Bound::Open) {
            return Err(PyValueError::new_err("follow=True has no end: give neither end_seq nor end_time").into());
        }
        let range = Range {
            prefix,
            stream,
            start,
            end,
            subjects: parse_filters(&subjects)?,
            follow,
            batch_rows,
            batch_bytes,
            grow,
            fetch_bytes,
            warn_on_loss,
            direct,
            each: if latest { Each::Latest { markers } } else { Each::All },
            limit,
            layout: layout.clone(),
            timeout: timeout.0,
            outage: outage.map_or(engine::OUTAGE, |outage| outage.0),
            marks: self::marks(marks),
            on_rollback: on_rollback.parse()?,
        };
        let form = match schema {
            None => ReadFormat::Messages,
            Some(schema) if tables => ReadFormat::Tables(unpack(&layout.schema, schema, mode, batch_rows)?),
            Some(schema) => ReadFormat::Typed(typed(&layout.schema, schema, mode, flatten)?),
        };
        open(conn, range, form)
    }
}

/// Opens the read. The result is a `Reader`.
fn open(conn: Arc<client::Connection>, range: Range, form: ReadFormat) -> PyResult<Call> {
    let schema = match &form {
        ReadFormat::Messages => range.layout.schema.clone(),
        ReadFormat::Typed(typed) => typed.schema.clone(),
        ReadFormat::Tables(unpack) => unpack.schema.clone(),
    };
    Ok(Call::new(engine::Reader::open(conn, range, form), move |py, reader| {
        let (start, end) = (reader.start, reader.end);
        let created = reader.created.clone();
        let opened = reader.opened.map(|mark| (mark.seq, mark.nanos));
        let inner = Owned::new(Arc::new(reader));
        Ok(Reader { inner, schema, start, end, created, opened }.into_pyobject(py)?.into_any())
    }))
}

/// Returns the columns of messages. With a schema, `value` names the decoded column.
fn parse_columns(names: Option<Vec<String>>, has_schema: bool, tables: bool) -> PyResult<Vec<Column>> {
    let default = if tables { &[Column::Data] } else { &Column::DEFAULT[..] };
    let Some(names) = names else { return Ok(default.to_vec()) };
    let rename = |name: String| if has_schema && name == "value" { "data".to_owned() } else { name };
    let mut columns = Column::parse(&names.into_iter().map(rename).collect::<Vec<_>>())?;
    if tables && has_schema && !columns.contains(&Column::Data) {
        columns.push(Column::Data);
    }
    Ok(columns)
}

fn parse_filters(subjects: &[pyo3::Bound<'_, PyString>]) -> PyResult<Vec<String>> {
    let bad = || JetError::BadSubject { subject: "subjects".into(), reason: SURROGATE };
    let filters = subjects.iter().map(|filter| utf8(filter, bad).map(|filter| filter.to_string()));
    let filters = filters.collect::<PyResult<Vec<_>>>()?;
    filters.iter().try_for_each(|filter| subject::check_tokens(filter))?;
    Ok(filters)
}

/// Converts sequences and nanoseconds since 1970.
pub fn marks(given: Vec<(u64, i64)>) -> Vec<Mark> {
    given.into_iter().map(|(seq, nanos)| Mark { seq, nanos }).collect()
}

fn bound(what: &str, seq: Option<u64>, time: Option<String>) -> PyResult<Bound> {
    match (seq, time) {
        (None, None) => Ok(Bound::Open),
        (Some(seq), None) => Ok(Bound::Seq(seq)),
        (None, Some(time)) => Ok(Bound::Time(time)),
        _ => Err(PyValueError::new_err(format!("give {what}_seq or {what}_time, not both")).into()),
    }
}

#[pymethods]
impl Connection {
    /// Compares marks with a stream. Returns None, or the `StreamRolledBackError` of the first difference.
    ///
    /// `extent` is the stream's first and last sequence and the time of the last message, if they are known.
    #[pyo3(signature = (prefix, stream, marks, timeout, extent=None))]
    fn verify_marks(
        &self,
        prefix: String,
        stream: String,
        marks: Vec<(u64, i64)>,
        timeout: Timeout,
        extent: Option<(u64, u64, Option<i64>)>,
    ) -> PyResult<Call> {
        let conn = self.get()?;
        let marks = Marks::new(self::marks(marks));
        let known = extent.map(|(first_seq, last_seq, last_nanos)| Extent { first_seq, last_seq, last_nanos });
        let work = async move {
            let api = Api::new(&conn, &prefix).within(timeout.0);
            verify(api, &stream, marks.as_slice(), known).await
        };
        Ok(Call::new(work, |py, found| match found {
            None => Ok(py.None().into_bound(py)),
            Some(rollback) => Ok(to_exception(py, &JetError::RolledBack(Box::new(rollback)))?),
        }))
    }
}

/// Reduces marks to those that a position needs, the newest first.
#[pyfunction]
pub fn thin_marks(given: Vec<(u64, i64)>) -> Vec<(u64, i64)> {
    Marks::new(marks(given)).as_slice().iter().map(|mark| (mark.seq, mark.nanos)).collect()
}

#[pymethods]
impl Reader {
    /// Returns the next `Batch`, or None at the end and if the reader is closed.
    ///
    /// It can also return a `Loss` or a `StreamRolledBackError`, which the caller reports as a warning.
    fn next(&self) -> PyResult<Call> {
        let reader = self.inner.get()?.clone();
        let work = async move { reader.next().await.transpose() };
        Ok(Call::new(work, |py, item| match item {
            None => Ok(py.None().into_bound(py)),
            Some(Item::Batch(batch)) => Ok(Batch { inner: batch }.into_pyobject(py)?.into_any()),
            Some(Item::Loss(loss)) => Ok(Loss { inner: loss }.into_pyobject(py)?.into_any()),
            Some(Item::RolledBack(rollback)) => Ok(to_exception(py, &JetError::RolledBack(rollback))?),
        }))
    }

    /// Stops the read, ends all calls that wait for `next`, and deletes the consumer.
    fn close(&self) -> PyResult<Call> {
        let reader = self.inner.get()?.clone();
        let work = async move {
            reader.close().await;
            Ok(())
        };
        Ok(Call::unit(work))
    }

    /// The first sequence of the range.
    #[getter]
    fn start(&self) -> u64 {
        self.start
    }

    /// The sequence after the last one of the range.
    #[getter]
    fn end(&self) -> u64 {
        self.end
    }

    /// The stream's creation time, as the server formats it.
    #[getter]
    fn created(&self) -> &str {
        &self.created
    }

    /// Sequence and nanoseconds of the stream's last message when the read was opened.
    #[getter]
    fn opened(&self) -> Option<(u64, i64)> {
        self.opened
    }

    /// The rest of the range as an Arrow stream. Losses that would only be warnings are dropped, because they need
    /// Python.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<pyo3::Bound<'py, PyCapsule>>,
    ) -> PyResult<pyo3::Bound<'py, PyCapsule>> {
        let field = Field::new_struct("", self.schema.fields().clone(), false);
        let requested = requested::cheap(&field, requested_schema)?;
        let stream = ArrayIterator::new(Stream { reader: self.inner.get()?.clone() }, field.into());
        Ok(to_stream_pycapsule(py, Box::new(stream), requested)?)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<pyo3::Bound<'py, PyCapsule>> {
        export_schema(py, &self.schema)
    }
}

/// Finished batches for a consumer in any thread, with or without the GIL.
struct Stream {
    reader: Arc<engine::Reader>,
}

impl Iterator for Stream {
    type Item = Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // A panic must not cross Arrow's C interface, because it would end the process.
        let internal = |err: JetError| Some(Err(ArrowError::ExternalError(err.to_string().into())));
        caught(|| self.take_array()).unwrap_or_else(internal)
    }
}

impl Stream {
    fn take_array(&mut self) -> Option<Result<ArrayRef, ArrowError>> {
        loop {
            let reader = self.reader.clone();
            let next = async move { reader.next().await.transpose() };
            // Attaching first lets block_on release the GIL if the consumer holds it, and handle Ctrl-C. Arrow's
            // interface has only an errno and a text, so Ctrl-C ends the stream, and the text names it.
            let item = Python::attach(|py| block_on(py, next, |_| Ok(())).map_err(|err| err.to_string()));
            match item {
                // A stream that ends here would be mistaken for the whole range.
                Ok(Ok(None)) if self.reader.is_closed() => {
                    return Some(Err(ArrowError::ExternalError("the reader was closed".into())));
                }
                Ok(Ok(None)) => return None,
                Ok(Ok(Some(Item::Batch(batch)))) => return Some(Ok(Arc::new(StructArray::from(batch.record)))),
                Ok(Ok(Some(Item::Loss(_) | Item::RolledBack(_)))) => {}
                Ok(Err(err)) => return Some(Err(ArrowError::ExternalError(Box::new(err)))),
                Err(text) => return Some(Err(ArrowError::ExternalError(text.into()))),
            }
        }
    }
}

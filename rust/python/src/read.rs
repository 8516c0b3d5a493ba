//! The class `Reader`: a read of a range.

use std::sync::Arc;

use arrow_array::{ArrayRef, StructArray};
use arrow_schema::{ArrowError, Field, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyString};
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};

use crate::batch::{Batch, export_schema};
use crate::block_on::block_on;
use crate::call::Call;
use crate::connect::Connection;
use crate::convert::{SURROGATE, Timeout, utf8};
use crate::error::{PyResult, to_exception};
use crate::loss::Loss;
use crate::requested;
use base::error::JetError;
use base::panics::caught;
use jetstream::api::Api;
use jetstream::receive::read::{self as engine, Item, Range, ReadFormat};
use jetstream::receive::rollback::{Extent, Mark, Marks, verify};
use runtime::Owned;
use wire::subject;

mod options;

use options::ReadOptions;

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
    /// Opens a read of [start, end). `options` are those of `ReadSpec.native_options`. The result is a `Reader`.
    #[pyo3(signature = (prefix, stream, options, *, schema, timeout))]
    fn read<'py>(
        &self,
        prefix: String,
        stream: &pyo3::Bound<'py, PyString>,
        options: &pyo3::Bound<'py, PyDict>,
        schema: Option<&pyo3::Bound<'py, PyAny>>,
        timeout: Timeout,
    ) -> PyResult<Call> {
        let conn = self.get()?;
        subject::check(&prefix)?;
        let stream = utf8(stream, || JetError::Value(format!("the stream name: {SURROGATE}")))?.to_string();
        subject::check_name("stream", &stream)?;
        let options = ReadOptions(options);
        let range = options.range(prefix, stream, timeout.0, schema.is_some())?;
        let form = options.format(&range, schema)?;
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

/// Converts sequences and nanoseconds since 1970.
pub fn marks(given: Vec<(u64, i64)>) -> Vec<Mark> {
    given.into_iter().map(|(seq, nanos)| Mark { seq, nanos }).collect()
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
        let call = Call::new(work, |py, item| match item {
            None => Ok(py.None().into_bound(py)),
            Some(Item::Batch(batch)) => Ok(Batch { inner: batch }.into_pyobject(py)?.into_any()),
            Some(Item::Loss(loss)) => Ok(Loss { inner: loss }.into_pyobject(py)?.into_any()),
            Some(Item::RolledBack(rollback)) => Ok(to_exception(py, &JetError::RolledBack(rollback))?),
        });
        Ok(call.bulk())
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

//! Arrow data as Python objects with the PyCapsule interface.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{Field, FieldRef, Schema};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};
use pyo3_arrow::ffi::to_array_pycapsules;

use crate::block_on::block_on;
use crate::error::PyResult;
use crate::message::{MessageFormat, Msg};
use crate::python_call::begin_call;
use crate::requested;
use crate::typed::{Rules, typed};
use columns::batch as engine;
use jetstream::receive::message::Received;

/// Exports a schema in a capsule.
pub fn export_schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    Ok(pyo3_arrow::ffi::to_schema_pycapsule(py, schema)?)
}

/// Exports an array, in the requested schema if it is supported.
pub fn export<'py>(
    py: Python<'py>,
    record: RecordBatch,
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let field = Field::new_struct("", record.schema_ref().fields().clone(), false);
    let array: ArrayRef = Arc::new(arrow_array::StructArray::from(record));
    let requested = requested::cheap(&field, requested_schema)?;
    Ok(to_array_pycapsules(py, field.into(), &array, requested)?)
}

/// A column of 64-bit integers.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Array {
    field: FieldRef,
    array: ArrayRef,
}

impl Array {
    pub fn new(field: Field, array: ArrayRef) -> Self {
        Array { field: Arc::new(field), array }
    }

    fn value(&self, index: usize) -> Option<i64> {
        self.array.is_valid(index).then(|| self.array.as_primitive::<Int64Type>().value(index))
    }
}

#[pymethods]
impl Array {
    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<Option<i64>> {
        Ok(self.value(position(index, self.array.len())?))
    }

    fn to_pylist(&self) -> Vec<Option<i64>> {
        (0..self.array.len()).map(|i| self.value(i)).collect()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let requested = requested::cheap(&self.field, requested_schema)?;
        Ok(to_array_pycapsules(py, self.field.clone(), &self.array, requested)?)
    }
}

fn position(index: isize, len: usize) -> PyResult<usize> {
    let from_end = if index < 0 { index + len as isize } else { index };
    Ok(usize::try_from(from_end)
        .ok()
        .filter(|i| *i < len)
        .ok_or_else(|| PyIndexError::new_err(format!("row {index} of a batch of {len}")))?)
}

/// A batch of messages in columns.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Batch {
    pub inner: engine::Batch,
}

impl Batch {
    /// Returns the rows that an ack verb selects: all, the given numbers, or those of a mask.
    pub fn select(&self, rows: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<usize>> {
        let len = self.inner.record.num_rows();
        let Some(rows) = rows else { return Ok((0..len).collect()) };
        let _call = begin_call(rows.py());
        let wrong =
            |n| pyo3::exceptions::PyValueError::new_err(format!("the mask has {n} entries, the batch {len} rows"));
        if rows.hasattr("__arrow_c_array__")? {
            let array = rows.extract::<pyo3_arrow::PyArray>()?.into_inner().0;
            if let Some(mask) = array.as_boolean_opt() {
                return Ok(from_mask(mask, len).ok_or_else(|| wrong(mask.len()))?);
            }
        }
        // Converts numpy or pandas values into Python's numbers and bools at once.
        let rows = if rows.hasattr("tolist")? { &rows.call_method0("tolist")? } else { rows };
        let mut chosen = Vec::new();
        let mut mask = Vec::new();
        for row in rows.try_iter()? {
            let row = row?;
            if row.is_instance_of::<pyo3::types::PyBool>() {
                mask.push(row.is_truthy()?);
                continue;
            }
            match row.extract() {
                Ok(number) => chosen.push(position(number, len)?),
                // A bool of numpy.
                Err(_) if row.hasattr("item")? => mask.push(row.call_method0("item")?.is_truthy()?),
                Err(err) => return Err(err.into()),
            }
        }
        if mask.is_empty() {
            return Ok(chosen);
        }
        Ok(from_mask(&BooleanArray::from(mask.clone()), len).ok_or_else(|| wrong(mask.len()))?)
    }
}

fn from_mask(mask: &BooleanArray, len: usize) -> Option<Vec<usize>> {
    let chosen = || (0..len).filter(|i| mask.is_valid(*i) && mask.value(*i)).collect();
    (mask.len() == len).then(chosen)
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.inner.record.num_rows()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.inner.record.get_array_memory_size()
    }

    #[getter]
    fn seqs(&self) -> Array {
        let seqs = self.inner.seqs.clone();
        Array::new(Field::new("seq", seqs.data_type().clone(), false), Arc::new(seqs))
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.inner.record.schema_ref().fields().iter().map(|f| f.name().clone()).collect()
    }

    /// Returns the same rows with `data` decoded.
    #[pyo3(signature = (schema, mode, rules, *, binary=false))]
    fn decode(
        &self,
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        mode: &str,
        rules: Rules,
        binary: bool,
    ) -> PyResult<Batch> {
        let mut typed = typed(self.inner.record.schema_ref(), schema, binary, mode, &rules, false)?;
        if typed.needs_schemas(&self.inner) {
            let batch = self.inner.clone();
            typed = block_on(py, async move { typed.prepare(&batch).await.map(|()| typed) }, |_| Ok(()))??;
        }
        Ok(Batch { inner: typed.apply(self.inner.clone())? })
    }

    /// Returns the rows for which the mask, an Arrow array of booleans, is true.
    fn filter(&self, mask: pyo3_arrow::PyArray) -> PyResult<Batch> {
        let wrong = |err: String| pyo3::exceptions::PyValueError::new_err(err);
        let mask = mask.into_inner().0;
        let mask = mask.as_boolean_opt().ok_or_else(|| wrong("the mask is not of booleans".into()))?;
        Ok(Batch { inner: self.inner.filter(mask).map_err(|err| wrong(err.to_string()))? })
    }

    /// Splits the rows by the first token of their subjects, which is removed.
    fn by_first_token(&self) -> PyResult<Vec<(String, Batch)>> {
        let parts = self.inner.by_first_token();
        let parts = parts.map_err(|err| pyo3::exceptions::PyValueError::new_err(err.to_string()))?;
        Ok(parts.into_iter().map(|(token, inner)| (token, Batch { inner })).collect())
    }

    /// Returns all payloads concatenated, as they are in the column.
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let column = self.inner.record.column_by_name("data").and_then(|column| column.as_binary_opt::<i32>());
        let bytes = column.map_or(&b""[..], |column| {
            let (offsets, values) = (column.value_offsets(), column.value_data());
            let ends = offsets.first().zip(offsets.last());
            ends.and_then(|(first, last)| values.get(*first as usize..*last as usize)).unwrap_or_default()
        });
        PyBytes::new(py, bytes)
    }

    /// Returns one row as a message. Fields without a column are empty.
    fn message<'py>(&self, session: &Bound<'py, PyAny>, index: isize) -> PyResult<Bound<'py, PyAny>> {
        let record = &self.inner.record;
        let row = position(index, record.num_rows())?;
        let subject = record.column_by_name("subject").map_or("", |c| c.as_string::<i32>().value(row));
        let data = record.column_by_name("data").map_or(&b""[..], |c| c.as_binary::<i32>().value(row));
        let reply = self.inner.replies.as_ref().filter(|r| r.is_valid(row)).map_or("", |r| r.value(row));
        let headers = record.column_by_name("headers").map(|c| engine::headers(c.as_map(), row));
        let content = Received::new(subject, reply, data, headers.filter(|headers| !headers.is_empty()));
        let message = MessageFormat::of(session)?.make(session.py(), session.as_unbound(), content, None)?;
        if reply.is_empty()
            && let Ok(native) = message.cast::<Msg>()
        {
            native.get().set_seq(session.py(), self.inner.seqs.value(row))?;
        }
        Ok(message)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_schema(py, self.inner.record.schema_ref())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        export(py, self.inner.record.clone(), requested_schema)
    }
}

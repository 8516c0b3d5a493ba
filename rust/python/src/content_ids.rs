//! Message ids of a table's rows, as one Arrow column.

use std::sync::{Arc, Mutex};

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef};
use arrow_schema::{DataType, Field};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::ffi::to_array_pycapsules;
use pyo3_arrow::input::AnyArray;

use crate::arrow::{HeaderColumn, extract, payload_column, strings, unfit};
use crate::error::PyResult;
use base::lock::lock;
use jetstream::publish::content_ids as engine;
use jetstream::publish::rows::{Payloads, Texts};

/// The message ids of one task, see [`jetstream::publish::content_ids`].
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct ContentIds {
    inner: Mutex<engine::ContentIds>,
    /// Rows without an id get one from their content.
    content: bool,
}

#[pymethods]
impl ContentIds {
    #[new]
    #[pyo3(signature = (scope))]
    fn new(scope: Option<&[u8]>) -> Self {
        let inner = Mutex::new(engine::ContentIds::new(scope.unwrap_or_default()));
        ContentIds { inner, content: scope.is_some() }
    }

    /// Returns one id per row. A row with a `msg_id` keeps it, and a row without data has none.
    #[pyo3(signature = (table, subject=None))]
    fn column(&self, py: Python<'_>, table: &Bound<'_, PyAny>, subject: Option<&str>) -> PyResult<Ids> {
        let source = IdSource::new(table)?;
        Ok(py.detach(|| {
            let mut ids = lock(&self.inner);
            let mut column = StringBuilder::with_capacity(source.len, source.len * 24);
            let (mut id, mut headers, mut repeated) = (String::new(), Vec::new(), None);
            for row in 0..source.len {
                match (source.msg_id(row), source.payload(row)) {
                    (Some(own), _) => {
                        // An empty id is absent.
                        if !own.is_empty() && !ids.own(own) && repeated.is_none() {
                            repeated = Some((row, own.to_owned()));
                        }
                        column.append_value(own);
                    }
                    (None, Some(payload)) if self.content => {
                        id.clear();
                        headers.clear();
                        source.headers(row, &mut headers);
                        let subject = subject.or_else(|| source.subject(row)).unwrap_or_default();
                        ids.write(subject, &mut headers, payload, &mut id);
                        column.append_value(&id);
                    }
                    (None, _) => column.append_null(),
                }
            }
            Ids { array: Arc::new(column.finish()), repeated }
        }))
    }
}

/// The columns of a table that determine a message's id.
struct IdSource {
    len: usize,
    payloads: Box<dyn Payloads>,
    subjects: Option<Arc<dyn Texts>>,
    msg_ids: Option<Arc<dyn Texts>>,
    headers: Option<HeaderColumn>,
}

impl IdSource {
    fn new(table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let AnyArray::Array(array) = extract("table", table)? else {
            return Err(PyTypeError::new_err("table must be one batch, not a stream").into());
        };
        let table = array.array().as_struct_opt().ok_or_else(|| unfit("table", "struct", array.array().data_type()))?;
        let text = |name: &str| table.column_by_name(name).map(|column| strings(name, column)).transpose();
        let data = table.column_by_name("data");
        let data = data.ok_or_else(|| PyValueError::new_err("the table has no column \"data\""))?;
        Ok(IdSource {
            len: table.len(),
            payloads: payload_column("data", data)?,
            subjects: text("subject")?,
            msg_ids: text("msg_id")?,
            headers: table.column_by_name("headers").map(HeaderColumn::new).transpose()?.flatten(),
        })
    }

    fn payload(&self, row: usize) -> Option<&[u8]> {
        self.payloads.get(row)
    }

    fn subject(&self, row: usize) -> Option<&str> {
        self.subjects.as_ref()?.get(row)
    }

    fn msg_id(&self, row: usize) -> Option<&str> {
        self.msg_ids.as_ref()?.get(row)
    }

    fn headers<'a>(&'a self, row: usize, out: &mut Vec<(&'a str, &'a str)>) {
        out.extend(self.headers.iter().flat_map(|headers| headers.of(row)));
    }
}

/// A column of strings.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Ids {
    array: ArrayRef,
    repeated: Option<(usize, String)>,
}

#[pymethods]
impl Ids {
    fn __len__(&self) -> usize {
        self.array.len()
    }

    /// The first row whose own id repeats that of another row, and the id.
    #[getter]
    fn repeated(&self) -> Option<(usize, String)> {
        self.repeated.clone()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let field = Field::new("msg_id", DataType::Utf8, true);
        Ok(to_array_pycapsules(py, field.into(), &self.array, requested_schema)?)
    }
}

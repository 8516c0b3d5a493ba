//! Message ids for a table of rows, as one Arrow column.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::builder::StringBuilder;
use arrow_array::{Array as _, ArrayRef};
use arrow_schema::{DataType, Field};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::ffi::to_array_pycapsules;

use crate::engine::publish::content_ids as engine;
use crate::py::arrow::IdSource;

/// The ids of one task, see the engine.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct ContentIds {
    inner: Mutex<engine::ContentIds>,
}

#[pymethods]
impl ContentIds {
    #[new]
    fn new(scope: &[u8]) -> Self {
        ContentIds { inner: Mutex::new(engine::ContentIds::new(scope)) }
    }

    /// One id per row; a row with a `msg_id` keeps it, one without data has none.
    #[pyo3(signature = (table, subject=None))]
    fn column(&self, py: Python<'_>, table: &Bound<'_, PyAny>, subject: Option<&str>) -> PyResult<Ids> {
        let source = IdSource::new(table)?;
        Ok(py.detach(|| {
            let mut ids = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let mut column = StringBuilder::with_capacity(source.len, source.len * 24);
            let (mut id, mut headers) = (String::new(), Vec::new());
            for row in 0..source.len {
                match (source.msg_id(row), source.payload(row)) {
                    (Some(own), _) => column.append_value(own),
                    (None, None) => column.append_null(),
                    (None, Some(payload)) => {
                        id.clear();
                        headers.clear();
                        source.headers(row, &mut headers);
                        let subject = subject.or_else(|| source.subject(row)).unwrap_or_default();
                        ids.write(subject, &mut headers, payload, &mut id);
                        column.append_value(&id);
                    }
                }
            }
            Ids { array: Arc::new(column.finish()) }
        }))
    }

    fn forget(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).forget();
    }
}

/// A column of strings.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Ids {
    array: ArrayRef,
}

#[pymethods]
impl Ids {
    fn __len__(&self) -> usize {
        self.array.len()
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

//! Subjects of a bucket's keys, as a column.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::builder::LargeStringBuilder;
use arrow_array::{Array as _, ArrayRef};
use arrow_schema::{DataType, Field};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString, PyTuple};
use pyo3_arrow::ffi::to_array_pycapsules;

use crate::arrow::{is_producer, text_column};
use crate::convert::{entries, type_name};
use crate::error::PyResult;
use wire::key;

/// A column of subjects.
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Subjects {
    array: ArrayRef,
    /// The first row whose key is invalid or null.
    #[pyo3(get)]
    invalid: Option<usize>,
}

#[pymethods]
impl Subjects {
    fn __len__(&self) -> usize {
        self.array.len()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // The consumer is our own publish_batch, which requests no schema.
        let _any = requested_schema;
        let field = Arc::new(Field::new("subject", DataType::LargeUtf8, false));
        Ok(to_array_pycapsules(py, field, &self.array, None)?)
    }
}

/// Returns the subjects of keys: `prefix` and a key. Keys are a sequence of str, or an Arrow string column.
#[pyfunction]
pub fn key_subjects(prefix: &str, keys: &Bound<'_, PyAny>, validate: bool) -> PyResult<Subjects> {
    let mut builder = LargeStringBuilder::new();
    let mut invalid = None;
    let mut add = |row: usize, key: Option<&str>| {
        if invalid.is_none() && key.is_none_or(|key| validate && !key::is_valid(key)) {
            invalid = Some(row);
        }
        let _into_memory = write!(builder, "{prefix}{}", key.unwrap_or_default());
        builder.append_value("");
    };
    if is_producer(keys)? {
        let (column, len) = text_column("keys", keys)?;
        (0..len).for_each(|row| add(row, column.get(row)));
    } else if keys.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("keys must be a sequence of str, not str; for one key use put()").into());
    } else {
        for (row, key) in entries("keys", keys)?.enumerate() {
            let key = key?;
            let text = key
                .cast::<PyString>()
                .map_err(|_| PyTypeError::new_err(format!("keys[{row}] must be str, not {}", type_name(&key))))?;
            add(row, Some(text.to_str()?));
        }
    }
    Ok(Subjects { array: Arc::new(builder.finish()), invalid })
}

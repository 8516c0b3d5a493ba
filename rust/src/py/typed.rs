//! The decoder that `schema=` and `mode=` ask for.

use arrow_schema::Schema;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::engine::columns::decode::Mode;
use crate::engine::columns::typed::Typed;

/// The decoder of `schema=` (anything with an Arrow schema), `mode=` and `flatten=`.
pub fn typed(input: &Schema, schema: &Bound<'_, PyAny>, mode: &str, flat: bool) -> PyResult<Typed> {
    let mode: Mode = mode.parse()?;
    let fields = schema.extract::<pyo3_arrow::PySchema>().map_err(|err| {
        PyTypeError::new_err(format!("schema must be an Arrow schema or struct type of any library: {err}"))
    })?;
    Ok(Typed::new(input, fields.as_ref().fields(), mode, flat)?)
}

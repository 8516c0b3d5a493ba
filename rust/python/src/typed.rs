//! Decoders for the arguments `schema=` and `mode=`.

use arrow_schema::Schema;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::PySchema;

use crate::batch::export_schema;
use crate::error::PyResult;
use columns::avro::{self, AvroSchema};
use columns::decode::rules::{JsonRules, Leniency, TimeNumbers};
use columns::unpack::{self, Unpack};
use jetstream::receive::typed::Typed;

/// Returns the decoder for `schema=` (any object with an Arrow schema, or the JSON of an Avro schema), `mode=` and
/// `flatten=`.
pub fn typed(
    input: &Schema,
    schema: &Bound<'_, PyAny>,
    avro: bool,
    mode: &str,
    rules: &Rules,
    flat: bool,
) -> PyResult<Typed> {
    if avro {
        return Ok(Typed::of_avro(input, schema.extract()?, mode.parse()?, flat)?);
    }
    Ok(Typed::new(input, fields(schema)?.as_ref().fields(), mode.parse()?, &rules.parse()?, flat)?)
}

/// `jetarrow.jetstream.json_rules.JsonRules`.
#[derive(FromPyObject)]
pub struct Rules {
    time_zone: String,
    timestamp_numbers: Option<String>,
    like_spark: bool,
    non_finite: bool,
}

impl Rules {
    fn parse(&self) -> PyResult<JsonRules> {
        let numbers = match &self.timestamp_numbers {
            Some(word) => word.parse()?,
            None if self.like_spark => TimeNumbers::LikeSpark,
            None => TimeNumbers::ColumnUnit,
        };
        let leniency = Leniency { like_spark: self.like_spark, non_finite: self.non_finite };
        Ok(JsonRules { zone: self.time_zone.parse()?, numbers, leniency })
    }
}

/// Returns the decoder that unpacks Arrow payloads into the columns of `schema=`.
pub fn unpack(input: &Schema, schema: &Bound<'_, PyAny>, mode: &str, batch_rows: usize) -> PyResult<Unpack> {
    Ok(Unpack::new(input, fields(schema)?.as_ref().fields(), mode.parse()?, batch_rows)?)
}

fn fields(schema: &Bound<'_, PyAny>) -> PyResult<PySchema> {
    Ok(schema.extract::<PySchema>().map_err(|err| {
        PyTypeError::new_err(format!("schema must be an Arrow schema or struct type of any library: {err}"))
    })?)
}

/// Returns the columns of an Avro schema, in a capsule.
#[pyfunction]
pub fn schema_of_avro<'py>(py: Python<'py>, schema: &str) -> PyResult<Bound<'py, PyCapsule>> {
    let fields = AvroSchema::parse(schema).and_then(|schema| avro::fields(&schema));
    let fields = fields.map_err(|reason| PyValueError::new_err(format!("schema: {reason}")))?;
    export_schema(py, &Schema::new(fields))
}

/// Returns the Arrow schema of a payload in a capsule; None if the payload is not an Arrow stream.
///
/// Without a payload it is the empty schema.
#[pyfunction]
#[pyo3(signature = (payload))]
pub fn schema_of_payload<'py>(py: Python<'py>, payload: Option<&[u8]>) -> PyResult<Option<Bound<'py, PyCapsule>>> {
    let schema = payload.map_or_else(|| Ok(Schema::empty()), unpack::schema_of);
    schema.ok().map(|schema| export_schema(py, &schema)).transpose()
}

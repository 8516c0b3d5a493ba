//! Decoders for the arguments `schema=` and `mode=`.

use arrow_schema::Schema;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::PySchema;

use crate::batch::export_schema;
use crate::error::PyResult;
use crate::python_call::begin_call;
use crate::registry::SchemaRegistry;
use columns::binary::BinarySchema;
use columns::decode::rules::{JsonRules, Leniency, TimeNumbers};
use columns::unpack::{self, Unpack};
use jetstream::receive::typed::Typed;
use registry::NativeSchema;

/// `jetarrow.jetstream.registry.RegisteredSchema`: a schema, and the registry of the ids in payloads.
#[derive(FromPyObject)]
struct Registered<'py> {
    schema: Bound<'py, PyAny>,
    native: PyRef<'py, SchemaRegistry>,
}

/// Returns the schema as it is without a registry: the JSON of an Avro schema, or a descriptor set and the name of a
/// message.
pub fn native_schema(schema: &Bound<'_, PyAny>) -> PyResult<NativeSchema> {
    Ok(match schema.extract::<(Vec<u8>, String)>() {
        Ok((set, message)) => NativeSchema::Protobuf(set, message),
        Err(_) => NativeSchema::Avro(schema.extract()?),
    })
}

/// Returns the schema of a binary format, as `native_schema` or with a registry.
pub fn binary_schema(schema: &Bound<'_, PyAny>) -> PyResult<BinarySchema> {
    let inner = schema.extract::<Registered<'_>>().map_or_else(|_| schema.clone(), |registered| registered.schema);
    let found = match native_schema(&inner)? {
        NativeSchema::Protobuf(set, message) => BinarySchema::protobuf(&set, &message),
        NativeSchema::Avro(json) => BinarySchema::avro(&json),
    };
    Ok(found.map_err(|reason| PyValueError::new_err(format!("schema: {reason}")))?)
}

/// Returns the decoder for `schema=` (any object with an Arrow schema, or as `binary_schema` takes it), `mode=` and
/// `flatten=`.
pub fn typed(
    input: &Schema,
    schema: &Bound<'_, PyAny>,
    binary: bool,
    mode: &str,
    rules: &Rules,
    flat: bool,
) -> PyResult<Typed> {
    if binary {
        let registry = schema.extract::<Registered<'_>>().ok().map(|registered| registered.native.inner.clone());
        return Ok(Typed::of_binary(input, &binary_schema(schema)?, registry, mode.parse()?, flat)?);
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
    let _call = begin_call(schema.py());
    Ok(schema.extract::<PySchema>().map_err(|err| {
        PyTypeError::new_err(format!("schema must be an Arrow schema or struct type of any library: {err}"))
    })?)
}

/// Returns the columns of a schema as `binary_schema` takes it, in a capsule.
#[pyfunction]
pub fn columns_of_schema<'py>(py: Python<'py>, schema: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyCapsule>> {
    let fields = binary_schema(schema)?.fields();
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

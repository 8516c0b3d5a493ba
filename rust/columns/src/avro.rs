//! Avro payloads: schemas, and data that are read into columns in one pass.
//!
//! A payload is one datum of a record, alone or in single-object encoding (C3 01 and the fingerprint of the schema). The
//! decoder is our own, because a malformed payload has to leave the columns as they were: arrow-avro reads a file, and a
//! datum that fails leaves its columns with different lengths.

pub(crate) mod arrow;
mod columns;
mod default;
mod fingerprint;
mod fits;
mod input;
mod plan;
mod read;
mod references;
mod schema;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;

use arrow_array::{Array, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Fields};

use crate::decode::column::{ColumnDecoder, Values};
use crate::decode::object::Members;
use crate::encode::{Encoded, encode_rows};
pub(crate) use fits::is_lossless;
use input::Input;
use plan::{Plan, plan};
pub use references::with_references;
pub use schema::AvroSchema;

/// The first bytes of single-object encoding.
const SINGLE_OBJECT: [u8; 2] = [0xc3, 0x01];

/// Reader of data of one writer's schema.
#[derive(Debug)]
pub struct AvroReader {
    plan: Plan,
    /// Marker and fingerprint of the writer's schema.
    header: [u8; 10],
}

/// Returns the columns that a schema has.
pub fn fields(schema: &AvroSchema) -> Result<Fields, String> {
    arrow::fields(schema)
}

impl AvroReader {
    /// Resolves the schema of the data to that of the columns.
    pub fn new(writer: &AvroSchema, reader: &AvroSchema) -> Result<AvroReader, String> {
        let mut header = [0; 10];
        header[..2].copy_from_slice(&SINGLE_OBJECT);
        header[2..].copy_from_slice(&fingerprint::fingerprint(writer).to_le_bytes());
        Ok(AvroReader { plan: plan(writer, reader, "")?, header })
    }

    /// Appends the row of a payload; the column and the reason if it is malformed.
    pub fn read(&self, payload: &[u8], row: &mut ColumnDecoder) -> Result<(), (String, String)> {
        let mut input = Input::new(payload.strip_prefix(&self.header).unwrap_or(payload));
        let mut done = read::read(&self.plan, row, &mut input);
        if done.is_ok() && !input.rest.is_empty() {
            let rest = input.rest.len();
            done = input.fail(format!("{rest} bytes follow the datum"));
        }
        done.map_err(|_| {
            let mut path = String::new();
            for step in input.trace.iter().rev() {
                if !path.is_empty() && step != "[]" {
                    path.push('.');
                }
                path.push_str(step);
            }
            (path, format!("not Avro of this schema: {}", input.reason))
        })
    }
}

/// Checks that tables of these columns can be data of the schema; the error names column and type.
pub fn check(columns: &Fields, schema: &AvroSchema) -> Result<(), String> {
    fits::check(columns, schema)
}

/// Encodes each row as a datum behind `frame`. The columns are those that `check` accepts.
pub fn encode(table: &StructArray, schema: &AvroSchema, frame: &[u8]) -> Result<Encoded, ArrowError> {
    let columns = write::columns(table, schema)?;
    encode_rows(table.len(), |row, out| {
        out.extend_from_slice(frame);
        write::record(&columns, row, out)
    })
}

/// Returns empty columns for the rows of a schema, as one struct.
pub fn rows(schema: &AvroSchema) -> Result<ColumnDecoder, String> {
    let fields = arrow::fields(schema)?;
    let schema::Kind::Record(inner) = &schema.kind else { return Err("not a record".into()) };
    let columns = fields.iter().zip(inner).map(|(field, inner)| columns::column(field, &inner.schema, field.name()));
    let members = Members::of(&fields, columns.collect::<Result<_, _>>()?, "")?;
    let field = Arc::new(Field::new("value", DataType::Struct(fields), true));
    Ok(ColumnDecoder::of(field, Values::Struct(members)))
}

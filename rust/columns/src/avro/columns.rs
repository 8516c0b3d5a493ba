//! Empty columns of a reader's schema.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::{DataType, FieldRef};

use super::arrow::without_null;
use super::schema::{AvroSchema, Kind, Logical};
use crate::decode::column::{Bytes, ColumnDecoder, Values};
use crate::decode::object::Members;
use crate::decode::rules::JsonRules;

/// Returns an empty column. `field` is that of the schema.
pub fn column(field: &FieldRef, schema: &AvroSchema, path: &str) -> Result<ColumnDecoder, String> {
    let (schema, _) = without_null(schema, path)?;
    let mismatch = || format!("column {path:?} is not of type {}", field.data_type());
    let values = match (&schema.kind, field.data_type()) {
        (Kind::Fixed(12), _) if schema.logical == Some(Logical::Duration) => Values::Spans(Vec::new()),
        (Kind::Enum(symbols, _), _) => {
            let symbols: ArrayRef = Arc::new(StringArray::from_iter_values(symbols));
            Values::Symbols(Vec::new(), symbols)
        }
        (Kind::Array(items), DataType::List(item)) => Values::List(vec![0], Box::new(column(item, items, path)?)),
        (Kind::Map(inner), DataType::Map(entries, _)) => {
            let DataType::Struct(pair) = entries.data_type() else { return Err(mismatch()) };
            Values::Map(vec![0], Bytes::new(), Box::new(column(&pair[1], inner, path)?))
        }
        (Kind::Record(inner), DataType::Struct(fields)) => {
            let columns = fields.iter().zip(inner).map(|(field, inner)| column(field, &inner.schema, field.name()));
            Values::Struct(Members::of(fields, columns.collect::<Result<_, _>>()?, path)?)
        }
        _ => return ColumnDecoder::new(field, &JsonRules::default(), path, 0),
    };
    Ok(ColumnDecoder::of(field.clone(), values))
}

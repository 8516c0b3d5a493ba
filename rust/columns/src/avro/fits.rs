//! The columns that can be data of a schema without a loss.

use arrow_schema::{DataType, Fields, TimeUnit};

use super::arrow::{data_type, without_null};
use super::default::datum;
use super::schema::{AvroSchema, Kind, RecordField};

/// Checks that a table has the fields of a record, and no others.
pub fn check(columns: &Fields, schema: &AvroSchema) -> Result<(), String> {
    let Kind::Record(fields) = &schema.kind else {
        return Err(format!("the Avro schema of a message must be a record, not {}", schema.title()));
    };
    super::arrow::fields(schema)?;
    record(columns, fields, "")
}

fn record(columns: &Fields, fields: &[RecordField], path: &str) -> Result<(), String> {
    let inner = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    if let Some(other) = columns.iter().find(|column| fields.iter().all(|field| field.name != *column.name())) {
        let path = inner(other.name());
        return Err(format!("column {path:?} is not in the Avro schema: leave it out with columns=, or add a field"));
    }
    for field in fields {
        let path = inner(&field.name);
        match columns.iter().find(|column| *column.name() == field.name) {
            Some(column) => column_fits(column.data_type(), &field.schema, &path)?,
            None => {
                let default = field.default.as_ref();
                let default = default
                    .ok_or_else(|| format!("the table has no column {path:?}, and the Avro schema no default"))?;
                datum(&field.schema, default, &mut Vec::new()).map_err(|why| format!("default of {path:?}: {why}"))?;
            }
        }
    }
    Ok(())
}

fn column_fits(found: &DataType, schema: &AvroSchema, path: &str) -> Result<(), String> {
    use DataType::*;
    let (schema, _) = without_null(schema, path)?;
    let wanted = data_type(schema, path)?;
    let found = if let Dictionary(_, value) = found { value } else { found };
    let fits = match (&schema.kind, found) {
        (Kind::Enum(..), _) => matches!(found, Utf8 | LargeUtf8 | Utf8View),
        (Kind::Array(items), List(item) | LargeList(item) | FixedSizeList(item, _)) => {
            return column_fits(item.data_type(), items, &format!("{path}[]"));
        }
        (Kind::Map(values), Map(entries, _)) => match entries.data_type() {
            Struct(pair) if matches!(pair[0].data_type(), Utf8 | LargeUtf8 | Utf8View) => {
                return column_fits(pair[1].data_type(), values, &format!("{path}.*"));
            }
            _ => false,
        },
        (Kind::Record(fields), Struct(columns)) => return record(columns, fields, path),
        _ => is_lossless(found, &wanted),
    };
    if fits { Ok(()) } else { Err(format!("column {path:?} is {found}, which an Avro {} cannot hold", schema.title())) }
}

/// Returns whether the values of a type have equal ones of another type.
pub fn is_lossless(found: &DataType, wanted: &DataType) -> bool {
    use DataType::*;
    match (found, wanted) {
        // A value beyond 32 bits is an error of its row.
        (Int8 | Int16 | Int64 | UInt8 | UInt16 | UInt32, Int32) => true,
        (Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32, Int64) => true,
        (Float16, Float32) | (Float16 | Float32, Float64) => true,
        (LargeUtf8 | Utf8View, Utf8) | (LargeBinary | BinaryView, Binary) => true,
        (Null, _) => true,
        (
            Decimal32(digits, scale) | Decimal64(digits, scale) | Decimal128(digits, scale),
            Decimal128(most, wanted) | Decimal256(most, wanted),
        )
        | (Decimal256(digits, scale), Decimal256(most, wanted)) => scale == wanted && digits <= most,
        (Time32(TimeUnit::Second), Time32(TimeUnit::Millisecond)) => true,
        (Timestamp(one, zone), Timestamp(other, wanted)) => one == other && zone.is_some() == wanted.is_some(),
        _ => found == wanted,
    }
}

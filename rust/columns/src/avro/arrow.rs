//! The Arrow types of Avro schemas.
//!
//! | Avro | Arrow |
//! |---|---|
//! | null, boolean, int, long, float, double | null, bool, int32, int64, float32, float64 |
//! | bytes, string, fixed | binary, string, binary of a fixed size |
//! | enum | dictionary of int32 and string |
//! | array, map, record | list, map, struct |
//! | union of null and a type | the type, nullable |
//! | decimal | decimal128, or decimal256 above 38 digits |
//! | date, time-millis, time-micros | date32, time32(ms), time64(us) |
//! | timestamp-millis, -micros, -nanos | timestamp of this unit in UTC; without a zone if it is local |
//! | duration | interval of months, days and nanoseconds |
//! | uuid | string, or binary(16) of a fixed |

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};

use super::schema::{AvroSchema, Kind, Logical};

/// Returns the columns of a record.
pub fn fields(schema: &AvroSchema) -> Result<Fields, String> {
    let Kind::Record(fields) = &schema.kind else {
        return Err(format!("the Avro schema of a message must be a record, not {}", schema.title()));
    };
    fields.iter().map(|field| column(&field.name, &field.schema, &field.name)).collect()
}

fn column(name: &str, schema: &AvroSchema, path: &str) -> Result<FieldRef, String> {
    let (inner, nullable) = without_null(schema, path)?;
    Ok(Arc::new(Field::new(name, data_type(inner, path)?, nullable)))
}

/// Returns the type beside null in a union, and whether null is in it.
pub fn without_null<'a>(schema: &'a AvroSchema, path: &str) -> Result<(&'a AvroSchema, bool), String> {
    let Kind::Union(branches) = &schema.kind else { return Ok((schema, matches!(schema.kind, Kind::Null))) };
    let mut others = branches.iter().filter(|branch| !matches!(branch.kind, Kind::Null));
    match (others.next(), others.next(), branches.first()) {
        (Some(one), None, _) => Ok((one, branches.len() > 1)),
        (None, _, Some(null)) => Ok((null, true)),
        _ => Err(format!(
            "column {path:?} is a union of several types, which are not supported; only null and one type are"
        )),
    }
}

pub fn data_type(schema: &AvroSchema, path: &str) -> Result<DataType, String> {
    if let Some(logical) = schema.logical
        && let Some(found) = logical_type(logical, &schema.kind)
    {
        return Ok(found);
    }
    Ok(match &schema.kind {
        Kind::Null => DataType::Null,
        Kind::Boolean => DataType::Boolean,
        Kind::Int => DataType::Int32,
        Kind::Long => DataType::Int64,
        Kind::Float => DataType::Float32,
        Kind::Double => DataType::Float64,
        Kind::Bytes => DataType::Binary,
        Kind::String => DataType::Utf8,
        Kind::Fixed(0) => return Err(format!("column {path:?} is a fixed of size 0")),
        Kind::Fixed(size) => DataType::FixedSizeBinary(*size as i32),
        Kind::Enum(..) => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        Kind::Array(items) => DataType::List(column("item", items, &format!("{path}[]"))?),
        Kind::Map(values) => {
            let pair = vec![
                Arc::new(Field::new("key", DataType::Utf8, false)),
                column("value", values, &format!("{path}.*"))?,
            ];
            DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair.into()), false)), false)
        }
        Kind::Record(fields) => {
            let columns =
                fields.iter().map(|field| column(&field.name, &field.schema, &format!("{path}.{}", field.name)));
            DataType::Struct(columns.collect::<Result<_, _>>()?)
        }
        Kind::Union(_) => return Err(format!("column {path:?} is a union in a union")),
    })
}

fn logical_type(logical: Logical, kind: &Kind) -> Option<DataType> {
    Some(match logical {
        Logical::Decimal(precision @ ..=38, scale) => DataType::Decimal128(precision, scale),
        Logical::Decimal(precision, scale) => DataType::Decimal256(precision, scale),
        Logical::Date => DataType::Date32,
        Logical::TimeMillis => DataType::Time32(TimeUnit::Millisecond),
        Logical::TimeMicros => DataType::Time64(TimeUnit::Microsecond),
        Logical::Timestamp(second, zoned) => {
            let unit = match second {
                1_000 => TimeUnit::Millisecond,
                1_000_000 => TimeUnit::Microsecond,
                _ => TimeUnit::Nanosecond,
            };
            DataType::Timestamp(unit, zoned.then(|| "UTC".into()))
        }
        Logical::Duration => DataType::Interval(IntervalUnit::MonthDayNano),
        Logical::Uuid if matches!(kind, Kind::String) => DataType::Utf8,
        Logical::Uuid => return None,
    })
}

//! The Arrow types of messages, and empty columns of them.
//!
//! | Protobuf | Arrow |
//! |---|---|
//! | double, float, bool | float64, float32, bool |
//! | int32, sint32, sfixed32; int64, sint64, sfixed64 | int32; int64 |
//! | uint32, fixed32; uint64, fixed64 | uint32; uint64 |
//! | string, bytes | string, binary |
//! | enum | dictionary of int32 and string |
//! | message, repeated, map | struct, list, map |
//! | Timestamp, Duration | timestamp(ns, UTC), duration(ns) |
//! | wrappers | their type, nullable |

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::{DataType, Field as Column, FieldRef, Fields, TimeUnit};

use super::descriptor::{Field, Kind, Message, Presence, Scalar};
use crate::decode::column::{ColumnDecoder, Values};
use crate::decode::object::Members;
use crate::decode::rules::JsonRules;

pub fn fields(message: &Message) -> Fields {
    message.fields.iter().map(|field| Arc::new(column(field))).collect()
}

fn column(field: &Field) -> Column {
    match (&field.kind, field.presence) {
        (Kind::Map(..), _) => Column::new(&field.name, data_type(&field.kind), false),
        (kind, Presence::Repeated) => {
            Column::new(&field.name, DataType::List(Arc::new(Column::new("item", data_type(kind), false))), false)
        }
        (kind, presence) => Column::new(&field.name, data_type(kind), presence == Presence::Optional),
    }
}

fn data_type(kind: &Kind) -> DataType {
    match kind {
        Kind::Scalar(scalar) | Kind::Wrapper(scalar) => scalar_type(*scalar),
        Kind::Enum(_) => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        Kind::Message(message) => DataType::Struct(fields(message)),
        Kind::Map(key, entry) => {
            let pair = vec![Column::new("key", scalar_type(*key), false), value_column(entry)];
            DataType::Map(Arc::new(Column::new("entries", DataType::Struct(pair.into()), false)), false)
        }
        Kind::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        Kind::Duration => DataType::Duration(TimeUnit::Nanosecond),
    }
}

/// Returns the column of a map's values, which are never absent.
fn value_column(entry: &Message) -> Column {
    let kind = entry.fields.get(1).map_or(DataType::Null, |value| data_type(&value.kind));
    Column::new("value", kind, false)
}

pub fn scalar_type(scalar: Scalar) -> DataType {
    match scalar {
        Scalar::Double => DataType::Float64,
        Scalar::Float => DataType::Float32,
        Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => DataType::Int32,
        Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => DataType::Int64,
        Scalar::Uint32 | Scalar::Fixed32 => DataType::UInt32,
        Scalar::Uint64 | Scalar::Fixed64 => DataType::UInt64,
        Scalar::Bool => DataType::Boolean,
        Scalar::String => DataType::Utf8,
        Scalar::Bytes => DataType::Binary,
    }
}

/// Returns empty columns of a message, as a struct.
pub fn rows(name: &str, message: &Message, nullable: bool) -> Result<ColumnDecoder, String> {
    let fields = fields(message);
    let columns =
        fields.iter().zip(&message.fields).map(|(column, field)| match (column.data_type(), field.presence) {
            (DataType::List(item), Presence::Repeated) => {
                let items = decoder(item, &field.kind)?;
                Ok(ColumnDecoder::of(column.clone(), Values::List(vec![0], Box::new(items))))
            }
            _ => decoder(column, &field.kind),
        });
    let members = Members::of(&fields, columns.collect::<Result<_, String>>()?, name)?;
    let field = Arc::new(Column::new(name, DataType::Struct(fields), nullable));
    Ok(ColumnDecoder::of(field, Values::Struct(members)))
}

fn decoder(field: &FieldRef, kind: &Kind) -> Result<ColumnDecoder, String> {
    let values = match (kind, field.data_type()) {
        (Kind::Enum(values), _) => {
            let names: ArrayRef = Arc::new(StringArray::from_iter_values(values.iter().map(|(name, _)| name)));
            Values::Symbols(Vec::new(), names)
        }
        (Kind::Message(message), _) => rows(field.name(), message, field.is_nullable())?.values,
        (Kind::Map(_, entry), DataType::Map(entries, _)) => {
            let (DataType::Struct(pair), Some(value)) = (entries.data_type(), entry.fields.get(1)) else {
                return Err("a map without entries".into());
            };
            let keys = ColumnDecoder::new(&pair[0], &JsonRules::default(), "key", 0)?;
            Values::Entries(vec![0], Box::new(keys), Box::new(decoder(&pair[1], &value.kind)?))
        }
        _ => return ColumnDecoder::new(field, &JsonRules::default(), field.name(), 0),
    };
    Ok(ColumnDecoder::of(field.clone(), values))
}

//! Columns into data.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Decimal256Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, MapArray, StringArray, StructArray,
};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};

use super::arrow::without_null;
use super::default::{bytes, datum, varint};
use super::schema::{AvroSchema, Kind};
use crate::encode::EncodeFault;

type Written = Result<(), EncodeFault>;

/// A column, with the branches of its union.
pub struct Column {
    nulls: Option<NullBuffer>,
    /// Branches of null and of the value, if the schema is a union.
    branches: Option<(i64, i64)>,
    cells: Cells,
}

#[allow(clippy::large_enum_variant)] // there is one for each column
enum Cells {
    Null,
    Boolean(BooleanArray),
    Int(Int32Array),
    /// An int from a wider column.
    Narrow(Int64Array),
    Long(Int64Array),
    Float(Float32Array),
    Double(Float64Array),
    Bytes(BinaryArray),
    Text(StringArray),
    Fixed(FixedSizeBinaryArray),
    /// With the size of a fixed.
    Decimal(Decimal128Array, Option<usize>),
    Wide(Decimal256Array, Option<usize>),
    Duration(IntervalMonthDayNanoArray),
    /// The symbols' places, by the codes of the column.
    Enum(Vec<Result<i64, String>>, Int32Array),
    List(ListArray, Box<Column>),
    Map(MapArray, StringArray, Box<Column>),
    Record(Vec<(String, Column)>),
    /// The datum of a default.
    Default(Vec<u8>),
}

/// Returns the columns of a record's fields; the table has them all, or they have a default.
pub fn columns(table: &StructArray, schema: &AvroSchema) -> Result<Vec<(String, Column)>, ArrowError> {
    let Kind::Record(fields) = &schema.kind else { return Err(ArrowError::SchemaError("not a record".into())) };
    let columns = fields.iter().map(|field| {
        let found = match table.column_by_name(&field.name) {
            Some(array) => column(array, &field.schema)?,
            None => {
                let mut bytes = Vec::new();
                let default = field.default.clone().unwrap_or_default();
                datum(&field.schema, &default, &mut bytes).map_err(ArrowError::SchemaError)?;
                Column { nulls: None, branches: None, cells: Cells::Default(bytes) }
            }
        };
        Ok((field.name.clone(), found))
    });
    columns.collect()
}

fn column(array: &ArrayRef, schema: &AvroSchema) -> Result<Column, ArrowError> {
    let (inner, _) = without_null(schema, "").map_err(ArrowError::SchemaError)?;
    let branches = match &schema.kind {
        Kind::Union(all) => {
            let place = |null: bool| all.iter().position(|branch| matches!(branch.kind, Kind::Null) == null);
            Some((place(true).map_or(-1, |place| place as i64), place(false).map_or(-1, |place| place as i64)))
        }
        _ => None,
    };
    let target = super::arrow::data_type(inner, "").map_err(ArrowError::SchemaError)?;
    // Nulls inside a dictionary are nulls of the column.
    let array = match (array.data_type(), &target) {
        (DataType::Dictionary(_, value), DataType::Dictionary(..)) => cast(&cast(array, value)?, &target)?,
        (DataType::Int64 | DataType::UInt32, DataType::Int32) => cast(array, &DataType::Int64)?,
        _ => shallow(array, &target)?,
    };
    let size = if let Kind::Fixed(size) = inner.kind { Some(size) } else { None };
    let cells = match (&inner.kind, array.data_type()) {
        (Kind::Null, _) => Cells::Null,
        (Kind::Boolean, _) => Cells::Boolean(array.as_boolean().clone()),
        (Kind::Int, DataType::Int64) => Cells::Narrow(array.as_primitive::<Int64Type>().clone()),
        (Kind::Int, _) => Cells::Int(cast(&array, &DataType::Int32)?.as_primitive::<Int32Type>().clone()),
        (Kind::Long, _) => Cells::Long(cast(&array, &DataType::Int64)?.as_primitive::<Int64Type>().clone()),
        (Kind::Float, _) => Cells::Float(array.as_primitive::<Float32Type>().clone()),
        (Kind::Double, _) => Cells::Double(array.as_primitive::<Float64Type>().clone()),
        (_, DataType::Decimal128(..)) => Cells::Decimal(array.as_primitive::<Decimal128Type>().clone(), size),
        (_, DataType::Decimal256(..)) => Cells::Wide(array.as_primitive::<Decimal256Type>().clone(), size),
        (_, DataType::Interval(_)) => Cells::Duration(array.as_primitive::<IntervalMonthDayNanoType>().clone()),
        (Kind::Bytes, _) => Cells::Bytes(array.as_binary::<i32>().clone()),
        (Kind::String, _) => Cells::Text(array.as_string::<i32>().clone()),
        (Kind::Fixed(_), _) => Cells::Fixed(array.as_fixed_size_binary().clone()),
        (Kind::Enum(symbols, _), _) => {
            let dictionary = array.as_dictionary::<Int32Type>();
            let place = |text: Option<&str>| {
                let text = text.unwrap_or_default();
                symbols
                    .iter()
                    .position(|symbol| symbol == text)
                    .map(|place| place as i64)
                    .ok_or_else(|| text.to_owned())
            };
            let places = dictionary.values().as_string::<i32>().iter().map(place).collect();
            Cells::Enum(places, dictionary.keys().clone())
        }
        (Kind::Array(items), _) => {
            let list = array.as_list::<i32>().clone();
            let items = column(list.values(), items)?;
            Cells::List(list, Box::new(items))
        }
        (Kind::Map(values), _) => {
            let map = array.as_map().clone();
            let keys = cast(map.keys(), &DataType::Utf8)?.as_string::<i32>().clone();
            let values = column(map.values(), values)?;
            Cells::Map(map, keys, Box::new(values))
        }
        (Kind::Record(_), _) => Cells::Record(columns(array.as_struct(), inner)?),
        (Kind::Union(_), _) => return Err(ArrowError::SchemaError("a union in a union".into())),
    };
    Ok(Column { nulls: array.logical_nulls(), branches, cells })
}

/// Converts the values, but not those of a nested type, whose columns are converted one by one.
fn shallow(array: &ArrayRef, target: &DataType) -> Result<ArrayRef, ArrowError> {
    match (array.data_type(), target) {
        (DataType::List(_), DataType::List(_)) | (DataType::Map(..), _) | (DataType::Struct(_), _) => Ok(array.clone()),
        (DataType::LargeList(item) | DataType::FixedSizeList(item, _), DataType::List(_)) => {
            cast(array, &DataType::List(item.clone()))
        }
        _ => cast(array, target),
    }
}

impl Column {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        let null = matches!(self.cells, Cells::Null) || self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        match self.branches {
            Some((branch @ 0.., _)) if null => {
                varint(branch, out);
                return Ok(());
            }
            Some((_, branch)) if !null => varint(branch, out),
            _ if null && matches!(self.cells, Cells::Null) => return Ok(()),
            _ if null => return Err(EncodeFault::new("null, and the Avro schema has no null here")),
            _ => {}
        }
        self.cells.write(row, out)
    }
}

impl Cells {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        match self {
            Cells::Null => {}
            Cells::Boolean(values) => out.push(u8::from(values.value(row))),
            Cells::Int(values) => varint(values.value(row).into(), out),
            Cells::Narrow(values) => match i32::try_from(values.value(row)) {
                Ok(value) => varint(value.into(), out),
                Err(_) => return Err(EncodeFault::new(format!("{} is beyond an Avro int", values.value(row)))),
            },
            Cells::Long(values) => varint(values.value(row), out),
            Cells::Float(values) => out.extend(values.value(row).to_le_bytes()),
            Cells::Double(values) => out.extend(values.value(row).to_le_bytes()),
            Cells::Bytes(values) => bytes(values.value(row), out),
            Cells::Text(values) => bytes(values.value(row).as_bytes(), out),
            Cells::Fixed(values) => out.extend_from_slice(values.value(row)),
            Cells::Decimal(values, size) => decimal(&values.value(row).to_be_bytes(), *size, out)?,
            Cells::Wide(values, size) => decimal(&values.value(row).to_be_bytes(), *size, out)?,
            Cells::Duration(values) => duration(values.value(row), out)?,
            Cells::Enum(places, codes) => match places.get(codes.value(row) as usize) {
                Some(Ok(place)) => varint(*place, out),
                Some(Err(text)) => return Err(EncodeFault::new(format!("{text:?} is no symbol of the Avro enum"))),
                None => return Err(EncodeFault::new("a code without a value")),
            },
            Cells::List(list, items) => {
                let (start, end) = (list.value_offsets()[row] as usize, list.value_offsets()[row + 1] as usize);
                block(start..end, out, |item, out| items.write(item, out).map_err(|fault| fault.within("[]")))?;
            }
            Cells::Map(map, keys, values) => {
                let (start, end) = (map.value_offsets()[row] as usize, map.value_offsets()[row + 1] as usize);
                block(start..end, out, |entry, out| {
                    bytes(keys.value(entry).as_bytes(), out);
                    values.write(entry, out).map_err(|fault| fault.within("value"))
                })?;
            }
            Cells::Record(columns) => record(columns, row, out)?,
            Cells::Default(datum) => out.extend_from_slice(datum),
        }
        Ok(())
    }
}

/// Appends the datum of a row.
pub fn record(columns: &[(String, Column)], row: usize, out: &mut Vec<u8>) -> Written {
    columns.iter().try_for_each(|(name, column)| column.write(row, out).map_err(|fault| fault.within(name)))
}

fn block(
    items: std::ops::Range<usize>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(usize, &mut Vec<u8>) -> Written,
) -> Written {
    if !items.is_empty() {
        varint(items.len() as i64, out);
        for item in items {
            write(item, out)?;
        }
    }
    out.push(0);
    Ok(())
}

/// Appends an unscaled value: as few bytes as it needs, or as many as a fixed has.
fn decimal(value: &[u8], size: Option<usize>, out: &mut Vec<u8>) -> Written {
    let sign = if value[0] >= 0x80 { 0xff } else { 0 };
    let extra = value.windows(2).take_while(|pair| pair[0] == sign && (pair[1] ^ sign) < 0x80).count();
    let least = &value[extra..];
    match size {
        None => bytes(least, out),
        Some(size) if least.len() <= size => {
            out.resize(out.len() + size - least.len(), sign);
            out.extend_from_slice(least);
        }
        Some(size) => return Err(EncodeFault::new(format!("a decimal does not fit into {size} bytes"))),
    }
    Ok(())
}

fn duration(value: IntervalMonthDayNano, out: &mut Vec<u8>) -> Written {
    let millis = value.nanoseconds / 1_000_000;
    let parts = (u32::try_from(value.months), u32::try_from(value.days), u32::try_from(millis));
    match parts {
        (Ok(months), Ok(days), Ok(millis)) if value.nanoseconds % 1_000_000 == 0 => {
            out.extend([months, days, millis].into_iter().flat_map(u32::to_le_bytes));
            Ok(())
        }
        _ => Err(EncodeFault::new("an Avro duration has no negative part and no fraction of a millisecond")),
    }
}

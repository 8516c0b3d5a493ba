//! Columns into messages.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, ListArray,
    MapArray, StringArray, StructArray, UInt64Array,
};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Fields, TimeUnit};

use super::descriptor::{Field, Kind, Message, Presence, Scalar};
use super::wire::WireType;
use crate::avro::is_lossless;
use crate::decode::rules::per_second;
use crate::encode::EncodeFault;
use crate::varint::{write as varint, zigzag};

type Written = Result<(), EncodeFault>;

/// The columns of a message's fields.
pub struct Columns(Vec<Column>);

struct Column {
    name: String,
    number: u32,
    presence: Presence,
    packed: bool,
    nulls: Option<NullBuffer>,
    cells: Cells,
}

#[allow(clippy::large_enum_variant)] // there is one for each column
enum Cells {
    Double(Float64Array),
    Float(Float32Array),
    Bool(BooleanArray),
    Text(StringArray),
    Bytes(BinaryArray),
    /// Integers of up to 64 bits with a sign, and their encoding.
    Signed(Int64Array, Scalar),
    Unsigned(UInt64Array, Scalar),
    /// The numbers of the values, by the codes of the column.
    Enum(Vec<Result<i32, String>>, Int32Array),
    Message(Columns),
    /// Units per second, and whether it is a duration, whose parts have the same sign.
    Moment(Int64Array, i64, bool),
    Wrapper(Box<Cells>),
    List(ListArray, Option<NullBuffer>, Box<Cells>),
    Map(MapArray, Box<Cells>, Option<NullBuffer>, Box<Cells>),
}

/// Checks that tables of these columns can be messages; the error names column and type.
pub fn check(columns: &Fields, message: &Message, path: &str) -> Result<(), String> {
    let inner = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    if let Some(other) = columns.iter().find(|column| message.fields.iter().all(|field| field.name != *column.name())) {
        let (path, name) = (inner(other.name()), &message.name);
        return Err(format!("column {path:?} is no field of {name}: leave it out with columns=, or add a field"));
    }
    for column in columns {
        let Some(field) = message.fields.iter().find(|field| field.name == *column.name()) else { continue };
        let path = inner(column.name());
        match (&field.kind, field.presence, column.data_type()) {
            (Kind::Map(key, entry), _, DataType::Map(entries, _)) => {
                let (DataType::Struct(pair), Some(value)) = (entries.data_type(), entry.fields.get(1)) else {
                    return Err(format!("column {path:?} is not a map"));
                };
                fits(pair[0].data_type(), &Kind::Scalar(*key), &format!("{path}.key"))?;
                fits(pair[1].data_type(), &value.kind, &format!("{path}.*"))?;
            }
            (kind, Presence::Repeated, found) => match found {
                DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
                    if !matches!(kind, Kind::Map(..)) =>
                {
                    fits(item.data_type(), kind, &format!("{path}[]"))?;
                }
                _ => return Err(format!("column {path:?} is {found}, and the field is repeated")),
            },
            (kind, _, found) => fits(found, kind, &path)?,
        }
    }
    let missing = |field: &&Field| {
        field.presence == Presence::Required && columns.iter().all(|column| *column.name() != field.name)
    };
    match message.fields.iter().find(missing) {
        Some(field) => Err(format!("the table has no column {:?}, which is required", inner(&field.name))),
        None => Ok(()),
    }
}

fn fits(found: &DataType, kind: &Kind, path: &str) -> Result<(), String> {
    use DataType::*;
    let found = if let Dictionary(_, value) = found { value } else { found };
    let fits = match (kind, found) {
        (Kind::Message(message), Struct(columns)) => return check(columns, message, path),
        (Kind::Message(_) | Kind::Map(..), _) => false,
        (Kind::Enum(_), _) => matches!(found, Utf8 | LargeUtf8 | Utf8View),
        (Kind::Timestamp, Timestamp(_, zone)) => zone.is_some(),
        (Kind::Duration, Duration(_)) => true,
        (Kind::Timestamp | Kind::Duration, _) => false,
        // A number beyond the field's range is an error of its row.
        (Kind::Scalar(scalar) | Kind::Wrapper(scalar), _) => match super::arrow::scalar_type(*scalar) {
            Int32 | Int64 | UInt32 | UInt64 => found.is_integer(),
            wanted => is_lossless(found, &wanted),
        },
    };
    if fits { Ok(()) } else { Err(format!("column {path:?} is {found}, which its field cannot hold")) }
}

impl Columns {
    /// Returns the columns of a table that passed `check`. Fields without a column are absent.
    pub fn new(table: &StructArray, message: &Message) -> Result<Columns, ArrowError> {
        let columns = message.fields.iter().filter_map(|field| {
            let array = table.column_by_name(&field.name)?;
            Some(column(array, field))
        });
        Ok(Columns(columns.collect::<Result<_, _>>()?))
    }

    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        self.0.iter().try_for_each(|column| column.write(row, out).map_err(|fault| fault.within(&column.name)))
    }
}

fn column(array: &ArrayRef, field: &Field) -> Result<Column, ArrowError> {
    let cells = match (&field.kind, field.presence) {
        (Kind::Map(key, entry), _) => {
            let map = array.as_map().clone();
            let keys = cells(map.keys(), &Kind::Scalar(*key))?;
            let kind = entry.fields.get(1).map(|value| &value.kind);
            let kind = kind.ok_or_else(|| ArrowError::SchemaError("a map without values".into()))?;
            let (nulls, values) = (map.values().logical_nulls(), cells(map.values(), kind)?);
            Cells::Map(map, Box::new(keys), nulls, Box::new(values))
        }
        (kind, Presence::Repeated) => {
            let list = match array.data_type() {
                DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                    cast(array, &DataType::List(item.clone()))?
                }
                _ => array.clone(),
            };
            let list = list.as_list::<i32>().clone();
            let (nulls, items) = (list.values().logical_nulls(), cells(list.values(), kind)?);
            Cells::List(list, nulls, Box::new(items))
        }
        (kind, _) => cells(array, kind)?,
    };
    let (name, nulls) = (field.name.clone(), array.logical_nulls());
    Ok(Column { name, number: field.number, presence: field.presence, packed: field.packed, nulls, cells })
}

fn cells(array: &ArrayRef, kind: &Kind) -> Result<Cells, ArrowError> {
    // Nulls inside a dictionary are nulls of the column.
    let array = match array.data_type() {
        DataType::Dictionary(_, value) => cast(array, value)?,
        _ => array.clone(),
    };
    Ok(match kind {
        Kind::Message(message) => Cells::Message(Columns::new(array.as_struct(), message)?),
        Kind::Map(..) => return Err(ArrowError::SchemaError("a map in a list".into())),
        Kind::Wrapper(scalar) => Cells::Wrapper(Box::new(cells(&array, &Kind::Scalar(*scalar))?)),
        Kind::Timestamp | Kind::Duration => {
            let unit = match array.data_type() {
                DataType::Timestamp(unit, _) | DataType::Duration(unit) => *unit,
                _ => TimeUnit::Nanosecond,
            };
            let values = cast(&array, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
            Cells::Moment(values, per_second(unit), matches!(kind, Kind::Duration))
        }
        Kind::Enum(known) => {
            let target = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            let array = cast(&array, &target)?;
            let dictionary = array.as_dictionary::<Int32Type>();
            let number = |text: Option<&str>| {
                let text = text.unwrap_or_default();
                known.iter().find(|(name, _)| name == text).map(|(_, number)| *number).ok_or_else(|| text.to_owned())
            };
            let numbers = dictionary.values().as_string::<i32>().iter().map(number).collect();
            Cells::Enum(numbers, dictionary.keys().clone())
        }
        Kind::Scalar(scalar) => match super::arrow::scalar_type(*scalar) {
            DataType::Float64 => Cells::Double(cast(&array, &DataType::Float64)?.as_primitive::<Float64Type>().clone()),
            DataType::Float32 => Cells::Float(cast(&array, &DataType::Float32)?.as_primitive::<Float32Type>().clone()),
            DataType::Boolean => Cells::Bool(cast(&array, &DataType::Boolean)?.as_boolean().clone()),
            DataType::Utf8 => Cells::Text(cast(&array, &DataType::Utf8)?.as_string::<i32>().clone()),
            DataType::Binary => Cells::Bytes(cast(&array, &DataType::Binary)?.as_binary::<i32>().clone()),
            _ if *array.data_type() == DataType::UInt64 => {
                Cells::Unsigned(array.as_primitive::<UInt64Type>().clone(), *scalar)
            }
            _ => Cells::Signed(cast(&array, &DataType::Int64)?.as_primitive::<Int64Type>().clone(), *scalar),
        },
    })
}

impl Column {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return match self.presence {
                Presence::Optional => Ok(()),
                // An absent list is an empty one, and an absent number is 0: neither is null.
                _ => Err(EncodeFault::new("null, and the field has no presence")),
            };
        }
        match &self.cells {
            Cells::List(list, nulls, items) => self.write_list(list, nulls.as_ref(), items, row, out),
            Cells::Map(map, keys, nulls, values) => {
                let (start, end) = (map.value_offsets()[row] as usize, map.value_offsets()[row + 1] as usize);
                for entry in start..end {
                    if nulls.as_ref().is_some_and(|nulls| nulls.is_null(entry)) {
                        return Err(EncodeFault::new("null, and a map has no null").within("value"));
                    }
                    let mut inner = Vec::new();
                    tagged(1, keys, entry, &mut inner).map_err(|fault| fault.within("key"))?;
                    tagged(2, values, entry, &mut inner).map_err(|fault| fault.within("value"))?;
                    tag(self.number, WireType::Bytes, out);
                    bytes(&inner, out);
                }
                Ok(())
            }
            cells if self.presence == Presence::Implicit && cells.is_default(row) => Ok(()),
            cells => tagged(self.number, cells, row, out),
        }
    }

    fn write_list(
        &self,
        list: &ListArray,
        nulls: Option<&NullBuffer>,
        items: &Cells,
        row: usize,
        out: &mut Vec<u8>,
    ) -> Written {
        let (start, end) = (list.value_offsets()[row] as usize, list.value_offsets()[row + 1] as usize);
        if nulls.is_some_and(|nulls| (start..end).any(|item| nulls.is_null(item))) {
            return Err(EncodeFault::new("null, and a repeated field has no null").within("[]"));
        }
        if !self.packed || items.wire() == WireType::Bytes {
            return (start..end)
                .try_for_each(|item| tagged(self.number, items, item, out).map_err(|fault| fault.within("[]")));
        }
        if start < end {
            let mut inner = Vec::new();
            for item in start..end {
                items.write(item, &mut inner).map_err(|fault| fault.within("[]"))?;
            }
            tag(self.number, WireType::Bytes, out);
            bytes(&inner, out);
        }
        Ok(())
    }
}

fn tagged(number: u32, cells: &Cells, row: usize, out: &mut Vec<u8>) -> Written {
    tag(number, cells.wire(), out);
    cells.write(row, out)
}

impl Cells {
    fn wire(&self) -> WireType {
        match self {
            Cells::Double(_) => WireType::Fixed64,
            Cells::Float(_) => WireType::Fixed32,
            Cells::Bool(_) | Cells::Enum(..) => WireType::Varint,
            Cells::Signed(_, scalar) | Cells::Unsigned(_, scalar) => scalar.wire(),
            _ => WireType::Bytes,
        }
    }

    fn is_default(&self, row: usize) -> bool {
        match self {
            // A negative zero is not the default.
            Cells::Double(values) => values.value(row).to_bits() == 0,
            Cells::Float(values) => values.value(row).to_bits() == 0,
            Cells::Bool(values) => !values.value(row),
            Cells::Text(values) => values.value(row).is_empty(),
            Cells::Bytes(values) => values.value(row).is_empty(),
            Cells::Signed(values, _) => values.value(row) == 0,
            Cells::Unsigned(values, _) => values.value(row) == 0,
            Cells::Enum(numbers, codes) => matches!(numbers.get(codes.value(row) as usize), Some(Ok(0))),
            _ => false,
        }
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        match self {
            Cells::Double(values) => out.extend(values.value(row).to_le_bytes()),
            Cells::Float(values) => out.extend(values.value(row).to_le_bytes()),
            Cells::Bool(values) => out.push(u8::from(values.value(row))),
            Cells::Text(values) => bytes(values.value(row).as_bytes(), out),
            Cells::Bytes(values) => bytes(values.value(row), out),
            Cells::Signed(values, scalar) => integer(values.value(row).into(), *scalar, out)?,
            Cells::Unsigned(values, scalar) => integer(values.value(row).into(), *scalar, out)?,
            Cells::Enum(numbers, codes) => match numbers.get(codes.value(row) as usize) {
                Some(Ok(number)) => varint(i64::from(*number).cast_unsigned(), out),
                Some(Err(text)) => return Err(EncodeFault::new(format!("{text:?} is no value of the enum"))),
                None => return Err(EncodeFault::new("a code without a value")),
            },
            Cells::Message(columns) => {
                let mut inner = Vec::new();
                columns.write(row, &mut inner)?;
                bytes(&inner, out);
            }
            Cells::Wrapper(cells) => {
                let mut inner = Vec::new();
                if !cells.is_default(row) {
                    tagged(1, cells, row, &mut inner)?;
                }
                bytes(&inner, out);
            }
            Cells::Moment(values, second, is_span) => {
                let value = values.value(row);
                let (mut seconds, mut rest) = (value.div_euclid(*second), value.rem_euclid(*second));
                if *is_span && seconds < 0 && rest > 0 {
                    (seconds, rest) = (seconds + 1, rest - second);
                }
                let mut inner = Vec::new();
                for (number, part) in [(1, seconds), (2, rest * (1_000_000_000 / second))] {
                    if part != 0 {
                        tag(number, WireType::Varint, &mut inner);
                        varint(part.cast_unsigned(), &mut inner);
                    }
                }
                bytes(&inner, out);
            }
            Cells::List(..) | Cells::Map(..) => return Err(EncodeFault::new("a list in a list")),
        }
        Ok(())
    }
}

fn tag(number: u32, wire: WireType, out: &mut Vec<u8>) {
    let wire = match wire {
        WireType::Varint => 0,
        WireType::Fixed64 => 1,
        WireType::Bytes => 2,
        WireType::Group => 3,
        WireType::Fixed32 => 5,
    };
    varint(u64::from(number) << 3 | wire, out);
}

fn bytes(value: &[u8], out: &mut Vec<u8>) {
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Appends an integer in its encoding.
fn integer(value: i128, scalar: Scalar, out: &mut Vec<u8>) -> Written {
    let (least, most) = match scalar {
        Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
        Scalar::Uint32 | Scalar::Fixed32 => (0, i128::from(u32::MAX)),
        Scalar::Uint64 | Scalar::Fixed64 => (0, i128::from(u64::MAX)),
        _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
    };
    if !(least..=most).contains(&value) {
        return Err(EncodeFault::new(format!("{value} is beyond the field's {scalar:?}")));
    }
    // The low bits, with the sign extended.
    let bits = value as u64;
    match scalar {
        Scalar::Sint32 | Scalar::Sint64 => varint(zigzag(bits.cast_signed()), out),
        Scalar::Fixed32 | Scalar::Sfixed32 => out.extend((bits as u32).to_le_bytes()),
        Scalar::Fixed64 | Scalar::Sfixed64 => out.extend(bits.to_le_bytes()),
        _ => varint(bits, out),
    }
    Ok(())
}

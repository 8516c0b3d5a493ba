//! Typed columns that a JSON reader writes into; a row that turns out malformed is cut off again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::*;
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray, GenericListArray, LargeBinaryArray,
    LargeStringArray, MapArray, NullArray, OffsetSizeTrait, PrimitiveArray, StringArray, StringViewArray, StructArray,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields, TimeUnit};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::json::{self, Json, Parsed, Reason, Step};
use super::number;

const SUPPORTED: &str = "null, bool, int8 to int64, uint8 to uint64, float16 to float64, decimal32 to decimal256, string, \
     binary (base64), date32, timestamp, list, struct and map with string keys (large and view types of string and binary, \
     large list as well)";
/// Padding may be left out, as many writers do.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// A schema nested deeper than a document may be can hold nothing.
const MAX_DEPTH: usize = 64;
/// Up to here comparing one by one beats hashing.
const FEW: usize = 12;

/// One column of any supported type.
#[derive(Debug)]
pub struct Column {
    pub field: FieldRef,
    nulls: NullBufferBuilder,
    values: Values,
}

/// Numbers are kept in the widest type of their kind and narrowed when finished.
#[derive(Debug)]
enum Values {
    Null,
    Bool(BooleanBufferBuilder),
    /// min, max; u64 as its bits.
    Int(Vec<i64>, i128, i128),
    Single(Vec<f32>),
    Double(Vec<f64>),
    /// precision, scale
    Decimal(Vec<i128>, u8, i8),
    Wide(Vec<i256>, u8, i8),
    Text(Bytes),
    Binary(Bytes),
    Date(Vec<i64>),
    /// units in a second, has a zone
    Time(Vec<i64>, i64, bool),
    List(Vec<i32>, Box<Column>),
    Struct(Members),
    Map(Vec<i32>, Bytes, Box<Column>),
}

/// Strings end to end; `ends` starts with a zero.
#[derive(Debug)]
struct Bytes {
    ends: Vec<i32>,
    data: Vec<u8>,
}

impl Bytes {
    fn new() -> Self {
        Bytes { ends: vec![0], data: Vec::new() }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.end();
    }

    /// What was decoded is never longer than the text, whose own offsets are i32.
    fn end(&mut self) {
        self.ends.push(self.data.len() as i32);
    }

    fn get(&self, index: usize) -> &[u8] {
        &self.data[self.ends[index] as usize..self.ends[index + 1] as usize]
    }

    fn truncate(&mut self, length: usize) {
        self.ends.truncate(length + 1);
        self.data.truncate(self.ends[length] as usize);
    }

    fn finish(&mut self) -> (OffsetBuffer<i32>, arrow_buffer::Buffer) {
        (offsets(&mut self.ends), std::mem::take(&mut self.data).into())
    }
}

fn offsets(ends: &mut Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(std::mem::replace(ends, vec![0]).into())
}

fn large(offsets: OffsetBuffer<i32>) -> OffsetBuffer<i64> {
    OffsetBuffer::new(offsets.iter().map(|offset| i64::from(*offset)).collect())
}

impl Column {
    pub fn new(field: &FieldRef, path: &str, depth: usize) -> Result<Column, String> {
        let unsupported = || Err(format!("column {path:?} is {}; JSON decodes into {SUPPORTED}", field.data_type()));
        if depth == MAX_DEPTH {
            return Err(format!("column {path:?} is nested deeper than {MAX_DEPTH}"));
        }
        let ints = |min, max| Values::Int(Vec::new(), min, max);
        let values = match field.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Bool(BooleanBufferBuilder::new(0)),
            DataType::Int8 => ints(i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => ints(i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => ints(i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => ints(i64::MIN.into(), i64::MAX.into()),
            DataType::UInt8 => ints(0, u8::MAX.into()),
            DataType::UInt16 => ints(0, u16::MAX.into()),
            DataType::UInt32 => ints(0, u32::MAX.into()),
            DataType::UInt64 => ints(0, u64::MAX.into()),
            DataType::Float16 | DataType::Float32 => Values::Single(Vec::new()),
            DataType::Float64 => Values::Double(Vec::new()),
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale) => Values::Decimal(Vec::new(), *precision, *scale),
            DataType::Decimal256(precision, scale) => Values::Wide(Vec::new(), *precision, *scale),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Values::Text(Bytes::new()),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Values::Binary(Bytes::new()),
            DataType::Date32 => Values::Date(Vec::new()),
            DataType::Timestamp(unit, zone) => {
                let second = match unit {
                    TimeUnit::Second => 1,
                    TimeUnit::Millisecond => 1_000,
                    TimeUnit::Microsecond => 1_000_000,
                    TimeUnit::Nanosecond => 1_000_000_000,
                };
                Values::Time(Vec::new(), second, zone.is_some())
            }
            DataType::List(item) | DataType::LargeList(item) => {
                Values::List(vec![0], Box::new(Column::new(item, &format!("{path}[]"), depth + 1)?))
            }
            DataType::Struct(fields) => Values::Struct(Members::new(fields, path, depth + 1)?),
            DataType::Map(entries, false) => {
                let DataType::Struct(pair) = entries.data_type() else { return unsupported() };
                let [key, value] = &pair[..] else { return unsupported() };
                if !matches!(key.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
                    return unsupported();
                }
                Values::Map(vec![0], Bytes::new(), Box::new(Column::new(value, &format!("{path}.*"), depth + 1)?))
            }
            _ => return unsupported(),
        };
        Ok(Column { field: field.clone(), nulls: NullBufferBuilder::new(0), values })
    }

    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Room for rows to come, where a row has a fixed size.
    pub fn reserve(&mut self, rows: usize) {
        match &mut self.values {
            Values::Null => {}
            Values::Bool(values) => values.reserve(rows),
            Values::Int(values, ..) | Values::Date(values) | Values::Time(values, ..) => values.reserve(rows),
            Values::Single(values) => values.reserve(rows),
            Values::Double(values) => values.reserve(rows),
            Values::Decimal(values, ..) => values.reserve(rows),
            Values::Wide(values, ..) => values.reserve(rows),
            Values::Text(values) | Values::Binary(values) => values.ends.reserve(rows),
            Values::List(ends, _) | Values::Map(ends, ..) => ends.reserve(rows),
            Values::Struct(members) => members.columns.iter_mut().for_each(|column| column.reserve(rows)),
        }
    }

    pub fn append_null(&mut self) {
        match &mut self.values {
            Values::Null => {}
            Values::Bool(values) => values.append(false),
            Values::Int(values, ..) | Values::Date(values) | Values::Time(values, ..) => values.push(0),
            Values::Single(values) => values.push(0.0),
            Values::Double(values) => values.push(0.0),
            Values::Decimal(values, ..) => values.push(0),
            Values::Wide(values, ..) => values.push(i256::ZERO),
            Values::Text(values) | Values::Binary(values) => values.end(),
            Values::List(ends, items) => ends.push(items.len() as i32),
            Values::Map(ends, _, items) => ends.push(items.len() as i32),
            Values::Struct(members) => members.columns.iter_mut().for_each(Column::append_null),
        }
        self.nulls.append_null();
    }

    /// Back to `length` rows; also cuts off what a failed [`Column::parse`] left behind.
    pub fn truncate(&mut self, length: usize) {
        match &mut self.values {
            Values::Null => {}
            Values::Bool(values) => values.truncate(length),
            Values::Int(values, ..) | Values::Date(values) | Values::Time(values, ..) => values.truncate(length),
            Values::Single(values) => values.truncate(length),
            Values::Double(values) => values.truncate(length),
            Values::Decimal(values, ..) => values.truncate(length),
            Values::Wide(values, ..) => values.truncate(length),
            Values::Text(values) | Values::Binary(values) => values.truncate(length),
            Values::List(ends, items) => {
                ends.truncate(length + 1);
                items.truncate(ends[length] as usize);
            }
            Values::Map(ends, keys, items) => {
                ends.truncate(length + 1);
                keys.truncate(ends[length] as usize);
                items.truncate(ends[length] as usize);
            }
            Values::Struct(members) => members.columns.iter_mut().for_each(|column| column.truncate(length)),
        }
        self.nulls.truncate(length);
    }

    /// Reads one value. On an error the column may hold part of it, until it is truncated.
    #[inline]
    pub fn parse(&mut self, json: &mut Json<'_>) -> Parsed<()> {
        let start = json.at;
        if json.peek() == b'n' {
            json.null()?;
            if !self.field.is_nullable() {
                return json.fail(Reason::Null, start);
            }
            self.append_null();
            return Ok(());
        }
        match &mut self.values {
            Values::Null => return json.fail(Reason::Expected("null"), start),
            Values::Bool(values) => values.append(json.boolean()?),
            Values::Int(values, min, max) => values.push(integer(json, *min, *max, "an integer")?),
            Values::Single(values) => match json.number("a number")?.single() {
                // A half has room for less than a single.
                Some(value) if *self.field.data_type() == DataType::Float32 || value.abs() < 65_520.0 => values.push(value),
                _ => return json.fail(Reason::Unfit, start),
            },
            Values::Double(values) => match json.number("a number")?.double() {
                Some(value) => values.push(value),
                None => return json.fail(Reason::Unfit, start),
            },
            Values::Decimal(values, precision, scale) => values.push(decimal(json, *precision, *scale)?.1),
            Values::Wide(values, precision, scale) => values.push(number::wide(decimal(json, *precision, *scale)?)),
            Values::Text(values) => {
                match json.string()? {
                    Some(text) => values.push(text),
                    None => values.push(&json.unescaped),
                };
            }
            Values::Binary(values) => {
                let plain = json.string()?;
                if BASE64.decode_vec(plain.unwrap_or(&json.unescaped), &mut values.data).is_err() {
                    return json.fail(Reason::Unfit, start);
                }
                values.end();
            }
            Values::Date(values) => {
                let plain = json.string()?;
                match number::days(plain.unwrap_or(&json.unescaped)) {
                    Some(days) => values.push(days),
                    None => return json.fail(Reason::Unfit, start),
                }
            }
            Values::Time(values, second, zoned) => values.push(time(json, *second, *zoned)?),
            Values::List(ends, items) => {
                let mut more = !json.open(b'[', b']', "an array")?;
                while more {
                    if let Err(stop) = items.parse(json) {
                        json.trace.push(Step::Item(items.field.clone()));
                        return Err(stop);
                    }
                    more = json.more(b']')?;
                }
                ends.push(items.len() as i32);
            }
            Values::Struct(members) => members.parse(self.nulls.len(), json)?,
            Values::Map(ends, keys, items) => {
                map(keys, items, json)?;
                ends.push(items.len() as i32);
            }
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// The rows so far; the column is empty again.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let length = self.len();
        let nulls = self.nulls.finish();
        let data_type = self.field.data_type();
        Ok(match &mut self.values {
            Values::Null => Arc::new(NullArray::new(length)),
            Values::Bool(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int(values, ..) => integers(std::mem::take(values), nulls, data_type)?,
            Values::Date(values) => numbers::<Date32Type, _>(std::mem::take(values), nulls, data_type, |v| v as i32)?,
            Values::Time(values, second, _) => {
                let values = std::mem::take(values);
                match second {
                    1 => numbers::<TimestampSecondType, _>(values, nulls, data_type, |v| v)?,
                    1_000 => numbers::<TimestampMillisecondType, _>(values, nulls, data_type, |v| v)?,
                    1_000_000 => numbers::<TimestampMicrosecondType, _>(values, nulls, data_type, |v| v)?,
                    _ => numbers::<TimestampNanosecondType, _>(values, nulls, data_type, |v| v)?,
                }
            }
            Values::Single(values) => {
                let values = std::mem::take(values);
                match data_type {
                    DataType::Float32 => numbers::<Float32Type, _>(values, nulls, data_type, |v| v)?,
                    _ => numbers::<Float16Type, _>(values, nulls, data_type, HalfFloat::from_f32)?,
                }
            }
            Values::Double(values) => numbers::<Float64Type, _>(std::mem::take(values), nulls, data_type, |v| v)?,
            Values::Decimal(values, ..) => {
                let values = std::mem::take(values);
                match data_type {
                    DataType::Decimal32(..) => numbers::<Decimal32Type, _>(values, nulls, data_type, |v| v as i32)?,
                    DataType::Decimal64(..) => numbers::<Decimal64Type, _>(values, nulls, data_type, |v| v as i64)?,
                    _ => numbers::<Decimal128Type, _>(values, nulls, data_type, |v| v)?,
                }
            }
            Values::Wide(values, ..) => numbers::<Decimal256Type, _>(std::mem::take(values), nulls, data_type, |v| v)?,
            Values::Text(values) => strings(values, nulls, data_type)?,
            Values::Binary(values) => {
                let (offsets, data) = values.finish();
                match data_type {
                    DataType::LargeBinary => Arc::new(LargeBinaryArray::try_new(large(offsets), data, nulls)?),
                    DataType::BinaryView => {
                        Arc::new(BinaryViewArray::from(&BinaryArray::try_new(offsets, data, nulls)?))
                    }
                    _ => Arc::new(BinaryArray::try_new(offsets, data, nulls)?),
                }
            }
            Values::List(ends, items) => match data_type {
                DataType::LargeList(_) => list(large(offsets(ends)), items, nulls)?,
                _ => list(offsets(ends), items, nulls)?,
            },
            Values::Struct(members) => Arc::new(members.finish(length, nulls)?),
            Values::Map(ends, keys, items) => {
                let DataType::Map(entries, _) = data_type else { return Err(mismatch(data_type)) };
                let DataType::Struct(pair) = entries.data_type() else { return Err(mismatch(data_type)) };
                let columns = vec![strings(keys, None, pair[0].data_type())?, items.finish()?];
                let values = StructArray::try_new(pair.clone(), columns, None)?;
                Arc::new(MapArray::try_new(entries.clone(), offsets(ends), values, nulls, false)?)
            }
        })
    }
}

type HalfFloat = <Float16Type as ArrowPrimitiveType>::Native;

fn mismatch(data_type: &DataType) -> ArrowError {
    ArrowError::SchemaError(format!("a builder of another type than {data_type}"))
}

fn numbers<T: ArrowPrimitiveType, V: ArrowNativeType>(
    values: Vec<V>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
    narrow: impl Fn(V) -> T::Native,
) -> Result<ArrayRef, ArrowError> {
    // Where nothing is to be narrowed this keeps the allocation.
    let values: Vec<T::Native> = values.into_iter().map(narrow).collect();
    let array = PrimitiveArray::<T>::try_new(ScalarBuffer::from(values), nulls)?;
    if !PrimitiveArray::<T>::is_compatible(data_type) {
        return Err(mismatch(data_type));
    }
    Ok(Arc::new(array.with_data_type(data_type.clone())))
}

fn integers(values: Vec<i64>, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    match data_type {
        DataType::Int8 => numbers::<Int8Type, _>(values, nulls, data_type, |v| v as i8),
        DataType::Int16 => numbers::<Int16Type, _>(values, nulls, data_type, |v| v as i16),
        DataType::Int32 => numbers::<Int32Type, _>(values, nulls, data_type, |v| v as i32),
        DataType::UInt8 => numbers::<UInt8Type, _>(values, nulls, data_type, |v| v as u8),
        DataType::UInt16 => numbers::<UInt16Type, _>(values, nulls, data_type, |v| v as u16),
        DataType::UInt32 => numbers::<UInt32Type, _>(values, nulls, data_type, |v| v as u32),
        DataType::UInt64 => numbers::<UInt64Type, _>(values, nulls, data_type, |v| v as u64),
        _ => numbers::<Int64Type, _>(values, nulls, data_type, |v| v),
    }
}

fn strings(values: &mut Bytes, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let (offsets, data) = values.finish();
    Ok(match data_type {
        DataType::LargeUtf8 => Arc::new(LargeStringArray::try_new(large(offsets), data, nulls)?),
        DataType::Utf8View => Arc::new(StringViewArray::from(&StringArray::try_new(offsets, data, nulls)?)),
        _ => Arc::new(StringArray::try_new(offsets, data, nulls)?),
    })
}

fn list<O: OffsetSizeTrait>(
    offsets: OffsetBuffer<O>,
    items: &mut Column,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let values = items.finish()?;
    Ok(Arc::new(GenericListArray::<O>::try_new(items.field.clone(), offsets, values, nulls)?))
}

#[inline]
fn integer(json: &mut Json<'_>, min: i128, max: i128, expected: &'static str) -> Parsed<i64> {
    let start = json.at;
    match json.number(expected)?.integer() {
        Some(value) if min <= value && value <= max => Ok(value as i64),
        _ => json.fail(Reason::Unfit, start),
    }
}

/// A number, or one in a string: how exact decimals travel through writers whose numbers are doubles.
fn decimal(json: &mut Json<'_>, precision: u8, scale: i8) -> Parsed<(i128, i128)> {
    let start = json.at;
    let value = if json.peek() == b'"' {
        let plain = json.string()?;
        json::number(plain.unwrap_or(&json.unescaped)).and_then(|number| number.scaled(scale, precision, true))
    } else {
        json.number("a number or a number in a string")?.scaled(scale, precision, true)
    };
    match value {
        Some(value) => Ok(value),
        None => json.fail(Reason::Unfit, start),
    }
}

/// A text, or an integer that counts units since 1970.
fn time(json: &mut Json<'_>, second: i64, zoned: bool) -> Parsed<i64> {
    let start = json.at;
    if json.peek() != b'"' {
        return integer(json, i64::MIN.into(), i64::MAX.into(), "a timestamp in a string, or an integer");
    }
    let plain = json.string()?;
    let value = number::moment(plain.unwrap_or(&json.unescaped)).filter(|moment| zoned || moment.offset.is_none());
    let units = value.map(|moment| {
        i128::from(moment.seconds) * i128::from(second) + i128::from(moment.nanos / (1_000_000_000 / second))
    });
    match units.and_then(|units| i64::try_from(units).ok()) {
        Some(units) => Ok(units),
        None => json.fail(Reason::Unfit, start),
    }
}

fn map(keys: &mut Bytes, items: &mut Column, json: &mut Json<'_>) -> Parsed<()> {
    let (start, first) = (json.at, items.len());
    let mut more = !json.open(b'{', b'}', "an object")?;
    while more {
        match json.key()? {
            Some(key) => keys.push(key),
            None => keys.push(&json.unescaped),
        }
        entry(keys.get(items.len()), items, json)?;
        more = json.more(b'}')?;
    }
    let distinct = match items.len() - first {
        0 | 1 => true,
        ..=FEW => (first..items.len()).all(|i| (first..i).all(|j| keys.get(i) != keys.get(j))),
        count => (first..items.len()).map(|i| keys.get(i)).collect::<HashSet<_>>().len() == count,
    };
    if distinct {
        return Ok(());
    }
    // A key came twice. That is rare, and read again with the places of the last values at hand.
    keys.truncate(first);
    items.truncate(first);
    json.at = start;
    let mut order: Vec<(Vec<u8>, usize)> = Vec::new();
    let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
    more = !json.open(b'{', b'}', "an object")?;
    while more {
        let plain = json.key()?;
        let key = plain.unwrap_or(&json.unescaped).to_vec();
        json.colon()?;
        let index = *known.entry(key.clone()).or_insert(order.len());
        match order.get_mut(index) {
            Some((_, place)) => *place = json.at,
            None => order.push((key, json.at)),
        }
        json.skip()?;
        more = json.more(b'}')?;
    }
    let end = json.at;
    json.depth += 1;
    for (key, place) in order {
        keys.push(&key);
        json.at = place;
        items.parse(json)?;
    }
    json.depth -= 1;
    json.at = end;
    Ok(())
}

fn entry(key: &[u8], items: &mut Column, json: &mut Json<'_>) -> Parsed<()> {
    json.colon()?;
    items.parse(json).inspect_err(|_| {
        json.trace.push(Step::Key(String::from_utf8_lossy(key).into_owned(), items.field.clone()));
    })
}

/// The fields of a struct.
#[derive(Debug)]
pub struct Members {
    fields: Fields,
    columns: Vec<Column>,
    /// The names as JSON spells them, quotes included.
    tokens: Vec<Vec<u8>>,
    /// The field that came after this one the last time; the last entry: that came first.
    after: Vec<usize>,
    by_name: HashMap<Vec<u8>, usize>,
}

impl Members {
    fn new(fields: &Fields, path: &str, depth: usize) -> Result<Members, String> {
        let mut by_name = HashMap::new();
        let mut columns = Vec::with_capacity(fields.len());
        for (index, field) in fields.iter().enumerate() {
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{}", field.name());
            if by_name.insert(field.name().clone().into_bytes(), index).is_some() {
                return Err(format!("the schema names column {path:?} twice"));
            }
            columns.push(Column::new(field, &path, depth)?);
        }
        let tokens = fields.iter().map(|field| token(field.name())).collect();
        let count = fields.len();
        let after = (1..=count).chain([0]).collect();
        Ok(Members { fields: fields.clone(), columns, tokens, after, by_name })
    }

    /// Reads an object as row `row`.
    fn parse(&mut self, row: usize, json: &mut Json<'_>) -> Parsed<()> {
        let mut previous = self.columns.len();
        let mut present = 0;
        let mut more = !json.open(b'{', b'}', "an object")?;
        while more {
            let found = self.member(previous, json)?;
            json.colon()?;
            if let Some(index) = found {
                let column = &mut self.columns[index];
                if column.len() == row {
                    present += 1;
                } else {
                    // It came before in this object: the last one wins.
                    column.truncate(row);
                }
                if let Err(stop) = column.parse(json) {
                    json.trace.push(Step::Field(column.field.clone()));
                    return Err(stop);
                }
                previous = index;
            } else {
                json.skip()?;
            }
            more = json.more(b'}')?;
        }
        if present == self.columns.len() {
            return Ok(());
        }
        for column in self.columns.iter_mut().filter(|column| column.len() == row) {
            if !column.field.is_nullable() {
                json.trace.push(Step::Field(column.field.clone()));
                return json.fail(Reason::Missing, json.at);
            }
            column.append_null();
        }
        Ok(())
    }

    /// The name of a member: which field it is. Writers keep to an order, so the field that followed last time is tried first.
    #[inline]
    fn member(&mut self, previous: usize, json: &mut Json<'_>) -> Parsed<Option<usize>> {
        let guess = self.after[previous];
        if self.tokens.get(guess).is_some_and(|token| json.takes(token)) {
            return Ok(Some(guess));
        }
        let plain = json.key()?;
        let name = plain.unwrap_or(&json.unescaped);
        let found = if self.columns.len() <= FEW {
            self.fields.iter().position(|field| field.name().as_bytes() == name)
        } else {
            self.by_name.get(name).copied()
        };
        if let Some(index) = found {
            self.after[previous] = index;
        }
        Ok(found)
    }

    fn finish(&mut self, length: usize, nulls: Option<NullBuffer>) -> Result<StructArray, ArrowError> {
        let arrays = self.columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>, _>>()?;
        StructArray::try_new_with_length(self.fields.clone(), arrays, nulls, length)
    }
}

fn token(name: &str) -> Vec<u8> {
    let mut token = vec![b'"'];
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => token.extend([b'\\', byte]),
            0..0x20 => token.extend(format!("\\u{byte:04x}").into_bytes()),
            _ => token.push(byte),
        }
    }
    token.push(b'"');
    token
}

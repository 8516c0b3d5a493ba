//! Typed columns that decoders write into. A row that is found malformed is truncated.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::IntervalMonthDayNano;
use arrow_buffer::{NullBufferBuilder, i256};
use arrow_schema::{DataType, Field, FieldRef};

use super::dictionary::DictionaryDecoder;
use super::object::Members;
use super::rules::{JsonRules, Zone, per_second};

const DECODABLE_TYPES: &str = "null, bool, int8 to int64, uint8 to uint64, float16 to float64, decimal32 to decimal256, string, \
     binary (base64), date, time, timestamp, duration, list, struct and map with string keys (large and view types of \
     string and binary, large lists, lists and binary of a fixed size as well), and dictionaries of them";
/// Maximum depth of the schema. A document can be twice as deep in members that are ignored.
pub(crate) const MAX_DEPTH: usize = 64;

/// A column of any supported type.
#[derive(Debug)]
pub struct ColumnDecoder {
    pub field: FieldRef,
    pub nulls: NullBufferBuilder,
    pub values: Values,
}

/// The values of a column, in the widest type of their kind. `finish` narrows them.
#[derive(Debug)]
pub enum Values {
    Null,
    Bool(BooleanBufferBuilder),
    /// Minimum and maximum; a u64 is stored as its bits.
    Int(Vec<i64>, i128, i128),
    Single(Vec<f32>),
    Double(Vec<f64>),
    /// Precision and scale.
    Decimal(Vec<i128>, u8, i8),
    Wide(Vec<i256>, u8, i8),
    Text(Bytes),
    Binary(Bytes),
    Date(Vec<i64>),
    /// Time of day; units per second.
    Clock(Vec<i64>, i64),
    Time(Vec<i64>, TimeFormat),
    List(Vec<i32>, Box<ColumnDecoder>),
    Struct(Members),
    Map(Vec<i32>, Bytes, Box<ColumnDecoder>),
    Dictionary(DictionaryDecoder),
    /// Codes of these values; Avro only, like the next.
    Symbols(Vec<usize>, ArrayRef),
    Spans(Vec<IntervalMonthDayNano>),
    /// A map with keys of any type; Protobuf only.
    Entries(Vec<i32>, Box<ColumnDecoder>, Box<ColumnDecoder>),
}

/// Format of the times of a column.
#[derive(Debug)]
pub struct TimeFormat {
    /// Units per second.
    pub second: i64,
    /// Zone of texts without an offset; `None` if the type has no zone and texts no offset.
    pub zone: Option<Zone>,
    /// Units of a number per second; `None` if a number is malformed.
    pub numbers: Option<i64>,
}

/// Concatenated byte strings; `ends` starts with a zero.
#[derive(Debug)]
pub struct Bytes {
    pub ends: Vec<i32>,
    pub data: Vec<u8>,
}

impl Bytes {
    pub fn new() -> Self {
        Bytes { ends: vec![0], data: Vec::new() }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.end();
    }

    /// The cast is lossless: decoded text is at most as long as the payloads, which have i32 offsets.
    pub fn end(&mut self) {
        self.ends.push(self.data.len() as i32);
    }

    pub fn get(&self, index: usize) -> &[u8] {
        &self.data[self.ends[index] as usize..self.ends[index + 1] as usize]
    }

    pub fn truncate(&mut self, length: usize) {
        self.ends.truncate(length + 1);
        self.data.truncate(self.ends[length] as usize);
    }
}

impl ColumnDecoder {
    pub fn new(field: &FieldRef, rules: &JsonRules, path: &str, depth: usize) -> Result<ColumnDecoder, String> {
        let unsupported =
            || Err(format!("column {path:?} is {}; JSON decodes into {DECODABLE_TYPES}", field.data_type()));
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
            DataType::Decimal32(precision @ 1..=9, scale)
            | DataType::Decimal64(precision @ 1..=18, scale)
            | DataType::Decimal128(precision @ 1..=38, scale) => Values::Decimal(Vec::new(), *precision, *scale),
            DataType::Decimal256(precision @ 1..=76, scale) => Values::Wide(Vec::new(), *precision, *scale),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Values::Text(Bytes::new()),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Values::Binary(Bytes::new()),
            DataType::FixedSizeBinary(1..) => Values::Binary(Bytes::new()),
            DataType::Date32 | DataType::Date64 => Values::Date(Vec::new()),
            DataType::Time32(unit) | DataType::Time64(unit) => Values::Clock(Vec::new(), per_second(*unit)),
            DataType::Duration(_) => ints(i64::MIN.into(), i64::MAX.into()),
            DataType::Timestamp(unit, zone) => {
                let numbers = rules.numbers.per_second(*unit, zone.is_some());
                let zone = zone.as_ref().map(|_| rules.zone.clone());
                Values::Time(Vec::new(), TimeFormat { second: per_second(*unit), zone, numbers })
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, 1..) => {
                Values::List(vec![0], Box::new(ColumnDecoder::new(item, rules, &format!("{path}[]"), depth + 1)?))
            }
            DataType::Struct(fields) => Values::Struct(Members::new(fields, rules, path, depth + 1)?),
            DataType::Dictionary(keys, value) => {
                let field = Arc::new(Field::new("value", value.as_ref().clone(), false));
                Values::Dictionary(DictionaryDecoder::new(keys, ColumnDecoder::new(&field, rules, path, depth + 1)?))
            }
            DataType::Map(entries, _) => {
                let DataType::Struct(pair) = entries.data_type() else { return unsupported() };
                let [key, value] = &pair[..] else { return unsupported() };
                if !matches!(key.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
                    return unsupported();
                }
                Values::Map(
                    vec![0],
                    Bytes::new(),
                    Box::new(ColumnDecoder::new(value, rules, &format!("{path}.*"), depth + 1)?),
                )
            }
            _ => return unsupported(),
        };
        Ok(ColumnDecoder::of(field.clone(), values))
    }

    pub fn of(field: FieldRef, values: Values) -> ColumnDecoder {
        ColumnDecoder { field, nulls: NullBufferBuilder::new(0), values }
    }

    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Reserves memory for more rows of a fixed size.
    pub fn reserve(&mut self, rows: usize) {
        match &mut self.values {
            Values::Null => {}
            Values::Bool(values) => values.reserve(rows),
            Values::Int(values, ..) | Values::Date(values) | Values::Clock(values, _) | Values::Time(values, ..) => {
                values.reserve(rows);
            }
            Values::Single(values) => values.reserve(rows),
            Values::Double(values) => values.reserve(rows),
            Values::Decimal(values, ..) => values.reserve(rows),
            Values::Wide(values, ..) => values.reserve(rows),
            Values::Text(values) | Values::Binary(values) => values.ends.reserve(rows),
            Values::List(ends, _) | Values::Map(ends, ..) | Values::Entries(ends, ..) => ends.reserve(rows),
            Values::Struct(members) => members.columns.iter_mut().for_each(|column| column.reserve(rows)),
            Values::Dictionary(dictionary) => dictionary.codes.reserve(rows),
            Values::Symbols(codes, _) => codes.reserve(rows),
            Values::Spans(values) => values.reserve(rows),
        }
    }

    pub fn append_null(&mut self) {
        match &mut self.values {
            Values::Null => {}
            Values::Bool(values) => values.append(false),
            Values::Int(values, ..) | Values::Date(values) | Values::Clock(values, _) | Values::Time(values, ..) => {
                values.push(0);
            }
            Values::Single(values) => values.push(0.0),
            Values::Double(values) => values.push(0.0),
            Values::Decimal(values, ..) => values.push(0),
            Values::Wide(values, ..) => values.push(i256::ZERO),
            Values::Text(values) | Values::Binary(values) => values.end(),
            Values::List(ends, items) => {
                // A null of a fixed-size list has items too.
                (0..fixed_length(self.field.data_type()).unwrap_or(0)).for_each(|_| items.append_null());
                ends.push(items.len() as i32);
            }
            Values::Map(ends, _, items) | Values::Entries(ends, _, items) => ends.push(items.len() as i32),
            Values::Struct(members) => members.columns.iter_mut().for_each(ColumnDecoder::append_null),
            Values::Dictionary(dictionary) => dictionary.codes.push(0),
            Values::Symbols(codes, _) => codes.push(0),
            Values::Spans(values) => values.push(IntervalMonthDayNano::ZERO),
        }
        self.nulls.append_null();
    }

    /// Truncates to `length` rows, including the partial row of a failed [`ColumnDecoder::parse`].
    pub fn truncate(&mut self, length: usize) {
        match &mut self.values {
            Values::Null => {}
            Values::Bool(values) => values.truncate(length),
            Values::Int(values, ..) | Values::Date(values) | Values::Clock(values, _) | Values::Time(values, ..) => {
                values.truncate(length);
            }
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
            Values::Dictionary(dictionary) => dictionary.codes.truncate(length),
            Values::Symbols(codes, _) => codes.truncate(length),
            Values::Spans(values) => values.truncate(length),
            Values::Entries(ends, keys, items) => {
                ends.truncate(length + 1);
                keys.truncate(ends[length] as usize);
                items.truncate(ends[length] as usize);
            }
        }
        self.nulls.truncate(length);
    }
}

/// Returns the length of each value of a type with a fixed size.
pub fn fixed_length(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(length) | DataType::FixedSizeList(_, length) => usize::try_from(*length).ok(),
        _ => None,
    }
}

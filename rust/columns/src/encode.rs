//! Encoder of table rows as JSON objects, one payload each: the inverse of `decode`.
//!
//! | Arrow | JSON |
//! |---|---|
//! | bool | true, false |
//! | int, uint | a number, exact |
//! | float | the shortest number that parses to the same value; NaN and infinities are an error of the row |
//! | decimal | a number with all its digits |
//! | string | a string |
//! | binary | standard base64, padded |
//! | date | "YYYY-MM-DD"; a year outside 0 to 9999, or a date64 with a time, is an error of the row |
//! | timestamp | ISO 8601, `Z` if the type has a zone; outside of these years the units since 1970 |
//! | time | "HH:MM:SS", with a fraction if the unit has one |
//! | duration | a number in its unit |
//! | list, struct, map | an array, an object, an object |
//! | dictionary | the dictionary's value |
//!
//! A null field is omitted, or written as null with `nulls`. A null in a list is null.

mod nested;
mod scalar;
#[cfg(test)]
mod tests;
mod text;
mod time;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeBinaryArray, StructArray};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields};

use crate::decode::column::MAX_DEPTH;

const ENCODABLE_TYPES: &str = "null, bool, int, uint, float, decimal, string, binary, date, time, timestamp, duration, list, struct, \
     map with string keys, and dictionaries of them";

/// Reason why a value cannot be encoded.
#[derive(Debug, PartialEq, Eq)]
pub struct EncodeFault {
    /// The dotted path of the column.
    pub column: String,
    pub reason: String,
}

impl EncodeFault {
    pub fn new(reason: impl Into<String>) -> EncodeFault {
        EncodeFault { column: String::new(), reason: reason.into() }
    }

    /// Prepends the name of the enclosing column to the path.
    pub fn within(mut self, name: &str) -> EncodeFault {
        self.column = if self.column.is_empty() { name.to_owned() } else { format!("{name}.{}", self.column) };
        self
    }
}

impl std::fmt::Display for EncodeFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "column {:?}: {}", self.column, self.reason)
    }
}

/// The cells of a column.
trait Cells: Send + Sync {
    fn is_null(&self, row: usize) -> bool;
    /// Writes a cell that is not null.
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), EncodeFault>;
}

/// One payload per row; null if the row has a fault.
pub struct Encoded {
    pub payloads: LargeBinaryArray,
    pub faults: Vec<(usize, EncodeFault)>,
}

/// Checks that all columns can be encoded. The error names the one that cannot.
pub fn check(fields: &Fields) -> Result<(), String> {
    fields.iter().try_for_each(|field| check_type(field.data_type(), field.name(), 0))
}

fn check_type(data_type: &DataType, path: &str, depth: usize) -> Result<(), String> {
    use DataType::*;
    if depth == MAX_DEPTH {
        return Err(format!("column {path:?} is nested deeper than {MAX_DEPTH}"));
    }
    match data_type {
        Null | Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => Ok(()),
        Float16 | Float32 | Float64 | Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => Ok(()),
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(1..) => Ok(()),
        Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => Ok(()),
        List(item) | LargeList(item) | FixedSizeList(item, 1..) => {
            check_type(item.data_type(), &format!("{path}[]"), depth + 1)
        }
        Struct(fields) => fields
            .iter()
            .try_for_each(|field| check_type(field.data_type(), &format!("{path}.{}", field.name()), depth + 1)),
        Map(entries, _) => match entries.data_type() {
            Struct(pair) if pair.len() == 2 && matches!(pair[0].data_type(), Utf8 | LargeUtf8 | Utf8View) => {
                check_type(pair[1].data_type(), &format!("{path}.value"), depth + 1)
            }
            _ => Err(format!("column {path:?} is a map without string keys")),
        },
        Dictionary(_, value) => check_type(value, path, depth + 1),
        other => Err(format!("column {path:?} is {other}; supported types are {ENCODABLE_TYPES}")),
    }
}

/// Encodes each row as an object of its columns.
pub fn encode(table: &StructArray, nulls: bool) -> Result<Encoded, ArrowError> {
    let objects = nested::Objects::new(table, nulls)?;
    encode_rows(table.len(), |row, out| objects.write(row, out))
}

/// Encodes rows with a function that appends one payload.
pub(crate) fn encode_rows(
    rows: usize,
    write: impl Fn(usize, &mut Vec<u8>) -> Result<(), EncodeFault>,
) -> Result<Encoded, ArrowError> {
    let mut faults = Vec::new();
    let mut data = Vec::with_capacity(rows * 32);
    let mut ends = Vec::with_capacity(rows + 1);
    ends.push(0i64);
    for row in 0..rows {
        let start = data.len();
        if let Err(fault) = write(row, &mut data) {
            data.truncate(start);
            faults.push((row, fault));
        }
        ends.push(data.len() as i64);
    }
    let valid = (!faults.is_empty()).then(|| {
        let mut valid = BooleanBufferBuilder::new(rows);
        valid.append_n(rows, true);
        faults.iter().for_each(|(row, _)| valid.set_bit(*row, false));
        NullBuffer::new(valid.finish())
    });
    let payloads = LargeBinaryArray::try_new(OffsetBuffer::new(ends.into()), data.into(), valid)?;
    Ok(Encoded { payloads, faults })
}

/// A column as plain text: a string unchanged, a number, bool, date or time as in JSON.
pub struct EncodedTexts {
    cells: Box<dyn Cells>,
    /// The JSON of these values has quotes, which are removed.
    quoted: bool,
}

impl EncodedTexts {
    /// Creates the texts of a column that passed `check_text`.
    pub fn new(array: &ArrayRef) -> Result<EncodedTexts, ArrowError> {
        use DataType::*;
        let (cells, quoted) = match array.data_type() {
            Utf8 | LargeUtf8 | Utf8View => (scalar::plain(array)?, false),
            Dictionary(..) => {
                let (keys, values) = entries(array)?;
                let EncodedTexts { cells, quoted } = EncodedTexts::new(values)?;
                (Box::new(nested::Dictionary { keys, values: cells }) as Box<dyn Cells>, quoted)
            }
            Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) => (time::cells(array)?, true),
            _ => (scalar::cells(array)?, false),
        };
        Ok(EncodedTexts { cells, quoted })
    }

    /// Writes a cell; false if it is null.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<bool, EncodeFault> {
        if self.cells.is_null(row) {
            return Ok(false);
        }
        let start = out.len();
        self.cells.write(row, out)?;
        // A time outside of the years of ISO 8601 is a number, without quotes.
        if self.quoted && out.get(start) == Some(&b'"') {
            out.pop();
            out.remove(start);
        }
        Ok(true)
    }
}

/// Checks that the values of a column can be plain text.
pub fn check_text(field: &Field) -> Result<(), String> {
    use DataType::*;
    match field.data_type() {
        Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => Ok(()),
        Utf8 | LargeUtf8 | Utf8View | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) => Ok(()),
        Dictionary(_, value) => check_text(&Field::new(field.name(), value.as_ref().clone(), true)),
        other => Err(format!("column {:?} is {other}, which cannot be plain text; cast it to string", field.name())),
    }
}

/// Returns the cells of a column that passed `check`.
fn cells(array: &ArrayRef, nulls: bool) -> Result<Box<dyn Cells>, ArrowError> {
    Ok(match array.data_type() {
        DataType::Null => Box::new(scalar::Nothing),
        DataType::Struct(_) => Box::new(nested::Objects::new(array.as_struct(), nulls)?),
        DataType::List(_) => Box::new(nested::lists(array.as_list::<i32>().clone(), nulls)?),
        DataType::LargeList(_) => Box::new(nested::lists(array.as_list::<i64>().clone(), nulls)?),
        DataType::FixedSizeList(..) => Box::new(nested::fixed_lists(array.as_fixed_size_list(), nulls)?),
        DataType::Map(..) => Box::new(nested::maps(array.as_map(), nulls)?),
        DataType::Dictionary(..) => {
            let (keys, values) = entries(array)?;
            Box::new(nested::Dictionary { keys, values: cells(values, nulls)? })
        }
        DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => time::cells(array)?,
        _ => scalar::cells(array)?,
    })
}

/// Returns the dictionary index of each row, and the values.
fn entries(array: &ArrayRef) -> Result<(Vec<Option<usize>>, &ArrayRef), ArrowError> {
    let Some(array) = array.as_any_dictionary_opt() else { return Err(unexpected(array.data_type())) };
    // `normalized_keys` panics if there are no values.
    if array.values().is_empty() {
        return Ok((vec![None; array.len()], array.values()));
    }
    let keys = array.normalized_keys().into_iter().enumerate();
    Ok((keys.map(|(row, key)| array.is_valid(row).then_some(key)).collect(), array.values()))
}

fn unexpected(data_type: &DataType) -> ArrowError {
    ArrowError::NotYetImplemented(format!("JSON of {data_type}"))
}

//! Decoder of JSON payloads into typed Arrow columns, in one pass that writes into the columns.
//!
//! | Arrow | JSON |
//! |---|---|
//! | null | null |
//! | bool | true, false |
//! | int, uint | a number without a fraction (1, 1.0 and 1e3, not 1.5) within the range |
//! | float16, 32, 64 | a number; one beyond the largest finite value is malformed |
//! | decimal | a number, or one in a string; digits below the scale are rounded half away from zero (as Spark does), digits above the precision are malformed |
//! | string | a string |
//! | binary | a string of standard base64, padded or not |
//! | binary of a fixed size | the same, of this size |
//! | date32, date64 | "YYYY-MM-DD" |
//! | time32, time64 | "HH:MM", "HH:MM:SS" or with a fraction, of which digits below the unit are cut |
//! | duration | an integer of its unit |
//! | timestamp with zone | ISO 8601 with an offset or Z, without one in the zone of the rules; or a number since 1970, whose unit the rules give; fractions below the unit are cut |
//! | timestamp without zone | the same text without an offset; a number |
//! | list, struct, map | an array, an object, an object |
//! | list of a fixed size | an array of this size |
//! | dictionary | a value of its value type; more values in a batch than the keys can number are malformed |
//!
//! A string is not converted to a number, except for decimals, and a number is not converted to a string. A missing
//! field is null, as is a null; both are malformed if the schema's field is not nullable. Unknown members are checked
//! for syntax and ignored. The last of several members with the same name wins, but each has to be valid. Names are
//! compared exactly.
//!
//! These documents are malformed too: one that is not an object, an empty one, text after the object, invalid UTF-8,
//! half of a surrogate pair, and nesting deeper than 128. [`rules::Leniency`] relaxes some of this.

pub(crate) mod column;
mod dictionary;
mod explain;
mod finish;
mod json;
mod lenient;
mod number;
pub(crate) mod object;
mod parse;
pub mod rules;
#[cfg(test)]
mod tests;

use std::str::FromStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BinaryArray, BooleanArray, StringArray, StructArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use column::ColumnDecoder;
use explain::explain;
use json::{Json, Parsed, Reason};
use rules::{JsonRules, Leniency};

use crate::avro::{self, AvroReader};
use crate::binary::BinarySchema;
use crate::framed::{Framed, WriterSchema};
use crate::protobuf::{self, Message};

use base::choice::choose;
use base::error::JetError;

/// Parses RFC 3339 text into nanoseconds since 1970.
pub fn nanoseconds(text: &[u8]) -> Option<i64> {
    let moment = number::moment(text)?;
    moment.seconds.checked_mul(1_000_000_000)?.checked_add(moment.nanos)
}

/// Handling of malformed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMismatch {
    /// The value is null (leniently: the fields that do not fit), and the text is kept.
    Permissive,
    /// The row is dropped.
    DropMalformed,
    /// The first malformed row is an error.
    FailFast,
}

impl FromStr for OnMismatch {
    type Err = JetError;

    fn from_str(word: &str) -> Result<OnMismatch, JetError> {
        let known = [
            ("PERMISSIVE", OnMismatch::Permissive),
            ("DROPMALFORMED", OnMismatch::DropMalformed),
            ("FAILFAST", OnMismatch::FailFast),
        ];
        choose("mode", word, &known)
    }
}

#[derive(Debug)]
pub struct Decoded {
    /// One row per payload. With [`OnMismatch::DropMalformed`] one row per payload that `keep` selects.
    pub value: StructArray,
    /// Permissive: the text of malformed rows (base64 if it is not UTF-8), null in other rows.
    pub corrupt: Option<StringArray>,
    /// Permissive: the field that does not fit, and the reason; null in other rows.
    pub errors: Option<StringArray>,
    /// DropMalformed: mask of the payloads that have a row in `value`. `None` if no row was malformed.
    pub keep: Option<BooleanArray>,
}

/// A malformed row.
#[derive(Debug, PartialEq, Eq)]
pub struct Bad {
    pub row: usize,
    /// The dotted path of the column; empty for the whole document.
    pub column: String,
    pub reason: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum DecodeError {
    Malformed(Bad),
    Internal(String),
}

/// A decoder, built once per read.
#[derive(Debug)]
pub struct Decoder {
    root: ColumnDecoder,
    mode: OnMismatch,
    payload: Payload,
}

/// The format of payloads.
#[derive(Debug)]
enum Payload {
    Json(Leniency),
    Avro(Box<AvroReader>),
    Protobuf(Arc<Message>),
    Framed(Box<Framed>),
}

impl Decoder {
    /// Creates a decoder with the default rules.
    pub fn new(fields: &Fields, mode: OnMismatch) -> Result<Decoder, String> {
        Decoder::with_rules(fields, mode, &JsonRules::default())
    }

    /// Rejects types that it cannot decode. The text names the column and lists the supported types.
    pub fn with_rules(fields: &Fields, mode: OnMismatch, rules: &JsonRules) -> Result<Decoder, String> {
        let field = Arc::new(Field::new("value", DataType::Struct(fields.clone()), true));
        let mut root = ColumnDecoder::new(&field, rules, "", 0)?;
        // Arrow rejects some schemas only when the arrays are built.
        root.finish().map_err(|e| e.to_string())?;
        Ok(Decoder { root, mode, payload: Payload::Json(rules.leniency) })
    }

    /// Creates a decoder of a binary format, whose columns are those of the schema. `framed` payloads name their schema
    /// by an id.
    pub fn of_binary(schema: &BinarySchema, framed: bool, mode: OnMismatch) -> Result<Decoder, String> {
        let mut root = match schema {
            BinarySchema::Avro(schema) => avro::rows(schema)?,
            BinarySchema::Protobuf(message) => protobuf::rows(message)?,
        };
        root.finish().map_err(|e| e.to_string())?;
        let payload = match schema {
            _ if framed => Payload::Framed(Box::new(Framed::new(schema.clone()))),
            BinarySchema::Avro(schema) => Payload::Avro(Box::new(AvroReader::new(schema, schema)?)),
            BinarySchema::Protobuf(message) => Payload::Protobuf(message.clone()),
        };
        Ok(Decoder { root, mode, payload })
    }

    /// Returns the ids of schemas in payloads that `add_schema` has not had yet.
    pub fn unknown_schemas(&self, payloads: &BinaryArray) -> Vec<u32> {
        match &self.payload {
            Payload::Framed(framed) => framed.unknown(payloads),
            _ => Vec::new(),
        }
    }

    /// Adds the schema of an id. Payloads whose id has none are malformed.
    pub fn add_schema(&mut self, id: u32, schema: &WriterSchema) {
        if let Payload::Framed(framed) = &mut self.payload {
            framed.add(id, schema);
        }
    }

    /// Returns the field `value: struct<…>`. It is nullable in every mode, so the schema does not depend on the mode.
    pub fn value_field(&self) -> FieldRef {
        self.root.field.clone()
    }

    /// Returns the field of malformed text, if the mode has one.
    pub fn corrupt_field(&self) -> Option<Field> {
        (self.mode == OnMismatch::Permissive).then(|| Field::new("_corrupt_record", DataType::Utf8, true))
    }

    /// Returns the field of error texts, if the mode has one.
    pub fn error_field(&self) -> Option<Field> {
        (self.mode == OnMismatch::Permissive).then(|| Field::new("_error", DataType::Utf8, true))
    }

    pub fn decode(&mut self, payloads: &BinaryArray) -> Result<Decoded, DecodeError> {
        let rows = payloads.len();
        self.root.reserve(rows);
        let filled = match self.payload {
            Payload::Json(leniency) => self.fill(payloads, leniency),
            _ => self.fill_from_binary(payloads),
        };
        let bad = match filled {
            Ok(bad) => bad,
            Err(bad) => {
                self.root.truncate(0);
                return Err(DecodeError::Malformed(bad));
            }
        };
        let value = self.root.finish().map_err(|e| DecodeError::Internal(e.to_string()))?.as_struct().clone();
        let (corrupt, errors) = match self.mode {
            OnMismatch::Permissive => (Some(texts(payloads, &bad)?), Some(errors(rows, &bad))),
            _ => (None, None),
        };
        let keep = (self.mode == OnMismatch::DropMalformed && !bad.is_empty()).then(|| {
            let mut kept = vec![true; rows];
            bad.iter().for_each(|bad| kept[bad.row] = false);
            BooleanArray::from(kept)
        });
        Ok(Decoded { value, corrupt, errors, keep })
    }

    /// Parses every row and returns the malformed ones.
    fn fill(&mut self, payloads: &BinaryArray, leniency: Leniency) -> Result<Vec<Bad>, Bad> {
        let mut bad = Vec::new();
        let mut json = Json::default();
        json.leniency = leniency;
        // A batch that is valid UTF-8 as a whole is split into rows without another check. A row with a split character
        // is `None`.
        let offsets = payloads.value_offsets();
        let (first, last) = (offsets[0] as usize, offsets[payloads.len()] as usize);
        let all = std::str::from_utf8(&payloads.value_data()[first..last]).ok();
        for (row, ends) in offsets.windows(2).enumerate() {
            let text = match all {
                Some(all) => all.get(ends[0] as usize - first..ends[1] as usize - first),
                None => std::str::from_utf8(payloads.value(row)).ok(),
            };
            let length = self.root.len();
            let Some(text) = text else {
                self.malformed(row, &mut bad, || ("".into(), "not UTF-8".into()))?;
                continue;
            };
            json.start(text);
            if leniency.like_spark && json.at == text.len() {
                self.root.append_null();
            } else if parse(&mut self.root, &mut json, text).is_err() {
                self.root.truncate(length);
                let root = self.root.field.clone();
                self.malformed(row, &mut bad, || explain(&json, text, &root))?;
                if leniency.like_spark && self.mode == OnMismatch::Permissive {
                    self.root.truncate(length);
                    self.keep_fitting(&mut json, text);
                }
            }
        }
        Ok(bad)
    }

    /// Reads every payload of a binary format and returns the malformed rows.
    fn fill_from_binary(&mut self, payloads: &BinaryArray) -> Result<Vec<Bad>, Bad> {
        let mut bad = Vec::new();
        for row in 0..payloads.len() {
            let length = self.root.len();
            let read = match &self.payload {
                Payload::Json(_) => break,
                Payload::Avro(reader) => reader.read(payloads.value(row), &mut self.root),
                Payload::Protobuf(message) => protobuf::read(message, payloads.value(row), &mut self.root),
                Payload::Framed(framed) => framed.read(payloads.value(row), &mut self.root),
            };
            if let Err(fault) = read {
                self.root.truncate(length);
                self.malformed(row, &mut bad, || fault)?;
            }
        }
        Ok(bad)
    }

    /// Appends a malformed row with the fields that fit; null if it is not JSON.
    fn keep_fitting<'a>(&mut self, json: &mut Json<'a>, text: &'a str) {
        let length = self.root.len();
        json.start(text);
        json.recovers = true;
        if parse(&mut self.root, json, text).is_err() {
            self.root.truncate(length);
            self.root.append_null();
        }
    }

    fn malformed(
        &mut self,
        row: usize,
        bad: &mut Vec<Bad>,
        explain: impl FnOnce() -> (String, String),
    ) -> Result<(), Bad> {
        let (column, reason) = if self.mode == OnMismatch::DropMalformed { Default::default() } else { explain() };
        let found = Bad { row, column, reason };
        if self.mode == OnMismatch::FailFast {
            return Err(found);
        }
        if self.mode == OnMismatch::Permissive {
            self.root.append_null();
        }
        bad.push(found);
        Ok(())
    }
}

/// Parses a document as a row.
#[inline]
fn parse(root: &mut ColumnDecoder, json: &mut Json<'_>, text: &str) -> Parsed<()> {
    let start = json.at;
    match json.peek() {
        b'{' => root.parse(json)?,
        b'n' => json.skip().and_then(|()| json.fail(Reason::Expected("an object"), start))?,
        0 if text.is_empty() => json.syntax("the text is empty")?,
        _ => root.parse(json)?,
    }
    json.end()
}

/// Returns the column of error texts, null in valid rows.
fn errors(rows: usize, bad: &[Bad]) -> StringArray {
    let mut texts = vec![None; rows];
    for Bad { row, column, reason } in bad {
        texts[*row] = Some(if column.is_empty() { reason.clone() } else { format!("{column}: {reason}") });
    }
    StringArray::from(texts)
}

/// Returns the column of malformed texts, null in valid rows.
fn texts(payloads: &BinaryArray, rows: &[Bad]) -> Result<StringArray, DecodeError> {
    if rows.is_empty() {
        return Ok(StringArray::new_null(payloads.len()));
    }
    let mut valid = vec![false; payloads.len()];
    let mut ends = Vec::with_capacity(payloads.len() + 1);
    ends.push(0);
    let mut data = String::new();
    let mut rows = rows.iter().map(|bad| bad.row).peekable();
    for (row, valid) in valid.iter_mut().enumerate() {
        if rows.next_if_eq(&row).is_some() {
            *valid = true;
            match std::str::from_utf8(payloads.value(row)) {
                Ok(text) => data.push_str(text),
                Err(_) => BASE64_STANDARD.encode_string(payloads.value(row), &mut data),
            }
        }
        let end = i32::try_from(data.len())
            .map_err(|_| DecodeError::Internal("more than 2 GiB of malformed text in one batch".into()))?;
        ends.push(end);
    }
    let nulls = NullBuffer::new(BooleanBuffer::from(valid));
    StringArray::try_new(OffsetBuffer::new(ends.into()), data.into_bytes().into(), Some(nulls))
        .map_err(|e| DecodeError::Internal(e.to_string()))
}

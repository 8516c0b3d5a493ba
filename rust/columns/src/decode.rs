//! JSON payloads into typed Arrow columns: one pass, written straight into the columns.
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
//! | date32 | "YYYY-MM-DD" |
//! | timestamp with zone | ISO 8601 with an offset or Z, without one: UTC; fractions below the unit are cut; an integer counts units since 1970 |
//! | timestamp without zone | the same text without an offset; an integer |
//! | list, struct, map | an array, an object, an object |
//!
//! Strings are never taken for numbers (but for decimals) or numbers for strings. A field that is missing or null becomes
//! null, and is malformed where the schema says not nullable. Other members are checked for syntax and ignored. Of members
//! with the same name the last wins, but each has to be right. Names are compared exactly. A malformed row is also: a
//! document that is not an object, is empty or has text after it, invalid UTF-8, half of a surrogate pair, nesting deeper
//! than 128.

mod column;
mod finish;
mod json;
mod number;
mod object;
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
use json::{Json, JsonStep, Reason};

use base::choice::choose;
use base::error::JetError;

/// Nanoseconds since 1970 of RFC 3339 text.
pub fn nanoseconds(text: &[u8]) -> Option<i64> {
    let moment = number::moment(text)?;
    moment.seconds.checked_mul(1_000_000_000)?.checked_add(moment.nanos)
}

/// What becomes of malformed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMismatch {
    /// Their value is null and their text is kept.
    Permissive,
    /// They are left out.
    DropMalformed,
    /// The first one is an error.
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
    /// A row per payload; with [`OnMismatch::DropMalformed`] per payload that `keep` keeps.
    pub value: StructArray,
    /// Permissive: the text of malformed rows (base64 where it is not UTF-8), null elsewhere.
    pub corrupt: Option<StringArray>,
    /// Permissive: which field of them does not fit, and why.
    pub errors: Option<StringArray>,
    /// DropMalformed, and a row was malformed: which payloads have a row in `value`.
    pub keep: Option<BooleanArray>,
}

/// A malformed row.
#[derive(Debug, PartialEq, Eq)]
pub struct Bad {
    pub row: usize,
    /// The dotted path of the column; empty: the whole document.
    pub column: String,
    pub reason: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum DecodeError {
    Malformed(Bad),
    Internal(String),
}

/// Built once per read.
#[derive(Debug)]
pub struct Decoder {
    root: ColumnDecoder,
    mode: OnMismatch,
}

impl Decoder {
    /// Refuses types that it cannot decode; the text names the column and says which it can.
    pub fn new(fields: &Fields, mode: OnMismatch) -> Result<Decoder, String> {
        let field = Arc::new(Field::new("value", DataType::Struct(fields.clone()), true));
        let mut root = ColumnDecoder::new(&field, "", 0)?;
        // Arrow itself refuses some schemas, when the arrays are made.
        root.finish().map_err(|e| e.to_string())?;
        Ok(Decoder { root, mode })
    }

    /// `value: struct<…>`, nullable in every mode so that the schema does not depend on it.
    pub fn value_field(&self) -> FieldRef {
        self.root.field.clone()
    }

    /// The column of malformed text, where the mode has one.
    pub fn corrupt_field(&self) -> Option<Field> {
        (self.mode == OnMismatch::Permissive).then(|| Field::new("_corrupt_record", DataType::Utf8, true))
    }

    /// The column of what is wrong with them.
    pub fn error_field(&self) -> Option<Field> {
        (self.mode == OnMismatch::Permissive).then(|| Field::new("_error", DataType::Utf8, true))
    }

    pub fn decode(&mut self, payloads: &BinaryArray) -> Result<Decoded, DecodeError> {
        let rows = payloads.len();
        let bad = match self.fill(payloads) {
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

    /// Reads every row; which were malformed.
    fn fill(&mut self, payloads: &BinaryArray) -> Result<Vec<Bad>, Bad> {
        let mut bad = Vec::new();
        let mut json = Json::new();
        self.root.reserve(payloads.len());
        // Text that is UTF-8 as a whole is cut into rows without looking at each again; null where a character is cut in two.
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
            let start = json.at;
            let read = match json.peek() {
                b'{' => self.root.parse(&mut json),
                b'n' => json.skip().and_then(|()| json.fail(Reason::Expected("an object"), start)),
                0 if text.is_empty() => json.syntax("the text is empty"),
                _ => self.root.parse(&mut json),
            };
            if read.and_then(|()| json.end()).is_err() {
                self.root.truncate(length);
                let root = self.root.field.clone();
                self.malformed(row, &mut bad, || explain(&json, text, &root))?;
            }
        }
        Ok(bad)
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

/// The column and the reason in words.
fn explain(json: &Json<'_>, text: &str, root: &FieldRef) -> (String, String) {
    let mut column = String::new();
    for step in json.trace.iter().rev() {
        match step {
            JsonStep::Field(field) if column.is_empty() => column.push_str(field.name()),
            JsonStep::Field(field) => column.extend([".", field.name()]),
            JsonStep::Item(_) => column.push_str("[]"),
            JsonStep::Key(key, _) => column.extend([".", key]),
        }
    }
    let field = match json.trace.first() {
        Some(JsonStep::Field(field) | JsonStep::Item(field) | JsonStep::Key(_, field)) => field,
        None => root,
    };
    let fault = &json.fault;
    let found = text.as_bytes().get(fault.start).and_then(|byte| json::kind(*byte));
    let reason = match (fault.reason, found) {
        (Reason::Syntax(what), _) => format!("not JSON: {what}, at byte {}", fault.start),
        (Reason::Expected(what), Some(found)) => format!("expected {what}, found {found}"),
        (Reason::Expected(_), None) => format!("not JSON: not a value, at byte {}", fault.start),
        (Reason::Null, _) => "null, and the schema says not nullable".into(),
        (Reason::Missing, _) => "missing, and the schema says not nullable".into(),
        // No content: it may be anything.
        (Reason::Unfit, _) if field.data_type().is_binary() => "not standard base64".into(),
        (Reason::Unfit, _) => {
            let value = text.get(fault.start..fault.end).unwrap_or_default();
            let short: String = value.chars().take(40).collect();
            let dots = if short.len() < value.len() { "…" } else { "" };
            let hint = match field.data_type() {
                DataType::Timestamp(_, None) => " (a column without a zone takes text without an offset)",
                _ => "",
            };
            format!("{short}{dots} does not fit {}{hint}", field.data_type())
        }
    };
    (column, reason)
}

/// What is wrong with some rows, null in the others.
fn errors(rows: usize, bad: &[Bad]) -> StringArray {
    let mut texts = vec![None; rows];
    for Bad { row, column, reason } in bad {
        texts[*row] = Some(if column.is_empty() { reason.clone() } else { format!("{column}: {reason}") });
    }
    StringArray::from(texts)
}

/// The text of some rows, null in the others.
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

//! Defaults of fields, as data.

use serde_json::Value;

use super::schema::{AvroSchema, Kind};
use crate::varint;

/// Appends the datum of a default in JSON. A union's default is of any branch (specification 1.12).
pub fn datum(schema: &AvroSchema, json: &Value, out: &mut Vec<u8>) -> Result<(), String> {
    let wrong = || Err(format!("{json} is not {}", schema.title()));
    match (&schema.kind, json) {
        (Kind::Null, Value::Null) => {}
        (Kind::Boolean, Value::Bool(value)) => out.push(u8::from(*value)),
        (Kind::Int, Value::Number(number)) if number.as_i64().is_some_and(|value| i32::try_from(value).is_ok()) => {
            varint(number.as_i64().unwrap_or_default(), out);
        }
        (Kind::Long, Value::Number(number)) if number.is_i64() => varint(number.as_i64().unwrap_or_default(), out),
        (Kind::Float, _) if let Some(value) = float(json) => out.extend((value as f32).to_le_bytes()),
        (Kind::Double, _) if let Some(value) = float(json) => out.extend(value.to_le_bytes()),
        (Kind::String, Value::String(text)) => bytes(text.as_bytes(), out),
        // Each character is one byte.
        (Kind::Bytes, Value::String(text)) => match latin1(text) {
            Some(value) => bytes(&value, out),
            None => return wrong(),
        },
        (Kind::Fixed(size), Value::String(text)) => match latin1(text).filter(|value| value.len() == *size) {
            Some(value) => out.extend(value),
            None => return wrong(),
        },
        (Kind::Enum(symbols, _), Value::String(text)) => match symbols.iter().position(|symbol| symbol == text) {
            Some(place) => varint(place as i64, out),
            None => return wrong(),
        },
        (Kind::Array(items), Value::Array(values)) => {
            block(values.len(), out, |out| values.iter().try_for_each(|value| datum(items, value, out)))?;
        }
        (Kind::Map(inner), Value::Object(entries)) => block(entries.len(), out, |out| {
            entries.iter().try_for_each(|(key, value)| {
                bytes(key.as_bytes(), out);
                datum(inner, value, out)
            })
        })?,
        (Kind::Record(fields), Value::Object(values)) => {
            for field in fields {
                match values.get(&field.name).or(field.default.as_ref()) {
                    Some(value) => datum(&field.schema, value, out)?,
                    None => return Err(format!("{json} has no {}", field.name)),
                }
            }
        }
        (Kind::Union(branches), _) => {
            for (place, branch) in branches.iter().enumerate() {
                let start = out.len();
                varint(place as i64, out);
                if datum(branch, json, out).is_ok() {
                    return Ok(());
                }
                out.truncate(start);
            }
            return wrong();
        }
        _ => return wrong(),
    }
    Ok(())
}

fn block(
    count: usize,
    out: &mut Vec<u8>,
    items: impl FnOnce(&mut Vec<u8>) -> Result<(), String>,
) -> Result<(), String> {
    if count > 0 {
        varint(count as i64, out);
        items(out)?;
    }
    out.push(0);
    Ok(())
}

fn float(json: &Value) -> Option<f64> {
    match json {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" | "INF" => Some(f64::INFINITY),
            "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect()
}

/// Appends a length and the bytes.
pub fn bytes(value: &[u8], out: &mut Vec<u8>) {
    varint(value.len() as i64, out);
    out.extend_from_slice(value);
}

/// Appends an int or a long: zigzag, seven bits a byte.
pub fn varint(value: i64, out: &mut Vec<u8>) {
    varint::write(varint::zigzag(value), out);
}

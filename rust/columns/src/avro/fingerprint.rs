//! Parsing Canonical Form of a schema and its CRC-64-AVRO (Rabin) fingerprint, which single-object encoding has.

use super::schema::{AvroSchema, Kind};

const EMPTY: u64 = 0xc15d_213a_a4d7_a795;

/// Returns the fingerprint.
pub fn fingerprint(schema: &AvroSchema) -> u64 {
    let mut text = String::new();
    canonical(schema, &mut Vec::new(), &mut text);
    text.bytes().fold(EMPTY, |print, byte| (print >> 8) ^ entry((print ^ u64::from(byte)) & 0xff))
}

fn entry(index: u64) -> u64 {
    (0..8).fold(index, |print, _| (print >> 1) ^ (EMPTY & (print & 1).wrapping_neg()))
}

/// Writes the canonical form. A named type is written in full at its first use.
fn canonical(schema: &AvroSchema, defined: &mut Vec<String>, out: &mut String) {
    let comma = |at: usize, out: &mut String| {
        if at > 0 {
            out.push(',');
        }
    };
    let quoted = |text: &str, out: &mut String| out.push_str(&serde_json::Value::from(text).to_string());
    if !schema.name.is_empty() {
        if defined.contains(&schema.name) {
            return quoted(&schema.name, out);
        }
        defined.push(schema.name.clone());
        out.push_str("{\"name\":");
        quoted(&schema.name, out);
    }
    match &schema.kind {
        Kind::Fixed(size) => out.push_str(&format!(",\"type\":\"fixed\",\"size\":{size}}}")),
        Kind::Enum(symbols, _) => {
            out.push_str(",\"type\":\"enum\",\"symbols\":[");
            for (at, symbol) in symbols.iter().enumerate() {
                comma(at, out);
                quoted(symbol, out);
            }
            out.push_str("]}");
        }
        Kind::Record(fields) => {
            out.push_str(",\"type\":\"record\",\"fields\":[");
            for (at, field) in fields.iter().enumerate() {
                comma(at, out);
                out.push_str("{\"name\":");
                quoted(&field.name, out);
                out.push_str(",\"type\":");
                canonical(&field.schema, defined, out);
                out.push('}');
            }
            out.push_str("]}");
        }
        Kind::Array(items) => {
            out.push_str("{\"type\":\"array\",\"items\":");
            canonical(items, defined, out);
            out.push('}');
        }
        Kind::Map(values) => {
            out.push_str("{\"type\":\"map\",\"values\":");
            canonical(values, defined, out);
            out.push('}');
        }
        Kind::Union(branches) => {
            out.push('[');
            for (at, branch) in branches.iter().enumerate() {
                comma(at, out);
                canonical(branch, defined, out);
            }
            out.push(']');
        }
        _ => quoted(schema.title(), out),
    }
}

//! Column of headers: by name, with the values of each in order of arrival.

use arrow_array::builder::{ListBuilder, MapBuilder, MapFieldNames, StringBuilder};
use arrow_schema::ArrowError;

use base::error::{JetError, Result};
use wire::headers::{Lines, text};

pub type HeadersBuilder = MapBuilder<StringBuilder, ListBuilder<StringBuilder>>;

pub fn builder() -> HeadersBuilder {
    let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    MapBuilder::new(Some(names), StringBuilder::new(), ListBuilder::new(StringBuilder::new()))
}

/// Appends a message's headers, sorted by name, so that repeated reads return equal rows. Null without headers.
pub fn push(builder: &mut HeadersBuilder, raw: &[u8]) -> Result<()> {
    let broken = |e: ArrowError| JetError::Internal(e.to_string());
    if raw.is_empty() {
        return builder.append(false).map_err(broken);
    }
    let text = text(raw);
    let mut lines: Vec<_> = Lines::of(&text).collect();
    lines.sort_by(|(one, _), (other, _)| one.cmp(other));
    for values in lines.chunk_by(|(one, _), (other, _)| one == other) {
        builder.keys().append_value(&values[0].0);
        values.iter().for_each(|(_, value)| builder.values().values().append_value(value));
        builder.values().append(true);
    }
    builder.append(!lines.is_empty()).map_err(broken)
}

//! Column of headers: by name, with the values of each in order of arrival.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{ArrayBuilder, BinaryBuilder, ListBuilder, MapBuilder, MapFieldNames, StringBuilder};
use arrow_schema::ArrowError;

use base::error::{JetError, Result};
use wire::headers::{Lines, text, value_text};

/// Name and value of a header.
type HeaderLine<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);
type Lists<V> = MapBuilder<StringBuilder, ListBuilder<V>>;

pub enum HeadersBuilder {
    Text(Lists<StringBuilder>),
    Binary(Lists<BinaryBuilder>),
}

impl HeadersBuilder {
    /// Creates a builder of values as text, or as their bytes.
    pub fn new(binary: bool) -> Self {
        match binary {
            true => HeadersBuilder::Binary(lists(BinaryBuilder::new())),
            false => HeadersBuilder::Text(lists(StringBuilder::new())),
        }
    }

    /// Appends a message's headers, sorted by name, so that repeated reads return equal rows. Null without headers.
    pub fn push(&mut self, raw: &[u8]) -> Result<()> {
        let mut lines: Vec<_> = Lines::of(raw).collect();
        lines.sort_by(|(one, _), (other, _)| one.cmp(other));
        let pushed = match self {
            HeadersBuilder::Text(builder) => push(builder, &lines, |to, value| to.append_value(value_text(value))),
            HeadersBuilder::Binary(builder) => push(builder, &lines, |to, value| to.append_value(value)),
        };
        pushed.map_err(|e| JetError::Internal(e.to_string()))
    }

    /// Returns the rows so far.
    pub fn finish(&mut self) -> ArrayRef {
        match self {
            HeadersBuilder::Text(builder) => Arc::new(builder.finish()),
            HeadersBuilder::Binary(builder) => Arc::new(builder.finish()),
        }
    }
}

fn lists<V: ArrayBuilder>(values: V) -> Lists<V> {
    let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    MapBuilder::new(Some(names), StringBuilder::new(), ListBuilder::new(values))
}

fn push<V: ArrayBuilder>(
    builder: &mut Lists<V>,
    lines: &[HeaderLine<'_>],
    append: impl Fn(&mut V, &[u8]),
) -> std::result::Result<(), ArrowError> {
    for values in lines.chunk_by(|(one, _), (other, _)| one == other) {
        builder.keys().append_value(text(&values[0].0));
        values.iter().for_each(|(_, value)| append(builder.values().values(), value));
        builder.values().append(true);
    }
    builder.append(!lines.is_empty())
}

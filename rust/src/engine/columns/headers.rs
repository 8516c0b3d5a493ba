//! The column of headers: by name, the values of each in the order in which they came.

use arrow_array::builder::{ListBuilder, MapBuilder, MapFieldNames, StringBuilder};
use async_nats::HeaderMap;

use crate::engine::columns::raw_headers::RawHeaders;
use crate::error::{JetError, Result};

pub type HeadersBuilder = MapBuilder<StringBuilder, ListBuilder<StringBuilder>>;

pub fn builder() -> HeadersBuilder {
    let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    MapBuilder::new(Some(names), StringBuilder::new(), ListBuilder::new(StringBuilder::new()))
}

/// Sorted by name: the same message gives the same row each time it is read.
pub fn push(builder: &mut HeadersBuilder, headers: Option<&HeaderMap>) -> Result<()> {
    let broken = |e: arrow_schema::ArrowError| JetError::Internal(e.to_string());
    let Some(headers) = headers.filter(|h| !h.is_empty()) else {
        return builder.append(false).map_err(broken);
    };
    let mut sorted: Vec<(&str, &Vec<async_nats::HeaderValue>)> = headers.iter().map(|(n, v)| (n.as_ref(), v)).collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    for (name, values) in sorted {
        builder.keys().append_value(name);
        for value in values {
            builder.values().values().append_value(value.as_str());
        }
        builder.values().append(true);
    }
    builder.append(true).map_err(broken)
}

pub fn push_raw(builder: &mut HeadersBuilder, headers: &RawHeaders) -> Result<()> {
    for (name, values) in headers {
        builder.keys().append_value(name);
        for value in values {
            builder.values().values().append_value(value);
        }
        builder.values().append(true);
    }
    builder.append(!headers.is_empty()).map_err(|e| JetError::Internal(e.to_string()))
}

//! Arrow columns: buffers that are filled in place, decoders of JSON and Arrow payloads, the JSON encoder of columns,
//! and decompression.
//!
//! Uses `base` only, and has no NATS types. Begin at [`decode`] for payloads that become columns, and at [`encode`] for
//! columns that become payloads.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod avro;
pub mod batch;
pub mod binary;
pub mod bytes;
pub mod column_buffer;
pub mod decode;
pub mod decompress;
pub mod encode;
pub mod framed;
pub mod protobuf;
pub mod unpack;
pub mod varint;

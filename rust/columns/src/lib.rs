//! Arrow buffers that are filled in place, JSON and Arrow decoding of payloads, JSON encoding of columns, decompression.
//!
//! May use `base`; knows no NATS. Begin at [`decode`] for payloads that become columns, and at [`encode`] for columns that
//! become payloads.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod batch;
pub mod bytes;
pub mod column_buffer;
pub mod decode;
pub mod decompress;
pub mod encode;
pub mod unpack;

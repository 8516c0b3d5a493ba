//! Messages as Arrow columns.

pub mod batch;
pub mod builder;
pub mod bytes;
pub mod column;
pub mod decode;
pub mod decompress;
pub mod encode;
mod headers_column;
pub mod meta;
pub mod room;
pub mod typed;
pub mod unpack;

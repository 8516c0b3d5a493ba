//! Messages as Arrow columns.

pub mod builder;
pub mod decode;
pub mod typed;

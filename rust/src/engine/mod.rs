//! The hot path. Knows NATS and Arrow, and no Python.

pub mod api;
mod choice;
pub mod columns;
pub mod connection;
pub mod headers;
pub mod key;
pub mod message;
mod numbers;
pub mod publish;
pub mod receive;
pub mod subject;
pub mod unique;

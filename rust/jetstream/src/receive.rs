//! Receiving messages: pull, fetch, read and subscribe, and acknowledging them.

pub mod ack;
pub mod batch_builder;
pub mod column;
pub mod fetch;
mod headers_column;
pub mod limits;
pub mod marker;
pub mod message;
mod prefetch;
pub mod priority;
pub mod pull;
pub mod read;
mod request_size;
pub mod rollback;
pub mod subscribe;
pub mod typed;

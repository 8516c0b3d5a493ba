//! The hot path. Knows NATS and Arrow, and no Python.

pub mod ack;
pub mod atomic;
pub mod columns;
pub mod connect;
pub mod content_ids;
pub mod decode;
pub mod fast;
pub mod fetch;
pub mod inflight;
pub mod outbox;
pub mod outcome;
pub mod puback;
pub mod publish;
pub mod publisher;
pub mod pull;
pub mod read;
pub mod request;
pub mod rows;
pub mod subject;
pub mod subscribe;
pub mod typed;
pub mod window;

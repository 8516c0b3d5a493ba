//! JetStream: publishing with acknowledgements, and receiving into messages or Arrow record batches.
//!
//! May use `client`, `columns`, `registry`, `runtime`, `wire` and `base`; uses no Python. Begin at [`publish::window`] for a batch
//! of rows under an in-flight window, and at [`receive::fetch`] for messages of a consumer.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod api;
pub mod publish;
#[cfg(test)]
mod random;
pub mod receive;

//! Schema registries with Confluent's REST interface: the schemas of ids in payloads, and ids of schemas.
//!
//! May use `client` (for TLS), `columns` and `base`. Begin at [`Registry`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod answers;
mod http;
mod references;
mod registry;

pub use http::Credentials;
pub use registry::{Format, NativeSchema, Options, Registry};

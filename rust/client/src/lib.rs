//! The connection to a NATS server: connecting, reconnecting, the outbox, core messages, requests, TLS and WebSocket.
//!
//! May use `runtime`, `wire` and `base`; knows no JetStream. Begin at [`connect`] and [`transport`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod auth;
pub mod congestion;
pub mod connect;
pub mod fault;
pub mod gate;
pub mod hub;
mod link;
mod movement;
mod options;
pub mod outbox;
pub mod path;
pub mod pool;
mod reconnect;
pub mod refusals;
pub mod request;
pub mod tls;
pub mod traffic;
pub mod transport;
mod turn;
pub mod underway;

pub use connect::{Connection, connect};
pub use link::Link;
pub use options::Options;
pub use traffic::{Latency, Verb};

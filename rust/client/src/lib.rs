//! The connection to a NATS server: connecting, reconnecting, the outbox, core messages, requests, TLS and WebSocket.
//!
//! May use `runtime`, `wire` and `base`; uses no JetStream. Begin at [`connect`] and [`transport`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod auth;
mod close;
pub mod congestion;
pub mod connect;
pub mod connection_state;
pub mod disconnect_reason;
mod lame_duck;
mod options;
pub mod outbox;
pub mod path_estimate;
pub mod pool;
pub mod pull_budget;
mod reconnect;
pub mod refusals;
pub mod request;
mod round_trip;
mod stall;
pub mod tls;
pub mod traffic;
pub mod transport;

pub use connect::{Connection, connect};
pub use connection_state::link::Link;
pub use options::Options;
pub use traffic::{Latency, Verb};

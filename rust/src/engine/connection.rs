//! The connection to the server: opened, watched and closed, and what passes through it one by one: core messages and
//! requests.

pub mod auth;
pub mod client;
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
pub mod token;
pub mod traffic;
mod turn;
pub mod underway;

pub use connect::{Connection, connect};
pub use link::Link;
pub use options::Options;
pub use traffic::{Latency, Verb};

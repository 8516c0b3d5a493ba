//! The connection to the server: opened, watched and closed, and what passes through it one by one: core messages and
//! requests.
//!
//! Everything that leans on how async-nats works inside is in here, each with what is missing upstream, how we get it
//! and which test holds it in place: `tap` (its log lines), `ping` (a PING of our own), `reconnect` (the end of its
//! task), `withdraw` (the end of the server's side of a subscription), `wire` (how much it holds), `hub/unread` (how
//! much it gathers).

pub mod auth;
pub mod congestion;
pub mod connect;
mod fault;
pub mod gate;
pub mod hub;
mod info;
mod link;
mod movement;
mod options;
pub mod outbox;
pub mod path;
mod ping;
pub mod pool;
mod reconnect;
pub mod refusals;
pub mod request;
pub mod tap;
pub mod tls;
pub mod token;
pub mod traffic;
mod turn;
pub mod wire;
pub mod withdraw;

pub use connect::{Connection, connect};
pub use link::Link;
pub use options::Options;
pub use traffic::{Latency, Verb};

//! The connection to the server: opened, watched and closed, and what passes through it one by one: core messages and
//! requests. Whatever leans on how async-nats works inside is in here.

pub mod auth;
mod connect;
mod fault;
pub mod hub;
mod options;
pub mod outbox;
pub mod ping;
pub mod pool;
mod reconnect;
pub mod refusals;
pub mod request;
mod tap;
pub mod tls;

pub use connect::{Connection, Traffic, connect};
pub use hub::Link;
pub use options::Options;

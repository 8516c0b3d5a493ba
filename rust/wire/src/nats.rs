//! Types of async-nats that other crates use. Other crates import them from here only.

pub use async_nats::message::OutboundMessage;
pub use async_nats::{
    Auth, ConnectInfo, HeaderMap, HeaderName, HeaderValue, Protocol, ServerAddr, ServerInfo, Statistics, Subject,
    header,
};

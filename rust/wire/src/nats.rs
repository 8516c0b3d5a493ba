//! The types of async-nats that the engine uses: the one place that names it.

pub use async_nats::message::OutboundMessage;
pub use async_nats::{
    Auth, ConnectInfo, HeaderMap, HeaderName, HeaderValue, Protocol, ServerAddr, ServerInfo, Statistics, Subject,
    header,
};

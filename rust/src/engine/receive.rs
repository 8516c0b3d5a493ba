//! Messages on their way in: pulled, fetched, read or subscribed to, and acknowledged.

pub mod ack;
mod demand;
pub mod fetch;
pub mod limits;
pub mod marker;
pub mod message;
pub mod priority;
pub mod pull;
pub mod read;
pub mod rollback;
pub mod subscribe;

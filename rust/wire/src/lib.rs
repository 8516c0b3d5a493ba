//! The NATS protocol as bytes: frames, parser, headers, subjects, ack subjects, inboxes, tokens, message and server
//! types. No I/O and no runtime: bytes in, messages out.
//!
//! Uses `base` only. It is the only crate that depends on async-nats, whose types [`nats`] re-exports. Begin at
//! [`parser`] for what a server sends, and at [`frames`] for what a client sends.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod ack_subject;
pub mod arena;
pub mod frame_buffer;
pub mod frames;
pub mod headers;
pub mod key;
pub mod message;
pub mod nats;
pub mod parser;
pub mod size;
pub mod subject;
pub mod token;
pub mod unique;

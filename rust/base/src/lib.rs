//! The base of all crates: the error type, locks that survive a panic, panics as errors, and closed sets of words.
//!
//! Uses no other crate of this workspace. Begin at [`error`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod choice;
pub mod error;
pub mod lock;
pub mod panics;

//! What every other crate of the engine uses: the one error type, locks that outlive a panic, panics as errors, and closed
//! sets of words.
//!
//! May use nothing of ours. Begin at [`error`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod choice;
pub mod error;
pub mod lock;
pub mod panics;

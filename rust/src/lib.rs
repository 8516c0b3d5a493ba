//! jetarrow: NATS JetStream for Python with a native core.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

#[cfg(feature = "python")]
mod bridge;
pub mod engine;
pub mod error;
#[cfg(any(feature = "python", test))]
mod finalization;
#[cfg(any(feature = "python", test))]
mod foreign;
mod lock;
#[cfg(feature = "python")]
mod py;
#[cfg(feature = "python")]
mod python_names;
pub mod runtime;
pub mod task;

#[cfg(feature = "python")]
pub use py::_jetarrow;

#[cfg(feature = "python")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

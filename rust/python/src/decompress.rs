//! Decompression of batches.

use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::batch::Batch;
use crate::error::PyResult;
use base::lock::lock;
use columns::decompress::{self as engine, Codec, Problem};

/// Decompresses the payloads of batches, see [`columns::decompress`].
#[pyclass(frozen, module = "jetarrow._jetarrow")]
pub struct Decompressor {
    inner: Mutex<engine::Decompressor>,
    most_batch: usize,
}

#[pymethods]
impl Decompressor {
    #[new]
    #[pyo3(signature = (codec, *, max_payload_bytes, batch_bytes))]
    fn new(codec: &str, max_payload_bytes: usize, batch_bytes: usize) -> PyResult<Self> {
        let codec = match codec {
            "zlib" => Codec::Zlib,
            "zstd" => Codec::Zstd,
            _ => return Err(PyValueError::new_err(format!("codec must be zlib or zstd, not {codec:?}")).into()),
        };
        Ok(Decompressor {
            inner: Mutex::new(engine::Decompressor::new(codec, max_payload_bytes)),
            most_batch: batch_bytes,
        })
    }

    /// Returns the rows from `start` until a batch is full, and the rows that stayed compressed.
    ///
    /// Each of the latter is its index in the batch, and whether its payload is too large.
    fn rows(&self, py: Python<'_>, batch: &Batch, start: usize) -> PyResult<(Batch, Vec<(usize, bool)>)> {
        let found = py.detach(|| lock(&self.inner).rows(&batch.inner, start, self.most_batch));
        let found = found.map_err(|err| PyValueError::new_err(err.to_string()))?;
        let failed = found.failed.into_iter().map(|(row, problem)| (row, problem == Problem::TooLarge));
        Ok((Batch { inner: found.batch }, failed.collect()))
    }
}

//! Decompression of payloads, with a limit for each, because a few bytes can expand to gigabytes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef, BinaryArray, RecordBatch};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::ArrowError;
use flate2::{Decompress, FlushDecompress, Status};
use zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective};

use super::batch::Batch;

/// Maximum bytes of a payload. A batch ends with the payload that fills it, and an Arrow binary array has 31-bit
/// offsets.
const MAX_DECOMPRESSED_BYTES: usize = 1 << 29;
/// Initial free bytes of the output.
const MIN_FREE_BYTES: usize = 1 << 10;

/// Compression of payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// With a zlib or a gzip header.
    Zlib,
    Zstd,
}

/// Reason why a payload stays compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    Malformed,
    TooLarge,
}

/// Rows of a batch, decompressed.
pub struct Decompressed {
    pub batch: Batch,
    /// Rows whose payload stayed compressed, counted from the first of these rows.
    pub failed: Vec<(usize, Problem)>,
}

/// Decompresses payloads one after another, and reuses the memory of the decoder.
pub struct Decompressor {
    most: usize,
    kind: Compression,
}

enum Compression {
    Zlib(Decompress),
    Zstd(DCtx<'static>),
}

impl Decompressor {
    /// `most` is the maximum number of bytes of one payload.
    pub fn new(codec: Codec, most: usize) -> Self {
        let kind = match codec {
            Codec::Zlib => Compression::Zlib(Decompress::new(true)),
            Codec::Zstd => Compression::Zstd(DCtx::create()),
        };
        Decompressor { most: most.min(MAX_DECOMPRESSED_BYTES), kind }
    }

    /// Decompresses the rows from `start` until their payloads exceed `most_bytes`, at least one row.
    pub fn rows(&mut self, batch: &Batch, start: usize, most_bytes: usize) -> Result<Decompressed, ArrowError> {
        let at = batch.record.schema_ref().index_of("data")?;
        let wrong = || ArrowError::InvalidArgumentError("the payloads are not binary".into());
        let data: &BinaryArray = batch.record.column(at).as_binary_opt().ok_or_else(wrong)?;
        let (mut values, mut lengths, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        let start = start.min(data.len());
        let mut row = start;
        while row < data.len() && (row == start || values.len() < most_bytes.min(MAX_DECOMPRESSED_BYTES)) {
            let before = values.len();
            if let Err(problem) = self.append(data.value(row), &mut values) {
                values.truncate(before);
                values.extend_from_slice(data.value(row));
                failed.push((row - start, problem));
            }
            lengths.push(values.len() - before);
            row += 1;
        }
        let rows = batch.slice(start, row - start);
        let payloads = BinaryArray::try_new(OffsetBuffer::from_lengths(lengths), Buffer::from_vec(values), None)?;
        let mut columns = rows.record.columns().to_vec();
        columns[at] = Arc::new(payloads) as ArrayRef;
        let record = RecordBatch::try_new(rows.record.schema(), columns)?;
        Ok(Decompressed { batch: Batch { record, ..rows }, failed })
    }

    /// Appends the decompressed payload. After an error the appended bytes are undefined.
    fn append(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
        let most = out.len() + self.most;
        match &mut self.kind {
            Compression::Zlib(_) if is_gzip(payload) => gunzip(payload, out, most),
            Compression::Zlib(state) => {
                state.reset(true);
                inflate(state, payload, out, most).map(drop)
            }
            Compression::Zstd(context) => {
                let done = unzstd(context, payload, out, most);
                if done.is_err() {
                    // Otherwise the next payload would continue this one.
                    let _ = context.reset(ResetDirective::SessionOnly);
                }
                done
            }
        }
    }
}

fn is_gzip(payload: &[u8]) -> bool {
    payload.starts_with(&[0x1f, 0x8b])
}

/// Decompresses a gzip file, which can have several members.
fn gunzip(mut payload: &[u8], out: &mut Vec<u8>, most: usize) -> Result<(), Problem> {
    while is_gzip(payload) {
        payload = &payload[inflate(&mut Decompress::new_gzip(15), payload, out, most)?..];
    }
    Ok(())
}

/// Returns the bytes of `payload` up to the end of the compressed data.
fn inflate(state: &mut Decompress, payload: &[u8], out: &mut Vec<u8>, most: usize) -> Result<usize, Problem> {
    let begin = out.len();
    loop {
        reserve(out, begin, payload.len(), most);
        let (read, written) = (state.total_in() as usize, out.len());
        let rest = payload.get(read..).unwrap_or_default();
        let status = state.decompress_vec(rest, out, FlushDecompress::None).map_err(|_| Problem::Malformed)?;
        if out.len() > most {
            return Err(Problem::TooLarge);
        }
        let read_now = state.total_in() as usize;
        match status {
            Status::StreamEnd => return Ok(read_now),
            // Truncated, or it requires a dictionary.
            _ if read_now == read && out.len() == written => return Err(Problem::Malformed),
            _ => {}
        }
    }
}

fn unzstd(context: &mut DCtx<'_>, payload: &[u8], out: &mut Vec<u8>, most: usize) -> Result<(), Problem> {
    let begin = out.len();
    let mut input = InBuffer::around(payload);
    loop {
        reserve(out, begin, payload.len(), most);
        let written = out.len();
        let mut output = OutBuffer::around_pos(out, written);
        let read = input.pos();
        let missing = context.decompress_stream(&mut output, &mut input).map_err(|_| Problem::Malformed)?;
        if out.len() > most {
            return Err(Problem::TooLarge);
        }
        let at_end = input.pos() == payload.len();
        match missing {
            // A frame is complete, and another one can follow.
            0 if at_end => return Ok(()),
            _ if at_end && input.pos() == read && out.len() == written => return Err(Problem::Malformed),
            _ => {}
        }
    }
}

/// Reserves output memory, at most one byte above the limit. That byte shows that the limit is exceeded.
fn reserve(out: &mut Vec<u8>, begin: usize, compressed: usize, most: usize) {
    if out.capacity() == out.len() {
        let grown = (out.len() - begin).max(compressed.saturating_mul(4)).max(MIN_FREE_BYTES);
        out.reserve(grown.min(most + 1 - out.len()));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).and_then(|()| encoder.finish()).unwrap_or_default()
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).and_then(|()| encoder.finish()).unwrap_or_default()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(zstd_safe::compress_bound(text.len()));
        zstd_safe::compress(&mut out, text, 1).map(|_| out).unwrap_or_default()
    }

    type Compress = fn(&[u8]) -> Vec<u8>;
    const CODECS: [(Codec, Compress); 3] = [(Codec::Zlib, zlib), (Codec::Zlib, gzip), (Codec::Zstd, zstd)];

    fn decoded(decoder: &mut Decompressor, payload: &[u8]) -> Result<Vec<u8>, Problem> {
        let mut out = b"before".to_vec();
        decoder.append(payload, &mut out).map(|()| out[6..].to_vec())
    }

    #[test]
    fn compressed_payload_is_decompressed() {
        for (codec, compress) in CODECS {
            let mut decoder = Decompressor::new(codec, 1 << 20);
            for size in [0, 1, 1000, 5000, 1 << 20] {
                let text: Vec<u8> = (0..size).map(|i: usize| (i * i % 251) as u8).collect();
                assert_eq!(decoded(&mut decoder, &compress(&text)), Ok(text), "{codec:?} {size}");
            }
            let two = [compress(b"one"), compress(b"two")].concat();
            // Frames and members can follow each other. After zlib data any bytes can follow.
            let expected: &[u8] = if two.starts_with(&[0x78]) { b"one" } else { b"onetwo" };
            assert_eq!(decoded(&mut decoder, &two).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn decompression_bomb_is_rejected_at_the_limit() {
        for (codec, compress) in CODECS {
            let mut decoder = Decompressor::new(codec, 1000);
            let bomb = compress(&vec![0; 5 << 20]);
            let mut out = Vec::new();
            assert_eq!(decoder.append(&bomb, &mut out), Err(Problem::TooLarge));
            // The capacity is bounded by the limit, not by the compressed bytes.
            assert!(out.capacity() <= 8 * 1000 + 2 * MIN_FREE_BYTES, "{}", out.capacity());
            assert_eq!(decoded(&mut decoder, &compress(&[1; 1001])), Err(Problem::TooLarge));
            assert_eq!(decoded(&mut decoder, &compress(&[1; 1000])), Ok(vec![1; 1000]));
        }
    }

    #[test]
    fn uncompressed_or_truncated_payload_is_malformed() {
        for (codec, compress) in CODECS {
            let mut decoder = Decompressor::new(codec, 1000);
            let whole = compress(b"some text that is long enough to be cut");
            for payload in [&b""[..], b"not compressed", &whole[..whole.len() / 2], &whole[..whole.len() - 1]] {
                assert_eq!(decoded(&mut decoder, payload), Err(Problem::Malformed), "{codec:?} {payload:?}");
                assert!(decoded(&mut decoder, &whole).is_ok());
            }
        }
    }
}

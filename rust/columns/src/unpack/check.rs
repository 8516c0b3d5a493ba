//! Validation of the lengths in an Arrow stream before it is decoded.

use std::io::{Read, copy, sink};

use arrow_ipc::{CompressionType, RecordBatch as Header, root_as_message};

/// Maximum bytes and rows that one payload can expand to.
const MAX_TABLE_BYTES: usize = 1 << 29;
const MAX_TABLE_ROWS: i64 = 1 << 24;
/// Maximum compression ratio of LZ4.
const LZ4_RATIO: usize = 255;
/// Validates the messages of a stream; an error if one exceeds the limits.
pub fn check(payload: &[u8]) -> std::result::Result<(), String> {
    let cut = || "the Arrow stream is cut off".to_owned();
    let (mut rest, mut bytes, mut rows) = (payload, 0_usize, 0_i64);
    if !payload.starts_with(&[0xff; 4]) {
        return Err("not an Arrow stream".into());
    }
    while !rest.is_empty() {
        let (length, tail) = rest.split_at_checked(8).ok_or_else(cut)?;
        let length = length[4..].try_into().map_or(0, u32::from_le_bytes) as usize;
        if length == 0 {
            return if tail.is_empty() { Ok(()) } else { Err("more follows the end of the Arrow stream".into()) };
        }
        let (head, tail) = tail.split_at_checked(length).ok_or_else(cut)?;
        let message = root_as_message(head).map_err(|err| format!("not an Arrow stream: {err}"))?;
        let (body, tail) = usize::try_from(message.bodyLength())
            .ok()
            .and_then(|length| tail.split_at_checked(length))
            .ok_or_else(cut)?;
        rest = tail;
        let dictionary = message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
        if let Some(batch) = message.header_as_record_batch().or(dictionary) {
            rows += batch.length().max(0);
            bytes = bytes.saturating_add(size(&batch, body).ok_or("the Arrow stream is wrong about its lengths")?);
        }
        if bytes > MAX_TABLE_BYTES || rows > MAX_TABLE_ROWS {
            return Err(format!("more than {MAX_TABLE_ROWS} rows or {MAX_TABLE_BYTES} bytes in one message"));
        }
    }
    Ok(())
}

/// Returns the bytes of a decoded batch; `None` if its lengths are impossible.
fn size(batch: &Header<'_>, body: &[u8]) -> Option<usize> {
    let length = batch.length();
    let nodes = batch.nodes().into_iter().flatten();
    if !(0..=MAX_TABLE_ROWS).contains(&length)
        || nodes
            .into_iter()
            .any(|node| !(0..=MAX_TABLE_BYTES as i64).contains(&node.length()) || node.null_count() > node.length())
    {
        return None;
    }
    let codec = batch.compression().map(|compression| compression.codec());
    let mut sum = 0_usize;
    for buffer in batch.buffers().into_iter().flatten() {
        let (start, length) = (usize::try_from(buffer.offset()).ok()?, usize::try_from(buffer.length()).ok()?);
        let bytes = body.get(start..start.checked_add(length)?)?;
        sum = sum.saturating_add(match (codec, bytes.split_first_chunk::<8>()) {
            (None, _) | (Some(_), None) => length,
            (Some(codec), Some((said, rest))) => match i64::from_le_bytes(*said) {
                -1 => rest.len(),
                said => {
                    let said = usize::try_from(said).ok().filter(|said| *said <= MAX_TABLE_BYTES)?;
                    if codec == CompressionType::LZ4_FRAME { lz4_has(rest, said).then_some(said)? } else { said }
                }
            },
        });
    }
    Some(sum)
}

/// True if the output has the declared length, or cannot exceed the limit. The decoder expands LZ4 to its end and
/// ignores the declared length, so output that can exceed the limit is counted first.
fn lz4_has(compressed: &[u8], said: usize) -> bool {
    compressed.len().saturating_mul(LZ4_RATIO) <= MAX_TABLE_BYTES
        || copy(&mut lz4_flex::frame::FrameDecoder::new(compressed).take(said as u64 + 1), &mut sink())
            .is_ok_and(|found| found == said as u64)
}

//! Sizes of messages on the wire, and their check against `max_payload`.

use async_nats::message::OutboundMessage;
use async_nats::{HeaderMap, HeaderName, HeaderValue};

use base::error::{About, JetError, Result};

/// Returns the bytes of one header line.
pub fn header_line(name: &str, value: &str) -> usize {
    name.len() + value.len() + ": \r\n".len()
}

/// Returns the bytes of all header lines.
pub fn header_lines(headers: &HeaderMap) -> usize {
    let line = |name: &HeaderName, value: &HeaderValue| header_line(name.as_ref(), value.as_str());
    headers.iter().flat_map(|(name, values)| values.iter().map(move |value| line(name, value))).sum()
}

/// Returns the bytes of a header block whose lines have this number of bytes.
pub fn header_block(lines: usize) -> usize {
    if lines == 0 { 0 } else { lines + "NATS/1.0\r\n\r\n".len() }
}

/// Returns the bytes of a header block. The server counts them with the payload.
pub fn header_size(headers: &HeaderMap) -> usize {
    header_block(header_lines(headers))
}

/// Returns the bytes of payload and headers; an error above `limit`. `what` names the message in the error.
pub fn check_size(
    what: impl FnOnce() -> About,
    payload: usize,
    headers: Option<&HeaderMap>,
    limit: usize,
) -> Result<usize> {
    let size = payload + headers.map_or(0, header_size);
    check_total(what, size, limit).map(|()| size)
}

/// Returns an error if `size` exceeds `limit`.
pub fn check_total(what: impl FnOnce() -> About, size: usize, limit: usize) -> Result<()> {
    if size > limit { Err(JetError::MaxPayload { what: what(), size, limit }) } else { Ok(()) }
}

/// Returns the bytes of a whole message: subjects, headers and payload.
pub fn message_size(message: &OutboundMessage) -> usize {
    let reply = message.reply.as_ref().map_or(0, |reply| reply.len());
    message.subject.len() + reply + message.headers.as_ref().map_or(0, header_size) + message.payload.len()
}

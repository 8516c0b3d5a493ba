//! Encoder of the client's protocol lines and messages.

use async_nats::HeaderMap;
use async_nats::message::OutboundMessage;

use crate::size::header_size;

/// A PING line.
pub const PING: &[u8] = b"PING\r\n";

fn number(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a whole PUB or HPUB message.
pub fn publish(out: &mut Vec<u8>, message: &OutboundMessage) {
    head(out, message);
    out.extend_from_slice(&message.payload);
    out.extend_from_slice(b"\r\n");
}

/// Appends the protocol line and the header block of a message: everything before the payload.
pub fn head(out: &mut Vec<u8>, message: &OutboundMessage) {
    let OutboundMessage { subject, reply, payload, headers } = message;
    let headers = headers.as_ref().filter(|headers| !headers.is_empty());
    let reply = reply.as_deref().map_or(&b""[..], str::as_bytes);
    line(out, subject, reply, headers.map_or(0, header_size), payload.len());
    headers.into_iter().for_each(|headers| header_block(out, headers));
}

/// Appends a protocol line. `headers` and `payload` are sizes in bytes.
fn line(out: &mut Vec<u8>, subject: &str, reply: &[u8], headers: usize, payload: usize) {
    out.extend_from_slice(if headers > 0 { b"HPUB " } else { b"PUB " });
    out.extend_from_slice(subject.as_bytes());
    out.push(b' ');
    if !reply.is_empty() {
        out.extend_from_slice(reply);
        out.push(b' ');
    }
    if headers > 0 {
        number(out, headers);
        out.push(b' ');
    }
    number(out, headers + payload);
    out.extend_from_slice(b"\r\n");
}

/// A message to publish that borrows its parts, so that they are copied once, into the write buffer.
pub struct PublishFrame<'a> {
    pub subject: &'a str,
    /// Empty if the message has no reply subject.
    pub reply: &'a [u8],
    /// An encoded header block, or empty.
    pub headers: &'a [u8],
    pub payload: &'a [u8],
}

impl PublishFrame<'_> {
    /// Returns the bytes of headers and payload, which the server counts against `max_payload`.
    pub fn counted(&self) -> usize {
        self.headers.len() + self.payload.len()
    }

    /// Returns the bytes of the whole message, as [`message_size`](crate::size::message_size) counts them.
    pub fn size(&self) -> usize {
        self.subject.len() + self.reply.len() + self.counted()
    }

    /// Appends the whole message.
    pub fn write(&self, out: &mut Vec<u8>) {
        line(out, self.subject, self.reply, self.headers.len(), self.payload.len());
        out.extend_from_slice(self.headers);
        out.extend_from_slice(self.payload);
        out.extend_from_slice(b"\r\n");
    }
}

/// First line of a header block. An empty line ends the block.
pub const VERSION_LINE: &[u8] = b"NATS/1.0\r\n";

/// Appends one header line.
pub fn header(out: &mut Vec<u8>, name: &[u8], value: &str) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends a header block.
pub fn header_block(out: &mut Vec<u8>, headers: &HeaderMap) {
    out.extend_from_slice(VERSION_LINE);
    for (name, values) in headers.iter() {
        values.iter().for_each(|value| header(out, name.as_ref(), value.as_str()));
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a SUB line.
pub fn subscribe(out: &mut Vec<u8>, sid: u64, subject: &str, queue: Option<&str>) {
    let queue = queue.map_or(String::new(), |queue| format!("{queue} "));
    out.extend_from_slice(format!("SUB {subject} {queue}{sid}\r\n").as_bytes());
}

/// Appends an UNSUB line. With `after` the server unsubscribes after this number of messages.
pub fn unsubscribe(out: &mut Vec<u8>, sid: u64, after: Option<u64>) {
    let after = after.map_or(String::new(), |after| format!(" {after}"));
    out.extend_from_slice(format!("UNSUB {sid}{after}\r\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publish_writes_one_frame() {
        let mut headers = HeaderMap::new();
        headers.append("A", "1");
        headers.append("A", "two words");
        let plain = |reply: Option<&str>, headers| OutboundMessage {
            subject: "s.t".into(),
            reply: reply.map(Into::into),
            payload: "ab".into(),
            headers,
        };
        for (message, wanted) in [
            (plain(None, None), "PUB s.t 2\r\nab\r\n"),
            (plain(Some("r"), Some(HeaderMap::new())), "PUB s.t r 2\r\nab\r\n"),
            (plain(Some("r"), Some(headers)), "HPUB s.t r 32 34\r\nNATS/1.0\r\nA: 1\r\nA: two words\r\n\r\nab\r\n"),
        ] {
            let mut out = Vec::new();
            publish(&mut out, &message);
            assert_eq!(String::from_utf8(out).as_deref(), Ok(wanted));
        }
    }

    #[test]
    fn subscribe_and_unsubscribe_write_their_lines() {
        let mut out = Vec::new();
        subscribe(&mut out, 1, "a.>", None);
        subscribe(&mut out, 2, "b", Some("q"));
        unsubscribe(&mut out, 1, None);
        unsubscribe(&mut out, 2, Some(5));
        assert_eq!(out, b"SUB a.> 1\r\nSUB b q 2\r\nUNSUB 1\r\nUNSUB 2 5\r\n");
    }
}

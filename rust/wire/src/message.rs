//! A received message.

use std::borrow::Cow;

use bytes::Bytes;

use crate::ack_subject::{AckSubject, parse_ack_subject};
use crate::headers::{self, Headers};

/// A message whose parts are slices of the read buffer. They are decoded on access, because most callers need few of
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Bytes from the start of the subject to the end of the payload.
    frame: Bytes,
    subject: u32,
    /// Start and end of the reply subject; equal if there is none.
    reply: (u32, u32),
    headers: u32,
    payload: u32,
}

/// Positions of a message's parts, in bytes from the start of its subject.
#[derive(Clone, Copy)]
pub struct Offsets {
    /// End of the subject.
    pub subject: usize,
    /// Start and end of the reply subject; equal if there is none.
    pub reply: (usize, usize),
    /// Start of the header block.
    pub headers: usize,
    pub payload: usize,
}

impl Message {
    /// Creates a message from a slice that begins with its subject and ends with its payload.
    pub fn in_frame(frame: Bytes, places: Offsets) -> Self {
        // A position fits into 32 bits: a server's `max_payload` is an int32 (nats-server, `opts.go`).
        let [subject, begin, end, headers, payload] =
            [places.subject, places.reply.0, places.reply.1, places.headers, places.payload].map(|place| place as u32);
        Message { frame, subject, reply: (begin, end), headers, payload }
    }

    /// Creates a message from parts, which are copied. `headers` is an encoded block, or empty.
    pub fn new(subject: &str, reply: &str, headers: &[u8], payload: &[u8]) -> Self {
        let frame = [subject.as_bytes(), reply.as_bytes(), headers, payload].concat();
        let reply = (subject.len(), subject.len() + reply.len());
        let places = Offsets { subject: subject.len(), reply, headers: reply.1, payload: reply.1 + headers.len() };
        Self::in_frame(frame.into(), places)
    }

    fn part(&self, from: u32, to: u32) -> &[u8] {
        self.frame.get(from as usize..to as usize).unwrap_or_default()
    }

    /// Returns the bytes of the subject.
    pub fn subject_bytes(&self) -> &[u8] {
        self.part(0, self.subject)
    }

    /// Returns the subject. Bytes that are not UTF-8 are replaced, because a server accepts any bytes.
    pub fn subject(&self) -> Cow<'_, str> {
        match str::from_utf8(self.subject_bytes()) {
            Ok(subject) => Cow::Borrowed(subject),
            Err(_) => String::from_utf8_lossy(self.subject_bytes()),
        }
    }

    /// Returns the reply subject; `None` if it is absent or not UTF-8.
    pub fn reply(&self) -> Option<&str> {
        str::from_utf8(self.part(self.reply.0, self.reply.1)).ok().filter(|reply| !reply.is_empty())
    }

    /// Returns the fields of the ack subject, for a message that JetStream delivered.
    pub fn meta(&self) -> Option<AckSubject<'_>> {
        self.reply().and_then(parse_ack_subject)
    }

    /// Returns the encoded header block; empty if there is none.
    pub fn raw_headers(&self) -> &[u8] {
        self.part(self.headers, self.payload)
    }

    /// Returns the decoded headers; `None` if there is no header block.
    pub fn headers(&self) -> Option<Headers> {
        Some(self.raw_headers()).filter(|raw| !raw.is_empty()).map(headers::parse)
    }

    /// Returns the last value of a header.
    pub fn header(&self, name: &str) -> Option<String> {
        headers::value(self.raw_headers(), name)
    }

    /// True if the message has headers that violate ADR-4.
    pub fn is_malformed(&self) -> bool {
        let raw = self.raw_headers();
        !raw.is_empty() && headers::is_malformed(raw)
    }

    /// Returns code and description of a status message from the server; `None` for any other message.
    pub fn status(&self) -> Option<(u16, String)> {
        Some(self.raw_headers()).filter(|raw| !raw.is_empty()).map(headers::status).filter(|(code, _)| *code > 0)
    }

    /// True for the server's status 503 No Responders.
    pub fn says_no_responders(&self) -> bool {
        self.raw_headers().starts_with(b"NATS/1.0 503")
    }

    /// Returns the payload.
    pub fn payload(&self) -> &[u8] {
        self.frame.get(self.payload as usize..).unwrap_or_default()
    }

    /// Returns the bytes of all parts.
    pub fn size(&self) -> usize {
        (self.subject + self.reply.1 - self.reply.0) as usize + self.frame.len() - self.headers as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_message_returns_its_parts() {
        let message = Message::new("a.b", "r", b"NATS/1.0 503 x\r\nA: 1\r\nA: 2\r\n\r\n", b"data");
        assert_eq!((message.subject(), message.reply(), message.payload()), ("a.b".into(), Some("r"), &b"data"[..]));
        assert_eq!((message.status(), message.says_no_responders()), (Some((503, "x".into())), true));
        assert_eq!((message.header("A").as_deref(), message.is_malformed()), (Some("2"), false));
        assert_eq!(message.size(), 4 + message.raw_headers().len() + 4);
        let bare = Message::new("a", "", b"", b"");
        assert_eq!((bare.reply(), bare.headers(), bare.status(), bare.size()), (None, None, None, 1));
        assert!(bare.meta().is_none() && !bare.is_malformed());
    }

    #[test]
    fn subject_that_is_not_utf8_is_readable() {
        let places = Offsets { subject: 2, reply: (3, 4), headers: 4, payload: 4 };
        let message = Message::in_frame(Bytes::from_static(b"a\xe9 \xe9x"), places);
        assert_eq!((message.subject(), message.reply(), message.payload()), ("a\u{fffd}".into(), None, &b"x"[..]));
    }
}

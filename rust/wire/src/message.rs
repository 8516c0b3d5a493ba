//! A message that came, or as it would have come.

use std::borrow::Cow;

use bytes::Bytes;

use crate::ack_subject::{AckSubject, parse_ack_subject};
use crate::headers::{self, Headers};

/// All parts of it lie in one slice of what was read, and are looked at when they are asked for: most are asked for few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// From its subject to the end of its payload.
    frame: Bytes,
    subject: u32,
    /// From where to where; nothing where there is none.
    reply: (u32, u32),
    headers: u32,
    payload: u32,
}

/// Where its parts lie in a message's bytes.
#[derive(Clone, Copy)]
pub struct Offsets {
    /// Its end; it begins with it.
    pub subject: usize,
    /// From where to where.
    pub reply: (usize, usize),
    /// Where they begin.
    pub headers: usize,
    pub payload: usize,
}

impl Message {
    pub fn in_frame(frame: Bytes, places: Offsets) -> Self {
        // No server takes a message of 4 GiB.
        let [subject, begin, end, headers, payload] =
            [places.subject, places.reply.0, places.reply.1, places.headers, places.payload].map(|place| place as u32);
        Message { frame, subject, reply: (begin, end), headers, payload }
    }

    /// Of parts that lie elsewhere. `headers` are a block, or nothing.
    pub fn new(subject: &str, reply: &str, headers: &[u8], payload: &[u8]) -> Self {
        let frame = [subject.as_bytes(), reply.as_bytes(), headers, payload].concat();
        let reply = (subject.len(), subject.len() + reply.len());
        let places = Offsets { subject: subject.len(), reply, headers: reply.1, payload: reply.1 + headers.len() };
        Self::in_frame(frame.into(), places)
    }

    fn part(&self, from: u32, to: u32) -> &[u8] {
        self.frame.get(from as usize..to as usize).unwrap_or_default()
    }

    pub fn subject_bytes(&self) -> &[u8] {
        self.part(0, self.subject)
    }

    /// What is no UTF-8 is replaced: the server takes any bytes.
    pub fn subject(&self) -> Cow<'_, str> {
        match str::from_utf8(self.subject_bytes()) {
            Ok(subject) => Cow::Borrowed(subject),
            Err(_) => String::from_utf8_lossy(self.subject_bytes()),
        }
    }

    /// None where it has none, or one that is no text.
    pub fn reply(&self) -> Option<&str> {
        str::from_utf8(self.part(self.reply.0, self.reply.1)).ok().filter(|reply| !reply.is_empty())
    }

    /// What a stream's message says in its reply subject.
    pub fn meta(&self) -> Option<AckSubject<'_>> {
        self.reply().and_then(parse_ack_subject)
    }

    /// As they came; nothing where there are none.
    pub fn raw_headers(&self) -> &[u8] {
        self.part(self.headers, self.payload)
    }

    pub fn headers(&self) -> Option<Headers> {
        Some(self.raw_headers()).filter(|raw| !raw.is_empty()).map(headers::parse)
    }

    /// The last value of a header.
    pub fn header(&self, name: &str) -> Option<String> {
        headers::value(self.raw_headers(), name)
    }

    /// Its headers are not as they should be.
    pub fn is_malformed(&self) -> bool {
        let raw = self.raw_headers();
        !raw.is_empty() && headers::is_malformed(raw)
    }

    /// The server's word, with its description, where it is one and no message of anybody.
    pub fn status(&self) -> Option<(u16, String)> {
        Some(self.raw_headers()).filter(|raw| !raw.is_empty()).map(headers::status).filter(|(code, _)| *code > 0)
    }

    /// Nobody was there to take what it answers.
    pub fn says_no_responders(&self) -> bool {
        self.raw_headers().starts_with(b"NATS/1.0 503")
    }

    pub fn payload(&self) -> &[u8] {
        self.frame.get(self.payload as usize..).unwrap_or_default()
    }

    /// Bytes of its parts.
    pub fn size(&self) -> usize {
        (self.subject + self.reply.1 - self.reply.0) as usize + self.frame.len() - self.headers as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_what_they_were_made_of() {
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
    fn what_is_no_text_is_shown_all_the_same() {
        let places = Offsets { subject: 2, reply: (3, 4), headers: 4, payload: 4 };
        let message = Message::in_frame(Bytes::from_static(b"a\xe9 \xe9x"), places);
        assert_eq!((message.subject(), message.reply(), message.payload()), ("a\u{fffd}".into(), None, &b"x"[..]));
    }
}

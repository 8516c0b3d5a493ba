//! Parser of the server's protocol. One read buffer holds many messages, and each message is a slice of it.

use async_nats::ServerInfo;
use bytes::{Bytes, BytesMut};
use memchr::{memchr, memchr_iter};

use crate::message::{Message, Offsets};

/// Maximum length of a protocol line in bytes. An INFO can list thousands of servers.
pub const MAX_LINE: usize = 1 << 20;
/// Bytes requested in one read.
const READ_BYTES: usize = 64 << 10;

/// A protocol operation of the server. The number of a message is its subscription's sid.
#[derive(Debug)]
pub enum Op {
    Message(u64, Message),
    Info(Box<ServerInfo>),
    Ping,
    Pong,
    Error(String),
}

/// Invalid bytes from the server.
#[derive(Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The bytes are not the NATS protocol.
    Protocol,
    /// A message or line exceeds this number of bytes.
    TooLarge(usize),
}

type Result<T> = std::result::Result<T, ParseError>;

/// The read buffer and the state of an incomplete frame.
#[derive(Default)]
pub struct Parser {
    buffer: BytesMut,
    /// Bytes of the incomplete frame at the front of the buffer, as far as they are known.
    need: usize,
    /// Bytes at the front of the buffer that contain no line end.
    searched: usize,
}

impl Parser {
    /// Returns the buffer for the next read, with spare capacity.
    pub fn room(&mut self) -> &mut BytesMut {
        let missing = self.need.saturating_sub(self.buffer.len());
        if self.buffer.capacity() - self.buffer.len() < missing.max(READ_BYTES / 4) {
            self.buffer.reserve(missing.max(READ_BYTES));
        }
        &mut self.buffer
    }

    /// Passes all complete frames to `each`. Rejects a message whose headers and payload exceed `limit` bytes.
    pub fn parse_buffered(&mut self, limit: usize, mut each: impl FnMut(Op)) -> Result<()> {
        if self.buffer.len() < self.need {
            return Ok(());
        }
        if self.searched > 0 {
            // A long line that arrives in small pieces is neither searched nor moved again for each piece.
            let (length, fresh) = (self.buffer.len(), self.buffer.get(self.searched..).unwrap_or_default());
            if memchr(b'\n', fresh).is_none() {
                self.searched = length;
                return if length <= MAX_LINE { Ok(()) } else { Err(ParseError::TooLarge(MAX_LINE)) };
            }
            self.searched = 0;
        }
        let chunk = self.buffer.split().freeze();
        let mut at = 0;
        self.need = loop {
            if at == chunk.len() {
                break 0;
            }
            match frame(&chunk, at, limit)? {
                ParsedFrame::Whole(op, end) => {
                    op.into_iter().for_each(&mut each);
                    at = end;
                }
                ParsedFrame::Part(need) => break need,
                ParsedFrame::Line => {
                    self.searched = chunk.len() - at;
                    break 0;
                }
            }
        };
        let rest = chunk.get(at..).unwrap_or_default();
        if !rest.is_empty() {
            self.buffer.reserve(self.need.max(READ_BYTES));
            self.buffer.extend_from_slice(rest);
        }
        Ok(())
    }
}

/// Progress at one position of the buffer.
enum ParsedFrame {
    /// A complete frame and its end.
    Whole(Option<Op>, usize),
    /// An incomplete message with at least this number of bytes.
    Part(usize),
    /// A line without an end.
    Line,
}

fn frame(chunk: &Bytes, at: usize, limit: usize) -> Result<ParsedFrame> {
    let rest = chunk.get(at..).unwrap_or_default();
    // An incomplete line can end with half of its line end.
    let length = line_length(rest);
    if length.unwrap_or(rest.len().saturating_sub(1)) >= MAX_LINE {
        return Err(ParseError::TooLarge(MAX_LINE));
    }
    let Some(length) = length else { return Ok(ParsedFrame::Line) };
    let (line, body) = (&rest[..length], at + length + 2);
    let whole = |op| Ok(ParsedFrame::Whole(op, body));
    match line {
        [b'M', b'S', b'G', b' ', ..] => message(chunk, at, at + 4, body, false, limit),
        [b'H', b'M', b'S', b'G', b' ', ..] => message(chunk, at, at + 5, body, true, limit),
        [b'P', b'I', b'N', b'G', ..] => whole(Some(Op::Ping)),
        [b'P', b'O', b'N', b'G', ..] => whole(Some(Op::Pong)),
        [b'+', b'O', b'K', ..] => whole(None),
        [b'-', b'E', b'R', b'R', text @ ..] => {
            let text = std::str::from_utf8(text).map_err(|_| ParseError::Protocol)?;
            whole(Some(Op::Error(text.trim().trim_matches('\'').to_owned())))
        }
        [b'I', b'N', b'F', b'O', b' ', json @ ..] => {
            let info = serde_json::from_slice(json).map_err(|_| ParseError::Protocol)?;
            whole(Some(Op::Info(info)))
        }
        _ => Err(ParseError::Protocol),
    }
}

/// Returns the length of the line without its line end.
fn line_length(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let end = from + memchr(b'\n', bytes.get(from..)?)?;
        if end > 0 && bytes[end - 1] == b'\r' {
            return Some(end - 1);
        }
        from = end + 1;
    }
}

/// Parses MSG or HMSG. `begin` is the position of its arguments, `body` that of headers and payload.
fn message(
    chunk: &Bytes,
    at: usize,
    begin: usize,
    body: usize,
    with_headers: bool,
    limit: usize,
) -> Result<ParsedFrame> {
    let (mut all, mut count, mut word) = ([(0, 0); 5], 0, begin);
    let end = body - 2;
    for blank in memchr_iter(b' ', &chunk[begin..end]).map(|at| begin + at).chain([end]) {
        if blank > word {
            *all.get_mut(count).ok_or(ParseError::Protocol)? = (word, blank);
            count += 1;
        }
        word = blank + 1;
    }
    let sizes = 1 + usize::from(with_headers);
    // Subject, sid, optional reply subject, sizes.
    let reply = match count.checked_sub(2 + sizes) {
        Some(0) => None,
        Some(1) => Some(all[2]),
        _ => return Err(ParseError::Protocol),
    };
    let number = |(begin, end): (usize, usize)| number(&chunk[begin..end]);
    let (sid, total) = (number(all[1])?, number(all[count - 1])?);
    let header = if with_headers { number(all[count - 2])? } else { 0 };
    if header > total {
        return Err(ParseError::Protocol);
    }
    if total > limit as u64 {
        return Err(ParseError::TooLarge(limit));
    }
    let (total, header) = (total as usize, header as usize);
    let end = body + total + 2;
    if end > chunk.len() {
        return Ok(ParsedFrame::Part(end - at));
    }
    // The slice ends with the payload. Its positions count from the subject.
    let (subject, reply) = (all[0], reply.unwrap_or((body, body)));
    let places = Offsets {
        subject: subject.1 - subject.0,
        reply: (reply.0 - subject.0, reply.1 - subject.0),
        headers: body - subject.0,
        payload: body + header - subject.0,
    };
    let message = Message::in_frame(chunk.slice(subject.0..body + total), places);
    Ok(ParsedFrame::Whole(Some(Op::Message(sid, message)), end))
}

/// Parses a decimal number. Saturates on overflow.
fn number(digits: &[u8]) -> Result<u64> {
    if digits.is_empty() {
        return Err(ParseError::Protocol);
    }
    digits.iter().try_fold(0u64, |number, digit| match digit {
        b'0'..=b'9' => Ok(number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))),
        _ => Err(ParseError::Protocol),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `text` in pieces of this size.
    fn read(text: &[u8], piece: usize) -> Result<Vec<Op>> {
        let (mut reader, mut ops) = (Parser::default(), Vec::new());
        for part in text.chunks(piece) {
            reader.room().extend_from_slice(part);
            reader.parse_buffered(1000, |op| ops.push(op))?;
        }
        Ok(ops)
    }

    #[test]
    fn input_cut_at_any_position_yields_the_same_operations() {
        let text = b"INFO {\"version\":\"2.14.0\"}\r\n+OK\r\nPING\r\nMSG a.b 7 5\r\nab\r\nc\r\nPONG\r\n\
            MSG s 8 _INBOX.x 0\r\n\r\n-ERR 'Some Words'\r\n\
            HMSG s 9 r 18 20\r\nNATS/1.0\r\nA: 1\r\n\r\nxy\r\nHMSG s 9 24 24\r\nNATS/1.0 503 No Luck\r\n\r\n\r\n";
        for piece in [1, 2, 3, 7, 50, text.len()] {
            let ops = read(text, piece).unwrap_or_else(|e| panic!("{e:?} in pieces of {piece}"));
            let [
                Op::Info(info),
                Op::Ping,
                Op::Message(7, first),
                Op::Pong,
                Op::Message(8, second),
                Op::Error(words),
                rest @ ..,
            ] = ops.as_slice()
            else {
                panic!("{ops:?}")
            };
            assert_eq!((info.version.as_str(), words.as_str()), ("2.14.0", "Some Words"));
            assert_eq!((first.subject(), first.payload(), first.reply()), ("a.b".into(), &b"ab\r\nc"[..], None));
            assert_eq!(second.reply(), Some("_INBOX.x"));
            let [Op::Message(9, third), Op::Message(9, status)] = rest else { panic!("{rest:?}") };
            assert_eq!((third.payload(), third.size()), (&b"xy"[..], 22));
            assert_eq!(third.header("A").as_deref(), Some("1"));
            assert_eq!(status.status(), Some((503, "No Luck".to_owned())));
        }
    }

    #[test]
    fn malformed_header_blocks_are_accepted() {
        for block in ["NATS/1.x\r\n\r\n", "NATS/1.0\r\nA: 1\r2\r\n\r\n", "", "\r\n"] {
            let text = format!("HMSG s 1 {0} {0}\r\n{block}\r\nPING\r\n", block.len());
            let ops = read(text.as_bytes(), 3).unwrap_or_else(|e| panic!("{e:?} of {block:?}"));
            let [Op::Message(1, message), Op::Ping] = ops.as_slice() else { panic!("{ops:?}") };
            assert_eq!((message.raw_headers(), message.payload()), (block.as_bytes(), &b""[..]));
        }
    }

    #[test]
    fn invalid_or_too_large_input_is_rejected() {
        for (text, wanted) in [
            ("MSG s 1\r\n", ParseError::Protocol),
            ("MSG s 1 r 2 3 4 5\r\n", ParseError::Protocol),
            ("MSG s x 1\r\n", ParseError::Protocol),
            ("MSG s 1 18446744073709551617\r\n", ParseError::TooLarge(1000)),
            ("MSG s 1 1001\r\n", ParseError::TooLarge(1000)),
            ("HMSG s 1 9 3\r\nabc\r\n", ParseError::Protocol),
            ("GET / HTTP/1.1\r\n", ParseError::Protocol),
            ("INFO {\r\n", ParseError::Protocol),
        ] {
            assert_eq!(read(text.as_bytes(), 3).map(|ops| ops.len()), Err(wanted), "{text}");
        }
        let line = |length| [b"-ERR ", vec![b'x'; length - 5].as_slice(), b"\r\n"].concat();
        for piece in [10, 1 << 16, 1 << 21] {
            assert_eq!(read(&line(MAX_LINE - 1), piece).map(|ops| ops.len()), Ok(1), "{piece}");
            let refused = read(&line(MAX_LINE), piece).map(|ops| ops.len());
            assert_eq!(refused, Err(ParseError::TooLarge(MAX_LINE)), "{piece}");
        }
    }

    #[test]
    fn large_message_is_buffered_until_it_is_complete() {
        let mut reader = Parser::default();
        reader.room().extend_from_slice(b"MSG s 1 200000\r\n");
        let taken = reader.parse_buffered(1 << 20, |_| panic!("it is not complete"));
        assert_eq!(taken, Ok(()));
        assert!(reader.room().capacity() >= 200_000);
        reader.room().extend_from_slice(&vec![1; 200_002]);
        let mut lengths = Vec::new();
        let taken = reader.parse_buffered(1 << 20, |op| {
            if let Op::Message(1, message) = op {
                lengths.push(message.payload().len());
            }
        });
        assert_eq!((taken, lengths), (Ok(()), vec![200_000]));
    }
}

//! Fuzzes the protocol parser with valid and invalid input of a server.
//!
//! Input cut at any position yields the same operations, and the buffer stays small. A message with any headers is a
//! message, and valid headers are read unchanged.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

use wire::headers::{Headers, block, is_malformed, parse};
use wire::message::Message;
use wire::nats::ServerInfo;
use wire::parser::{Op, ParseError, Parser};
use wire::subject::check_header;

const LIMIT: usize = 4_096;
const VERSION: &str = "NATS/1.0";
/// Bytes of one read, and the spare capacity of a growing buffer.
const SPARE: usize = 256 << 10;

#[derive(Arbitrary, Debug)]
struct Frame {
    subject: String,
    sid: u64,
    reply: Option<String>,
    /// A status with its description, and headers.
    headers: Option<(Option<(u16, String)>, Vec<(String, String)>)>,
    payload: Vec<u8>,
    /// Extends the text, because the fuzzer's inputs are short: up to more than the limit.
    more: u8,
}

#[derive(Arbitrary, Debug)]
enum Part<'a> {
    Message(Frame),
    Info {
        name: String,
        connect_urls: Vec<String>,
        max_payload: usize,
        lame_duck_mode: bool,
    },
    Error {
        text: String,
        more: u8,
    },
    Ping,
    Pong,
    Ok,
    /// Valid lengths around an invalid header block.
    Headers {
        block: &'a [u8],
        payload: &'a [u8],
    },
    /// Invalid lengths.
    Lengths {
        head: Option<u64>,
        total: u64,
        payload: &'a [u8],
    },
    Noise(&'a [u8]),
}

#[derive(Arbitrary, Debug)]
struct Given<'a> {
    parts: Vec<Part<'a>>,
    /// Lengths of the pieces, repeated.
    cuts: Vec<u8>,
    /// Also the headers of a message. It is the last field, so that a seed is readable: 0 for no parts, 1 before each
    /// cut, 0, and the rest is this field.
    noise: &'a [u8],
}

/// Returns one word of a protocol line.
fn word(text: &str) -> String {
    let word: String = text.chars().filter(|c| *c > ' ').collect();
    if word.is_empty() { "s".to_owned() } else { word }
}

/// Removes line breaks, and the white space around the text, which is not part of it.
fn line(text: &str) -> String {
    text.replace(['\r', '\n'], "").trim().to_owned()
}

/// Returns the bytes of a message, and the expected operation.
fn message(frame: &Frame) -> (Vec<u8>, Op) {
    let (subject, reply) = (word(&frame.subject), frame.reply.as_deref().map(word).unwrap_or_default());
    let mut payload = frame.payload.clone();
    payload.resize(payload.len() + 20 * usize::from(frame.more), b'x');
    let (mut wanted, mut status) = (Headers::new(), None);
    let mut block = String::new();
    if let Some((first, headers)) = &frame.headers {
        block.push_str("NATS/1.0");
        if let Some((code, text)) = first {
            let (code, text) = (100 + code % 900, line(text));
            block.push_str(&format!(" {code} {text}"));
            status = Some((code, text));
        }
        block.push_str("\r\n");
        for (name, value) in headers {
            let value = line(value);
            if check_header(name, &value).is_ok() {
                block.push_str(&format!("{name}: {value}\r\n"));
                wanted.entry(name.clone()).or_default().push(value);
            }
        }
        block.push_str("\r\n");
    }
    let message = Message::new(&subject, &reply, block.as_bytes(), &payload);
    assert_eq!(message.status(), status);
    assert_eq!(message.headers(), frame.headers.is_some().then_some(wanted));
    assert!(!message.is_malformed());
    let (head, total) = (block.len(), block.len() + payload.len());
    let (verb, head) = if frame.headers.is_some() { ("HMSG", format!("{head} ")) } else { ("MSG", String::new()) };
    let to = if reply.is_empty() { String::new() } else { format!("{reply} ") };
    let mut bytes = format!("{verb} {subject} {} {to}{head}{total}\r\n{block}", frame.sid).into_bytes();
    bytes.extend_from_slice(&payload);
    bytes.extend_from_slice(b"\r\n");
    (bytes, Op::Message(frame.sid, message))
}

/// Returns a message with any header block.
fn around(block: &[u8], payload: &[u8]) -> Vec<u8> {
    let (head, total) = (VERSION.len() + block.len(), VERSION.len() + block.len() + payload.len());
    let line = format!("HMSG s 1 {head} {total}\r\n{VERSION}");
    [line.as_bytes(), block, payload, b"\r\n"].concat()
}

/// Asserts that the input is a message, and that its parsed headers are encoded and parsed to the same headers.
fn check_headers(noise: &[u8]) {
    let raw = [VERSION.as_bytes(), noise].concat();
    let (mut reader, mut got) = (Parser::default(), None);
    reader.room().extend_from_slice(&around(noise, b""));
    let ended = reader.parse_buffered(LIMIT, |op| got = Some(op));
    match (got, ended) {
        (Some(Op::Message(1, message)), Ok(())) => {
            assert_eq!(message.raw_headers(), raw);
            let headers = parse(&raw);
            if !is_malformed(&raw) {
                assert_eq!(parse(&block(&headers)), headers);
                for (name, values) in &headers {
                    assert_eq!(message.header(name).as_ref(), values.last());
                }
            }
        }
        (None, Err(ParseError::TooLarge(LIMIT))) => {}
        other => panic!("{other:?}"),
    }
}

/// Returns the bytes of a part, and the expected operations if it is valid.
fn encode(part: &Part) -> (Vec<u8>, Option<Vec<Op>>) {
    let known = |bytes: &[u8], ops| (bytes.to_vec(), Some(ops));
    match part {
        Part::Message(frame) => {
            let (bytes, op) = message(frame);
            (bytes, Some(vec![op]))
        }
        Part::Info { name, connect_urls, max_payload, lame_duck_mode } => {
            let json = serde_json::json!({
                "server_name": name,
                "connect_urls": connect_urls,
                "max_payload": max_payload,
                "ldm": lame_duck_mode,
                "of a later server": {"a": [null]},
            });
            let mut info = ServerInfo::default();
            (info.server_name, info.connect_urls) = (name.clone(), connect_urls.clone());
            (info.max_payload, info.lame_duck_mode) = (*max_payload, *lame_duck_mode);
            known(format!("INFO {json}\r\n").as_bytes(), vec![Op::Info(Box::new(info))])
        }
        Part::Error { text, more } => {
            let text = line(text).replace('\'', "") + &"x".repeat(256 * usize::from(*more));
            known(format!("-ERR '{text}'\r\n").as_bytes(), vec![Op::Error(text)])
        }
        Part::Ping => known(b"PING\r\n", vec![Op::Ping]),
        Part::Pong => known(b"PONG\r\n", vec![Op::Pong]),
        Part::Ok => known(b"+OK\r\n", vec![]),
        Part::Headers { block, payload } => (around(block, payload), None),
        Part::Lengths { head, total, payload } => {
            let line = match head {
                Some(head) => format!("HMSG s 1 {head} {total}\r\n"),
                None => format!("MSG s 1 {total}\r\n"),
            };
            ([line.as_bytes(), payload, b"\r\n"].concat(), None)
        }
        Part::Noise(noise) => (noise.to_vec(), None),
    }
}

/// Formats an operation by its parts, because positions do not matter.
fn show(op: Op) -> String {
    let Op::Message(sid, message) = op else { return format!("{op:?}") };
    let (subject, reply) = (message.subject(), message.reply());
    format!("{sid} {subject:?} {reply:?} {:?} {:?} {}", message.raw_headers(), message.payload(), message.size())
}

type Read = (Vec<String>, Result<(), ParseError>);

fn whole(wire: &[u8]) -> Read {
    let (mut reader, mut ops) = (Parser::default(), Vec::new());
    reader.room().extend_from_slice(wire);
    let ended = reader.parse_buffered(LIMIT, |op| ops.push(show(op)));
    (ops, ended)
}

/// Parses pieces that fit into the free capacity, as from a socket.
fn cut(wire: &[u8], cuts: &[u8]) -> Read {
    let (mut reader, mut ops, mut rest) = (Parser::default(), Vec::new(), wire);
    // A long line is searched with every piece, so the number of pieces is limited to save time.
    let least = 1 + wire.len() / 256;
    let longest = || wire.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap_or(0);
    for cut in cuts.iter().chain([&0]).cycle() {
        let room = reader.room();
        let (held, free) = (room.capacity(), room.capacity() - room.len());
        assert!(free > 0, "the buffer has no free capacity");
        assert!(held <= SPARE || held <= SPARE + 2 * (longest() + LIMIT), "the buffer holds {held} bytes");
        if rest.is_empty() {
            break;
        }
        // Up to 480 KiB. Short and long pieces are equally frequent.
        let length = least + (usize::from(cut & 15) << (cut >> 4));
        let (piece, later) = rest.split_at(length.min(free).min(rest.len()));
        rest = later;
        room.extend_from_slice(piece);
        let ended = reader.parse_buffered(LIMIT, |op| ops.push(show(op)));
        if ended.is_err() {
            return (ops, ended);
        }
    }
    (ops, Ok(()))
}

fuzz_target!(|given: Given| {
    check_headers(given.noise);
    let (mut wire, mut expected, mut known) = (Vec::new(), Vec::new(), true);
    for part in &given.parts {
        let (bytes, ops) = encode(part);
        wire.extend_from_slice(&bytes);
        known &= ops.is_some();
        if known {
            expected.extend(ops.into_iter().flatten().map(show));
        }
    }
    wire.extend_from_slice(given.noise);
    let (ops, ended) = whole(&wire);
    // All operations before the first noise are as expected, up to a message that is too large.
    let compared = if ended.is_ok() { expected.len() } else { expected.len().min(ops.len()) };
    assert_eq!(ops.get(..compared), expected.get(..compared));
    assert!(compared == expected.len() || ended == Err(ParseError::TooLarge(LIMIT)), "{ended:?}");
    assert_eq!(cut(&wire, &given.cuts), (ops, ended));
});

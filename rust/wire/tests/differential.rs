//! async-nats' connection and [`wire::parser::Parser`] read the same bytes of a server to the same messages, however
//! the bytes are cut. [`DIFFERENCES`] lists the exceptions with their reasons.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "differential/reading.rs"]
mod reading;
#[path = "differential/script.rs"]
mod script;
#[path = "differential/server.rs"]
mod server;

use wire::message::Message;
use wire::parser::{MAX_LINE, Op, ParseError, Parser};

use reading::{End, MAX_MESSAGE, Reading, difference, read_with_parser};
use script::{Cuts, Random, mutated};
use server::read_with_async_nats;

/// A case in which both clients are known to differ.
struct Difference {
    reason: &'static str,
    example: fn() -> Vec<u8>,
    /// Ends with async-nats and with the parser.
    ends: (End, End),
    /// True for each frame that can show the difference. The frames after it follow, because its sizes can include
    /// them.
    applies: fn(&[u8]) -> bool,
}

impl Difference {
    /// A client that continues after `frame` can break at the bytes that follow it.
    fn explains(&self, ends: (End, End), frame: &[u8]) -> bool {
        (self.ends == ends || ends == (End::Broken, End::Broken)) && (self.applies)(&[frame, AFTER].concat())
    }
}

const DIFFERENCES: &[Difference] = &[
    Difference {
        reason: "A server stores malformed headers unchanged, so any publisher can send them to all readers. \
            The parser marks the message; async-nats reconnects and meets it again.",
        example: || hmsg(b"NATS/1.0\r\nno colon\r\n\r\n"),
        ends: (End::Broken, End::Open),
        applies: has_malformed_headers,
    },
    Difference {
        reason: "A carriage return in a header value panics in async-nats' task. The parser marks the message as malformed.",
        example: || hmsg(b"NATS/1.0\r\nA: 1\r2\r\n\r\n"),
        ends: (End::Broken, End::Open),
        applies: has_malformed_headers,
    },
    Difference {
        reason: "async-nats ignores a tab or a carriage return after a status code, which a server does not send. \
            The parser marks the message as malformed.",
        example: || hmsg(b"NATS/1.0 503\t No Luck\r\n\r\n"),
        ends: (End::Open, End::Open),
        applies: has_malformed_headers,
    },
    Difference {
        reason: "async-nats requires a version line in a header block of 0 bytes. The parser reads a message without headers.",
        example: || b"HMSG s 1 0 2\r\nab\r\n".to_vec(),
        ends: (End::Broken, End::Open),
        applies: |frame| is_hmsg(frame) && first_message(frame).is_some_and(|message| message.raw_headers().is_empty()),
    },
    Difference {
        reason: "A server accepts subjects of any bytes, from any client. The parser replaces bytes that are not UTF-8.",
        example: || b"MSG s\xff 1 2\r\nab\r\n".to_vec(),
        ends: (End::Broken, End::Open),
        applies: |frame| str::from_utf8(line(frame)).is_err(),
    },
    Difference {
        reason: "async-nats splits HMSG, but not MSG, at all Unicode white space, which a subject may contain.",
        example: || b"HMSG s\xc2\xa0t 1 12 12\r\nNATS/1.0\r\n\r\n\r\n".to_vec(),
        ends: (End::Broken, End::Open),
        applies: has_other_white_space,
    },
    Difference {
        reason: "async-nats splits HMSG, but not MSG, at tabs, which a server does not send.",
        example: || b"HMSG s\t1 12 12\r\nNATS/1.0\r\n\r\n\r\n".to_vec(),
        ends: (End::Open, End::Broken),
        applies: has_other_white_space,
    },
    Difference {
        reason: "async-nats removes white space around the words of HMSG, but not of MSG.",
        example: || b"HMSG s\t 1 12 12\r\nNATS/1.0\r\n\r\n\r\n".to_vec(),
        ends: (End::Open, End::Open),
        applies: has_other_white_space,
    },
    Difference {
        reason: "async-nats accepts a plus sign before a number, which a server does not send.",
        example: || b"MSG s 1 +2\r\nab\r\n".to_vec(),
        ends: (End::Open, End::Broken),
        applies: |frame| words(frame).any(|word| word.starts_with(b"+")),
    },
    Difference {
        reason: "The parser saturates a sid above 2^64 - 1, so that the message has no subscription.",
        example: || b"MSG s 18446744073709551616 2\r\nab\r\n".to_vec(),
        ends: (End::Broken, End::Open),
        applies: |frame| words(frame).nth(2).is_some_and(|sid| sid.len() > 19),
    },
    Difference {
        reason: "The parser limits a message, so that a server cannot exhaust memory. async-nats has no limit.",
        example: || [format!("MSG s 1 {}\r\n", MAX_MESSAGE + 1).as_bytes(), &[b'x'; MAX_MESSAGE + 1], b"\r\n"].concat(),
        ends: (End::Open, End::Broken),
        applies: |frame| words(frame).any(|word| number(word) > Some(MAX_MESSAGE as u128)),
    },
    Difference {
        reason: "The parser limits a line, so that a server cannot exhaust memory. async-nats has no limit.",
        example: || [b"PING ", [b'x'; MAX_LINE].as_slice(), b"\r\n"].concat(),
        ends: (End::Open, End::Broken),
        applies: |frame| line(frame).len() >= MAX_LINE,
    },
    Difference {
        reason: "async-nats panics at an -ERR without text. The parser reads an empty text.",
        example: || b"-ERR\r\n".to_vec(),
        ends: (End::Broken, End::Open),
        applies: |frame| line(frame) == b"-ERR",
    },
    Difference {
        reason: "async-nats drops the byte after -ERR, whatever it is, and keeps white space around the text.",
        example: || b"-ERR  'Slow Consumer' \r\n".to_vec(),
        ends: (End::Open, End::Open),
        applies: |frame| frame.starts_with(b"-ERR"),
    },
    Difference {
        reason: "async-nats drops the byte after -ERR, so that it need not be UTF-8.",
        example: || b"-ERR\xff 'Slow Consumer'\r\n".to_vec(),
        ends: (End::Open, End::Broken),
        applies: |frame| frame.starts_with(b"-ERR"),
    },
    Difference {
        reason: "async-nats keeps the white space of a continuation after an empty first line. \
            The parser removes it, as Go's textproto does.",
        example: || hmsg(b"NATS/1.0\r\nA:\r\n  folded\r\n\r\n"),
        ends: (End::Open, End::Open),
        applies: has_folded_headers,
    },
    Difference {
        reason: "A continuation after an empty first line that begins with a carriage return panics in async-nats' task, \
            because the carriage return is kept. The parser removes it.",
        example: || hmsg(b"NATS/1.0\r\nA:\r\n\rfolded\r\n\r\n"),
        ends: (End::Broken, End::Open),
        applies: has_folded_headers,
    },
];

fn hmsg(block: &[u8]) -> Vec<u8> {
    [format!("HMSG s 1 {0} {0}\r\n", block.len()).as_bytes(), block, b"\r\n"].concat()
}

/// Also a message without a subscription, which no [`Reading`] holds.
fn first_message(bytes: &[u8]) -> Option<Message> {
    let (mut parser, mut first) = (Parser::default(), None);
    parser.room().extend_from_slice(bytes);
    let _ = parser.parse_buffered(MAX_MESSAGE, |op| match op {
        Op::Message(_, message) if first.is_none() => first = Some(message),
        _ => {}
    });
    first
}

fn line(frame: &[u8]) -> &[u8] {
    frame.windows(2).position(|pair| pair == b"\r\n").map_or(frame, |end| &frame[..end])
}

fn words(frame: &[u8]) -> impl Iterator<Item = &[u8]> {
    line(frame).split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

fn number(word: &[u8]) -> Option<u128> {
    str::from_utf8(word).ok()?.parse().ok()
}

fn is_hmsg(frame: &[u8]) -> bool {
    frame.starts_with(b"HMSG ")
}

fn has_malformed_headers(frame: &[u8]) -> bool {
    first_message(frame).is_some_and(|message| message.is_malformed())
}

fn has_folded_headers(frame: &[u8]) -> bool {
    is_hmsg(frame) && String::from_utf8_lossy(frame).lines().any(|line| line.starts_with(char::is_whitespace))
}

fn has_other_white_space(frame: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line(frame));
    is_hmsg(frame) && line.contains(|c: char| c.is_whitespace() && c != ' ')
}

/// Bytes that end the connection with both clients.
const MALFORMED: &[(&[u8], ParseError)] = &[
    (b"GET / HTTP/1.1\r\n", ParseError::Protocol),
    (b"\r\n", ParseError::Protocol),
    (b"msg s 1 0\r\n\r\n", ParseError::Protocol),
    (b"MSG\ts 1 0\r\n\r\n", ParseError::Protocol),
    (b"MSG s 1\r\n", ParseError::Protocol),
    (b"MSG s 1 r 2 3\r\n", ParseError::Protocol),
    (b"MSG s 1 r 2 3 4\r\n", ParseError::Protocol),
    (b"MSG s x 2\r\nab\r\n", ParseError::Protocol),
    (b"MSG s -1 2\r\nab\r\n", ParseError::Protocol),
    (b"MSG s 1 2x\r\nab\r\n", ParseError::Protocol),
    (b"MSG s 1 -2\r\nab\r\n", ParseError::Protocol),
    (b"MSG s 1 2\r\nabcd\r\n", ParseError::Protocol),
    (b"MSG s 1 18446744073709551616\r\n", ParseError::TooLarge(MAX_MESSAGE)),
    (b"HMSG s 1 12\r\n", ParseError::Protocol),
    (b"HMSG s 1 r 12 12 12\r\n", ParseError::Protocol),
    (b"HMSG s 1 12 11\r\nNATS/1.0\r\n\r\n\r\n", ParseError::Protocol),
    (b"HMSG s 1 x 12\r\nNATS/1.0\r\n\r\n\r\n", ParseError::Protocol),
    (b"HMSG s 1 12 y\r\nNATS/1.0\r\n\r\n\r\n", ParseError::Protocol),
    (b"INFO\r\n", ParseError::Protocol),
    (b"INFO {\r\n", ParseError::Protocol),
    (b"INFO {\"port\":\"x\"}\r\n", ParseError::Protocol),
    (b"-ERR '\xff'\r\n", ParseError::Protocol),
];

/// Well-formed frames around a frame: the clients must agree on those before it, and on those after it if both
/// continue.
const BEFORE: &[u8] = b"PING\r\nMSG before 1 4\r\nab\r\n\r\n";
const AFTER: &[u8] = b"MSG after 2 r 0\r\n\r\nPING\r\n";

fn surrounded(frame: &[u8]) -> Vec<u8> {
    [BEFORE, frame, AFTER].concat()
}

fn parse(bytes: &[u8]) -> Reading {
    read_with_parser(bytes, Cuts::random(0)).0
}

/// Reads a script with both clients, cut at different places.
fn read_with_both(bytes: &[u8], seed: u64) -> (Reading, Reading, Result<(), ParseError>) {
    let buffer = Random(seed).pick(&[1, 64, 1_000, 65_535]);
    let async_nats = read_with_async_nats(bytes, Cuts::random(seed), buffer);
    let (parser, result) = read_with_parser(bytes, Cuts::random(!seed));
    (async_nats, parser, result)
}

#[test]
fn scripts_of_random_frames_and_cuts_give_equal_messages() {
    let (mut random, mut compared, mut largest) = (Random(26), 0, 0);
    for index in 0..30 {
        let bytes = script::script(&mut random, 60, 70_000);
        let (async_nats, parser, result) = read_with_both(&bytes, index);
        assert_eq!(difference(&async_nats, &parser), None, "script {index}");
        assert_eq!((async_nats.end, result), (End::Open, Ok(())), "script {index}");
        compared += async_nats.messages.iter().map(Vec::len).sum::<usize>();
        largest = async_nats.messages.iter().flatten().map(|message| message.payload.len()).fold(largest, usize::max);
    }
    assert!(compared > 1_000, "only {compared} messages are compared");
    assert!(largest > 65_536, "the largest payload has only {largest} bytes");
}

#[test]
fn short_scripts_cut_at_every_byte_give_equal_messages() {
    for seed in 0..4 {
        let bytes = script::script(&mut Random(seed), 25, 16);
        let async_nats = read_with_async_nats(&bytes, Cuts::each_byte(), 1);
        let (parser, result) = read_with_parser(&bytes, Cuts::each_byte());
        assert_eq!((difference(&async_nats, &parser), result), (None, Ok(())), "script {seed}");
        assert!(async_nats.total > 10, "script {seed} has only {} messages", async_nats.total);
    }
}

#[test]
fn examples_of_listed_differences_end_as_listed() {
    for (index, known) in DIFFERENCES.iter().enumerate() {
        let frame = (known.example)();
        assert!(known.explains(known.ends, &frame), "the condition rejects its example: {}", known.reason);
        let (bytes, seed) = (surrounded(&frame), index as u64);
        let async_nats = read_with_async_nats(&bytes, Cuts::long(seed), 65_535);
        let (parser, _) = read_with_parser(&bytes, Cuts::long(!seed));
        assert_eq!((async_nats.end, parser.end), known.ends, "{}", known.reason);
        assert!(difference(&async_nats, &parser).is_some(), "no difference any more: {}", known.reason);
        assert_eq!(async_nats.messages[0].first(), parser.messages[0].first(), "{}", known.reason);
    }
}

#[test]
fn malformed_frames_end_both_connections() {
    for (index, (frame, error)) in MALFORMED.iter().enumerate() {
        let (async_nats, parser, result) = read_with_both(&surrounded(frame), index as u64);
        let frame = frame.escape_ascii();
        assert_eq!(difference(&async_nats, &parser), None, "{frame}");
        assert_eq!((async_nats.end, result.as_ref()), (End::Broken, Err(error)), "{frame}");
    }
}

#[test]
fn mutated_frames_give_equal_results_or_listed_differences() {
    let (mut random, mut broken, mut listed) = (Random(2_026), 0, 0);
    for index in 0..1_000 {
        let frame = mutated(&mut random);
        let (async_nats, parser, _) = read_with_both(&surrounded(&frame), index);
        broken += usize::from(async_nats.end == End::Broken);
        let first = |reading: &Reading| reading.messages[0].first().map(|message| message.subject.clone());
        assert_eq!((first(&async_nats), first(&parser)), (Some("before".to_owned()), Some("before".to_owned())));
        if let Some(found) = difference(&async_nats, &parser) {
            let is_listed = DIFFERENCES.iter().any(|known| known.explains((async_nats.end, parser.end), &frame));
            assert!(is_listed, "mutation {index}, {}: {found}", frame.escape_ascii());
            listed += 1;
        }
    }
    assert!(broken > 100 && listed > 20, "{broken} broken connections, {listed} listed differences");
}

#[test]
fn planted_differences_are_found() {
    let message = |line: &str, block: &str, payload: &str| format!("{line}\r\n{block}{payload}\r\n").into_bytes();
    let block = "NATS/1.0 503 x\r\nA: 1\r\nB: 2\r\n\r\n";
    let original = message("HMSG s 1 r 30 32", block, "ab");
    assert_eq!(block.len(), 30);
    for (part, changed) in [
        ("subject", message("HMSG t 1 r 30 32", block, "ab")),
        ("sid", message("HMSG s 2 r 30 32", block, "ab")),
        ("other sid", message("HMSG s 9 r 30 32", block, "ab")),
        ("reply", message("HMSG s 1 q 30 32", block, "ab")),
        ("no reply", message("HMSG s 1 30 32", block, "ab")),
        ("no headers", message("MSG s 1 r 2", "", "ab")),
        ("header name", message("HMSG s 1 r 30 32", &block.replace("A:", "a:"), "ab")),
        ("header value", message("HMSG s 1 r 30 32", &block.replace('2', "3"), "ab")),
        ("status", message("HMSG s 1 r 30 32", &block.replace("503", "504"), "ab")),
        ("description", message("HMSG s 1 r 30 32", &block.replace('x', "y"), "ab")),
        ("payload", message("HMSG s 1 r 30 32", block, "aB")),
        ("length", message("HMSG s 1 r 30 33", block, "abc")),
        ("ping", [original.as_slice(), b"PING\r\n"].concat()),
        ("error", [original.as_slice(), b"-ERR 'x'\r\n"].concat()),
        ("lame duck", [original.as_slice(), b"INFO {\"ldm\":true}\r\n"].concat()),
        ("end", [original.as_slice(), b"?\r\n"].concat()),
        ("second message", original.repeat(2)),
    ] {
        let async_nats = read_with_async_nats(&changed, Cuts::random(1), 64);
        assert_eq!(difference(&async_nats, &parse(&changed)), None, "{part}");
        assert!(difference(&async_nats, &parse(&original)).is_some(), "{part}");
    }
}

//! Fuzzes the encoder of messages. A message that passes our checks is exactly one frame, and a reader that parses like
//! a server finds the given subject, reply subject, headers, id and payload.
#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

use jetstream::publish::body::Body;
use jetstream::publish::rows::{RowHeaders, RowSubjects, Rows};
use wire::frames::publish;
use wire::nats::OutboundMessage;
use wire::nats::{HeaderMap, HeaderName, HeaderValue};
use wire::size::header_size;
use wire::subject::{check, check_header};

const MAX_PAYLOAD: usize = 4_096;

#[derive(Debug)]
struct Frame {
    subject: String,
    reply: Option<String>,
    headers: Vec<(String, String)>,
    payload: Vec<u8>,
}

/// Parses one frame by lines and lengths, and returns the rest. Panics for any verb other than PUB and HPUB.
fn read(wire: &[u8]) -> (Frame, &[u8]) {
    let end = wire.iter().position(|byte| *byte == b'\n').expect("a protocol line ends") + 1;
    let (line, rest) = wire.split_at(end);
    let line = std::str::from_utf8(line).expect("a protocol line is UTF-8");
    let line = line.strip_suffix("\r\n").expect("a protocol line ends with CR LF");
    // A server splits words at any white space.
    let words: Vec<&str> = line.split([' ', '\t', '\r']).filter(|word| !word.is_empty()).collect();
    let number = |digits: &str| digits.parse::<usize>().unwrap();
    let (subject, reply, head, total) = match words[..] {
        ["PUB", subject, total] => (subject, None, None, number(total)),
        ["PUB", subject, reply, total] => (subject, Some(reply), None, number(total)),
        ["HPUB", subject, head, total] => (subject, None, Some(number(head)), number(total)),
        ["HPUB", subject, reply, head, total] => (subject, Some(reply), Some(number(head)), number(total)),
        _ => panic!("not one frame: {line:?}"),
    };
    let (body, rest) = rest.split_at_checked(total).expect("the body has the declared length");
    let rest = rest.strip_prefix(b"\r\n").expect("CR LF follows the body");
    let (block, payload) = body.split_at_checked(head.unwrap_or(0)).expect("the headers are a part of the body");
    let mut headers = Vec::new();
    if head.is_some() {
        let text = std::str::from_utf8(block).unwrap();
        let text = text.strip_prefix("NATS/1.0\r\n").and_then(|text| text.strip_suffix("\r\n")).unwrap();
        for line in text.split_terminator("\r\n") {
            let (name, value) = line.split_once(':').expect("a header has a colon");
            headers.push((name.to_owned(), value.trim_start_matches(' ').to_owned()));
        }
    }
    let (subject, reply) = (subject.to_owned(), reply.map(str::to_owned));
    (Frame { subject, reply, headers, payload: payload.to_vec() }, rest)
}

#[derive(Arbitrary, Debug)]
struct Given {
    subject: String,
    headers: Vec<(String, String)>,
    id: Option<String>,
    reply: Option<String>,
    payload: Vec<u8>,
}

fuzz_target!(|given: Given| {
    let mut headers = HeaderMap::new();
    let mut expected = Vec::new();
    for (name, value) in &given.headers {
        // Headers from Python pass this check.
        if check_header(name, value).is_ok() && name != "Nats-Msg-Id" {
            let (name, value): (HeaderName, HeaderValue) = (name.parse().unwrap(), value.parse().unwrap());
            expected.push((name.to_string(), value.as_str().to_owned()));
            headers.append(name, value);
        }
    }
    if let Some(id) = given.id.as_ref() {
        expected.push(("Nats-Msg-Id".to_owned(), id.clone()));
    }
    let rows = Rows {
        len: 1,
        subjects: RowSubjects::One(given.subject.as_str().into()),
        payloads: Box::new(vec![given.payload.clone()]),
        msg_ids: given.id.map(|id| Box::new(vec![id]) as _),
        headers: if headers.is_empty() { RowHeaders::None } else { RowHeaders::One(headers) },
        fixed: Arc::new([]),
        expected_stream: None,
        reasons: None,
        checked: false,
    };
    let Ok(rows) = rows.checked(MAX_PAYLOAD) else { return };
    assert!(check(&given.subject).is_ok());
    let body = Body::Row(Arc::new(rows), 0);
    let reply = given.reply.filter(|reply| check(reply).is_ok());
    let message = OutboundMessage {
        subject: body.subject(),
        reply: reply.as_deref().map(Into::into),
        payload: Bytes::copy_from_slice(body.payload().unwrap()),
        headers: body.wire_headers(),
    };
    assert!(message.headers.as_ref().map_or(0, header_size) + message.payload.len() <= MAX_PAYLOAD);
    let mut wire = Vec::new();
    publish(&mut wire, &message);
    let (frame, rest) = read(&wire);
    assert!(rest.is_empty(), "more than one frame: {:?}", rest.escape_ascii().to_string());
    assert_eq!((frame.subject, frame.reply, frame.payload), (given.subject, reply, given.payload));
    let mut got = frame.headers;
    // The names of a map have no order, the values of a name have. White space before a value is not part of it.
    let trimmed = |(name, value): (String, String)| (name, value.trim_start_matches(' ').to_owned());
    let mut expected: Vec<_> = expected.into_iter().map(trimmed).collect();
    got.sort_by(|a, b| a.0.cmp(&b.0));
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(got, expected);
});

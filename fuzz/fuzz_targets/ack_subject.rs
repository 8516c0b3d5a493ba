//! Fuzzes the parser of ack subjects and its numbers against a simple reference parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

use wire::ack_subject::{AckSubject, parse_ack_subject};

fn number(text: &str) -> Option<i64> {
    let digits = (1..=19).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn slowly(reply: &str) -> Option<AckSubject<'_>> {
    let mut tokens: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
    match tokens.len() {
        7 => {}
        9.. => drop(tokens.drain(..2)),
        _ => return None,
    }
    Some(AckSubject {
        stream: tokens[0],
        consumer: tokens[1],
        delivered: number(tokens[2])?,
        seq: number(tokens[3])?,
        consumer_seq: number(tokens[4])?,
        nanos: number(tokens[5])?,
        pending: number(tokens[6])?,
    })
}

fuzz_target!(|text: &str| {
    assert_eq!(parse_ack_subject(text), slowly(text));
    let whole = format!("$JS.ACK.{text}");
    assert_eq!(parse_ack_subject(&whole), slowly(&whole));
    for form in [format!("$JS.ACK.S.c.1.{text}.3.4.5"), format!("$JS.ACK.state.hash.S.c.1.2.3.4.{text}.x")] {
        assert_eq!(parse_ack_subject(&form), slowly(&form));
    }
});

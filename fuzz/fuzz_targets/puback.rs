//! Fuzzes the parser of publish acks. The full parser reads the same from each ack that the fast path accepts.
#![no_main]

use libfuzzer_sys::fuzz_target;

use jetstream::publish::puback::{AckParser, Origin, PubAck, parse};

fn learn(parser: &mut AckParser, payload: &[u8], ack: &PubAck) {
    let origin = parser.origin_of(ack);
    parser.learn(payload, ack, &origin);
}

fuzz_target!(|input: (&[u8], &[u8], u64, bool)| {
    let (first, second, seq, duplicate) = input;
    let mut parser = AckParser::default();
    let learned = match parse(first) {
        Ok(ack) => {
            learn(&mut parser, first, &ack);
            first.to_vec()
        }
        Err(_) => {
            // A typical ack of a server, so that every input reaches the fast path.
            let usual = br#"{"stream":"S", "seq":7}"#.to_vec();
            learn(&mut parser, &usual, &parse(&usual).unwrap());
            usual
        }
    };
    // The learned text with another number, with other bytes at its end, and arbitrary bytes.
    let digits = learned.iter().rposition(u8::is_ascii_digit).map_or(learned.len(), |last| last + 1);
    let start = learned[..digits].iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |before| before + 1);
    let mut next = learned[..start].to_vec();
    next.extend_from_slice(seq.to_string().as_bytes());
    let mut mixed = next.clone();
    next.extend_from_slice(if duplicate { br#","duplicate": true}"# } else { b"}" });
    mixed.extend_from_slice(second);
    for payload in [&next[..], &mixed, second] {
        if let Some((seq, duplicate)) = parser.quick(payload) {
            let full = parse(payload).unwrap();
            assert!(!full.says_more());
            let origin = Origin { stream: full.stream, domain: full.domain };
            assert_eq!((&origin, full.seq, full.duplicate), (&**parser.origin(), seq, duplicate));
        }
    }
});

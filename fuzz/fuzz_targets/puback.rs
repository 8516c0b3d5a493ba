//! Whatever the fast path takes, the full parse takes as well and reads the same out of it.
#![no_main]

use libfuzzer_sys::fuzz_target;

use jetstream::publish::puback::{Origin, AckParser, parse};

fuzz_target!(|input: (&[u8], &[u8], u64, bool)| {
    let (first, second, seq, duplicate) = input;
    let mut parser = AckParser::default();
    let learned = match parse(first) {
        Ok(ack) => {
            parser.learn(first, &ack);
            first.to_vec()
        }
        Err(_) => {
            // What a server sends: the fast path is reached by every input.
            let usual = br#"{"stream":"S", "seq":7}"#.to_vec();
            parser.learn(&usual, &parse(&usual).unwrap());
            usual
        }
    };
    // The learned text with another number, with other bytes at its end, and bytes of any kind.
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

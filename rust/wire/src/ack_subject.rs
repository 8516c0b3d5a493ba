//! The ack subject: the reply subject of a message that JetStream delivers (ADR-15).

use memchr::memchr_iter;

/// The fields of an ack subject (ADR-15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckSubject<'a> {
    pub stream: &'a str,
    pub consumer: &'a str,
    pub delivered: i64,
    pub seq: i64,
    pub consumer_seq: i64,
    pub nanos: i64,
    pub pending: i64,
}

/// Parses `$JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<consumer seq>.<ns>.<pending>`.
///
/// The newer form has the domain and the account hash after `ACK`, and can have more tokens at the end.
pub fn parse_ack_subject(reply: &str) -> Option<AckSubject<'_>> {
    const MAX_TOKENS: usize = 12;
    let rest = reply.strip_prefix("$JS.ACK.")?;
    // Ends of the tokens. This runs for every message, and most of its time is the search for dots, so one pass finds
    // all.
    let mut ends = [0; MAX_TOKENS];
    let mut count = 0;
    for end in memchr_iter(b'.', rest.as_bytes()).chain([rest.len()]).take(MAX_TOKENS) {
        ends[count] = end;
        count += 1;
    }
    let first = match count {
        7 => 0,
        9.. => 2,
        _ => return None,
    };
    let token = |index: usize| {
        let index = first + index;
        let start = if index == 0 { 0 } else { ends[index - 1] + 1 };
        rest.get(start..ends[index])
    };
    Some(AckSubject {
        stream: token(0)?,
        consumer: token(1)?,
        delivered: number(token(2)?)?,
        seq: number(token(3)?)?,
        consumer_seq: number(token(4)?)?,
        nanos: number(token(5)?)?,
        pending: number(token(6)?)?,
    })
}

/// Returns the domain of an ack subject of the newer form, or `None` if it is `_`.
pub fn domain(reply: &str) -> Option<&str> {
    let rest = reply.strip_prefix("$JS.ACK.")?;
    let named = rest.split('.').count() >= 9;
    rest.split('.').next().filter(|domain| named && !matches!(*domain, "" | "_"))
}

/// Parses a decimal number that fits into 63 bits, eight digits at a time.
fn number(text: &str) -> Option<i64> {
    let mut digits = text.as_bytes();
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let mut total: u64 = 0;
    while let Some((eight, rest)) = digits.split_first_chunk::<8>() {
        let chunk = u64::from_le_bytes(*eight);
        // Every byte is an ASCII digit.
        let high = chunk & 0xF0F0_F0F0_F0F0_F0F0;
        let carried = chunk.wrapping_add(0x0606_0606_0606_0606) & 0xF0F0_F0F0_F0F0_F0F0;
        if high != 0x3030_3030_3030_3030 || carried != 0x3030_3030_3030_3030 {
            return None;
        }
        // Combines pairs, then fours, then all eight digits.
        let value = (chunk & 0x0F0F_0F0F_0F0F_0F0F).wrapping_mul(2561) >> 8;
        let value = (value & 0x00FF_00FF_00FF_00FF).wrapping_mul(6_553_601) >> 16;
        let value = (value & 0x0000_FFFF_0000_FFFF).wrapping_mul(42_949_672_960_001) >> 32;
        total = total * 100_000_000 + value;
        digits = rest;
    }
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        total = total * 10 + u64::from(digit);
    }
    i64::try_from(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_of_the_newer_form_is_read() {
        for (reply, expected) in [
            ("$JS.ACK.S.c.1.2.3.4.5", None),
            ("$JS.ACK._.hash.S.c.1.2.3.4.5", None),
            ("$JS.ACK.hub.hash.S.c.1.2.3.4.5", Some("hub")),
            ("$JS.ACK.hub.hash.S.c.1.2.3.4.5.random", Some("hub")),
            ("$JS.ACK..hash.S.c.1.2.3.4.5", None),
            ("elsewhere", None),
        ] {
            assert_eq!(domain(reply), expected, "{reply}");
        }
    }

    #[test]
    fn ack_subject_of_both_forms_is_parsed() {
        let meta = AckSubject {
            stream: "S",
            consumer: "c",
            delivered: 1,
            seq: 7,
            consumer_seq: 3,
            nanos: 1_700_000_000_123_456_789,
            pending: 9,
        };
        assert_eq!(parse_ack_subject("$JS.ACK.S.c.1.7.3.1700000000123456789.9"), Some(meta));
        assert_eq!(parse_ack_subject("$JS.ACK.hub.hash.S.c.1.7.3.1700000000123456789.9.x7"), Some(meta));
        assert_eq!(parse_ack_subject("$JS.ACK._.hash.S.c.1.7.3.1700000000123456789.9"), Some(meta));
        for junk in [
            "",
            "_INBOX.x",
            "$JS.ACK.S.c.1.7.3.9",
            "$JS.ACK.S.c.1.x.3.4.5",
            "$JS.ACK.S.c.1.99999999999999999999.3.4.5",
            "$JS.ACK.S.c.1.-7.3.4.5",
        ] {
            assert_eq!(parse_ack_subject(junk), None, "{junk}");
        }
    }

    #[test]
    fn number_of_every_length_is_parsed() {
        for value in [0, 7, 12_345_678, 123_456_789, 99_999_999, 10_000_000_000_000_000, i64::MAX] {
            assert_eq!(number(&value.to_string()), Some(value));
        }
        assert_eq!(number("00000000000000012"), Some(12));
        // The first number above the maximum, and every wrong byte at every position.
        assert_eq!(number("9223372036854775808"), None);
        assert_eq!(number(""), None);
        for place in 0..17 {
            for wrong in (0u8..128).filter(|b| !b.is_ascii_digit()) {
                let mut text = *b"12345678123456789";
                text[place] = wrong;
                assert_eq!(std::str::from_utf8(&text).ok().and_then(number), None, "{wrong} at {place}");
            }
        }
    }
}

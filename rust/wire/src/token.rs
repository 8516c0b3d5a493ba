//! Numbers as tokens of reply subjects, with 6 bits per character. They are short because each message carries its
//! token twice: in the publish and in the ack.

/// Appends the token of a number, lowest digit first.
pub fn write_token(mut token: u64, out: &mut Vec<u8>) {
    const BASE_64: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
    loop {
        out.push(BASE_64[(token & 63) as usize]);
        token >>= 6;
        if token == 0 {
            return;
        }
    }
}

/// Returns the number of a token; `None` if it is invalid.
pub fn read_token(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 10 {
        return None;
    }
    text.iter().rev().try_fold(0u64, |token, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'A'..=b'Z' => byte - b'A' + 10,
            b'a'..=b'z' => byte - b'a' + 36,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        Some(token << 6 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_round_trip_returns_the_number() {
        for token in [0, 1, 63, 64, 4_999, 1 << 40, (1 << 60) - 1] {
            let mut text = Vec::new();
            write_token(token, &mut text);
            assert_eq!(read_token(&text), Some(token));
        }
        for junk in [&b""[..], b"a.b", b"00000000000", b"\xff"] {
            assert_eq!(read_token(junk), None);
        }
    }
}

//! Extensions of JSON that the lenient rules accept.

use super::json::Json;

impl Json<'_> {
    /// Consumes a float that JSON lacks, in quotes or without. None is consumed if the rules have none.
    #[inline]
    pub fn non_finite(&mut self) -> Option<f64> {
        const NAMES: [(&str, f64); 7] = [
            ("NaN", f64::NAN),
            ("Infinity", f64::INFINITY),
            ("+Infinity", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("INF", f64::INFINITY),
            ("+INF", f64::INFINITY),
            ("-INF", f64::NEG_INFINITY),
        ];
        if !self.leniency.non_finite || self.peek().is_ascii_digit() {
            return None;
        }
        let start = self.at;
        let quoted = self.takes(b"\"");
        for (name, value) in NAMES {
            let end = self.at;
            if self.takes(name.as_bytes()) && (!quoted || self.takes(b"\"")) {
                return Some(value);
            }
            self.at = end;
        }
        self.at = start;
        None
    }
}

/// Appends valid JSON without the white space between its tokens.
pub fn compact(text: &[u8], data: &mut Vec<u8>) {
    let (mut quoted, mut escaped) = (false, false);
    for byte in text {
        if quoted || !byte.is_ascii_whitespace() {
            data.push(*byte);
        }
        quoted ^= *byte == b'"' && !escaped;
        escaped = quoted && *byte == b'\\' && !escaped;
    }
}

//! Decoder of header blocks. It is lenient, because a server stores any block that a client publishes.
//!
//! Text that is not UTF-8 is read as Latin-1. A name can have any characters. A line without a colon is a name without
//! a value. Blocks that violate ADR-4 are reported as malformed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str;

/// Values by header name, sorted, so that repeated reads of a message return equal rows.
pub type Headers = BTreeMap<String, Vec<String>>;

const VERSION_PREFIX: &str = "NATS/";
/// The only version of the format.
const KNOWN_VERSION: &str = "NATS/1.0";

/// Returns a header block as text: UTF-8, or else Latin-1.
pub fn text(raw: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(raw) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => raw.iter().map(|byte| char::from(*byte)).collect::<String>().into(),
    }
}

/// Iterator over the names and values of a header block.
pub struct Lines<'a>(Peekable<str::Lines<'a>>);

impl<'a> Lines<'a> {
    /// Starts after the status line.
    pub fn of(text: &'a str) -> Self {
        let mut lines = text.lines().peekable();
        lines.next_if(|first| first.starts_with(VERSION_PREFIX));
        Lines(lines)
    }

    /// Returns the next line, joined with its continuation lines.
    fn whole(&mut self) -> Option<Cow<'a, str>> {
        let mut line = Cow::Borrowed(self.0.find(|line| !line.is_empty())?);
        while let Some(more) = self.0.next_if(|line| line.starts_with(char::is_whitespace)) {
            line += more;
        }
        Some(line)
    }
}

/// Yields name and trimmed value.
impl<'a> Iterator for Lines<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);

    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.whole()? {
            Cow::Borrowed(line) => {
                let (name, value) = line.split_once(':').unwrap_or((line, ""));
                (name.into(), value.trim().into())
            }
            Cow::Owned(line) => {
                let (name, value) = line.split_once(':').unwrap_or((&line, ""));
                (name.to_owned().into(), value.trim().to_owned().into())
            }
        })
    }
}

/// Returns all headers of a block.
pub fn parse(raw: &[u8]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in Lines::of(&text(raw)) {
        headers.entry(name.into_owned()).or_default().push(value.into_owned());
    }
    headers
}

/// Returns the last value of this header.
pub fn value(raw: &[u8], name: &str) -> Option<String> {
    Lines::of(&text(raw)).filter(|(found, _)| found == name).last().map(|(_, value)| value.into_owned())
}

/// Returns the status code and description of the first line; the code is 0 if there is none.
pub fn status(raw: &[u8]) -> (u16, String) {
    let text = text(raw);
    let first = text.lines().next().and_then(|first| first.strip_prefix(KNOWN_VERSION)).unwrap_or_default().trim();
    let (code, description) = first.split_once(' ').unwrap_or((first, ""));
    let is_code = code.len() == 3 && !code.starts_with('0') && code.bytes().all(|byte| byte.is_ascii_digit());
    match code.parse() {
        Ok(code) if is_code => (code, description.trim().to_owned()),
        _ => (0, String::new()),
    }
}

/// True if the block violates ADR-4.
pub fn is_malformed(raw: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(raw) else { return true };
    let Some(first) = text.lines().next().and_then(|first| first.strip_prefix(KNOWN_VERSION)) else { return true };
    if !first.trim().is_empty() && status(raw).0 == 0 {
        return true;
    }
    let mut lines = Lines::of(text);
    while let Some(line) = lines.whole() {
        let Some((name, value)) = line.split_once(':') else { return true };
        let named = !name.contains(|c: char| !c.is_ascii_graphic());
        if !named || value.trim().contains('\r') {
            return true;
        }
    }
    false
}

/// Encodes headers as a block.
pub fn block(headers: &Headers) -> Vec<u8> {
    let mut block = format!("{KNOWN_VERSION}\r\n");
    for (name, values) in headers {
        values.iter().for_each(|value| block += &format!("{name}: {value}\r\n"));
    }
    block += "\r\n";
    block.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_blocks_are_detected_and_read() {
        for (raw, malformed, wanted) in [
            (&b"NATS/1.0\r\nA: 1\r\nB:2 \r\nA:3\r\n\r\n"[..], false, vec![("A", vec!["1", "3"]), ("B", vec!["2"])]),
            (b"NATS/1.0 503 none\r\nA: 1\r\n  2\r\n\r\n", false, vec![("A", vec!["1  2"])]),
            (b"NATS/1.0\r\nA:\r\n\r\n", false, vec![("A", vec![""])]),
            (b"NATS/1.0\r\n\r\n", false, vec![]),
            (b"NATS/1.0\r\nName: caf\xe9\r\n\r\n", true, vec![("Name", vec!["café"])]),
            (b"NATS/1.0\r\nA b: 1\r\n\r\n", true, vec![("A b", vec!["1"])]),
            (b"NATS/1.0\r\nno colon\r\n\r\n", true, vec![("no colon", vec![""])]),
            (b"NATS/1.0\r\nA: 1\r2\r\n\r\n", true, vec![("A", vec!["1\r2"])]),
            (b"NATS/2.0\r\nA: 1\r\n\r\n", true, vec![("A", vec!["1"])]),
            (b"NATS/1.0 x\r\n\r\n", true, vec![]),
            (b"", true, vec![]),
        ] {
            assert_eq!(is_malformed(raw), malformed, "{raw:?}");
            let found = parse(raw);
            assert_eq!(parse(&block(&found)), found);
            let found: Vec<_> =
                found.iter().map(|(n, v)| (n.as_str(), v.iter().map(String::as_str).collect::<Vec<_>>())).collect();
            assert_eq!(found, wanted, "{raw:?}");
            for (name, values) in found {
                assert_eq!(value(raw, name).as_deref(), values.last().copied());
            }
        }
        assert_eq!(value(b"NATS/1.0\r\nA: 1\r\n\r\n", "a"), None);
    }

    #[test]
    fn status_has_a_code_and_a_description() {
        for (raw, wanted) in [
            (&b"NATS/1.0 503\r\n\r\n"[..], (503, "")),
            (b"NATS/1.0 409  Consumer Deleted \r\nA: 1\r\n\r\n", (409, "Consumer Deleted")),
            (b"NATS/1.0\r\nA: 1\r\n\r\n", (0, "")),
            (b"NATS/1.0 99 x\r\n\r\n", (0, "")),
            (b"NATS/1.0 +50 x\r\n\r\n", (0, "")),
            (b"NATS/2.0 503 x\r\n\r\n", (0, "")),
            (b"", (0, "")),
        ] {
            assert_eq!(status(raw), (wanted.0, wanted.1.to_owned()), "{raw:?}");
        }
    }
}

//! Decoder of header blocks. It is lenient, because a server stores any block that a client publishes.
//!
//! A name or a value that is not UTF-8 is read as Latin-1. A name can have any characters. A line without a colon is a name without
//! a value. Blocks that violate ADR-4 are reported as malformed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::slice::SplitInclusive;
use std::str;

/// Values by header name, sorted, so that repeated reads of a message return equal rows.
pub type Headers = BTreeMap<String, Vec<String>>;

const VERSION_PREFIX: &[u8] = b"NATS/";
/// The only version of the format.
const KNOWN_VERSION: &str = "NATS/1.0";

/// Returns a name or a value as text: UTF-8, or else Latin-1.
pub fn text(raw: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(raw) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => raw.iter().map(|byte| char::from(*byte)).collect::<String>().into(),
    }
}

/// Returns a value as text. In UTF-8, white space of every kind around it is removed, as in async-nats.
pub fn value_text(raw: &[u8]) -> Cow<'_, str> {
    match text(raw) {
        Cow::Borrowed(text) => text.trim().into(),
        latin => latin,
    }
}

type RawLines<'a> = SplitInclusive<'a, u8, fn(&u8) -> bool>;

/// Iterator over the names and values of a header block.
pub struct Lines<'a> {
    lines: Peekable<RawLines<'a>>,
}

impl<'a> Lines<'a> {
    /// Starts after the status line.
    pub fn of(raw: &'a [u8]) -> Self {
        let is_end: fn(&u8) -> bool = |byte| *byte == b'\n';
        let mut lines = raw.split_inclusive(is_end).peekable();
        lines.next_if(|first| first.starts_with(VERSION_PREFIX));
        Lines { lines }
    }

    /// Returns the next line, joined with its continuation lines.
    fn whole(&mut self) -> Option<Cow<'a, [u8]>> {
        let mut line = Cow::Borrowed(self.lines.by_ref().map(without_end).find(|line| !line.is_empty())?);
        while let Some(more) = self.lines.next_if(|line| continues(without_end(line))) {
            line.to_mut().extend_from_slice(without_end(more));
        }
        Some(line)
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let Some(line) = line.strip_suffix(b"\n") else { return line };
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn continues(line: &[u8]) -> bool {
    let starts = |text: &str| text.starts_with(char::is_whitespace);
    line.first().is_some_and(|first| !first.is_ascii_graphic()) && str::from_utf8(line).is_ok_and(starts)
}

fn name_and_value(line: &[u8]) -> (&[u8], &[u8]) {
    let colon = line.iter().position(|byte| *byte == b':');
    let (name, value) = colon.map_or((line, &b""[..]), |at| (&line[..at], &line[at + 1..]));
    (name, value.trim_ascii())
}

/// Yields name and trimmed value.
impl<'a> Iterator for Lines<'a> {
    type Item = (Cow<'a, [u8]>, Cow<'a, [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.whole()? {
            Cow::Borrowed(line) => {
                let (name, value) = name_and_value(line);
                (name.into(), value.into())
            }
            Cow::Owned(line) => {
                let (name, value) = name_and_value(&line);
                (name.to_owned().into(), value.to_owned().into())
            }
        })
    }
}

/// Returns all headers of a block.
pub fn parse(raw: &[u8]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in Lines::of(raw) {
        headers.entry(text(&name).into_owned()).or_default().push(value_text(&value).into_owned());
    }
    headers
}

/// Returns the last value of this header.
pub fn value(raw: &[u8], name: &str) -> Option<String> {
    let found = Lines::of(raw).filter(|(found, _)| text(found) == name).last();
    found.map(|(_, value)| value_text(&value).into_owned())
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
    let mut lines = Lines::of(raw);
    while let Some(line) = lines.whole() {
        let (name, value) = name_and_value(&line);
        if !line.contains(&b':') || !name.iter().all(u8::is_ascii_graphic) || value.contains(&b'\r') {
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
            (b"NATS/1.0\r\nA: \xc3\xa9\r\nB: \xff\r\n\r\n", true, vec![("A", vec!["é"]), ("B", vec!["ÿ"])]),
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

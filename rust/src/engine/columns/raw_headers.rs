//! Headers as they are stored, read by ourselves: leniently, because a server stores whatever was published.
//!
//! The link is dropped on what `is_malformed` names. `parse` takes all of it: text that is not UTF-8 is read
//! as Latin-1, a name may have any characters, a line without a colon is a name without a value.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;

use async_nats::{HeaderName, StatusCode};

/// Sorted by name: the same message gives the same row each time it is read.
pub type RawHeaders = BTreeMap<String, Vec<String>>;

const VERSION: &str = "NATS/";
/// The only version there is.
const KNOWN_VERSION: &str = "NATS/1.0";

/// True where `connection/client/parse.rs` cannot read them.
pub fn is_malformed(raw: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(raw) else { return true };
    let mut lines = text.lines().peekable();
    let Some(rest) = lines.next().and_then(|first| first.strip_prefix(KNOWN_VERSION)) else { return true };
    let rest = rest.trim();
    let status = rest.split_once(' ').map_or(rest, |(status, _)| status.trim());
    if !status.is_empty() && StatusCode::from_str(status).is_err() {
        return true;
    }
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        let Some((name, value)) = line.split_once(':') else { return true };
        let mut value = value.trim_start().to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with(char::is_whitespace)) {
            value.push_str(more);
        }
        if HeaderName::from_str(name).is_err() || value.trim_end().contains('\r') {
            return true;
        }
    }
    false
}

pub fn parse(raw: &[u8]) -> RawHeaders {
    let text = match std::str::from_utf8(raw) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => raw.iter().map(|byte| char::from(*byte)).collect::<String>().into(),
    };
    let mut headers = RawHeaders::new();
    let mut lines = text.lines().peekable();
    lines.next_if(|first| first.starts_with(VERSION));
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let mut value = value.trim_start().to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with(char::is_whitespace)) {
            value.push_str(more);
        }
        headers.entry(name.to_owned()).or_default().push(value.trim_end().to_owned());
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_malformed_and_how_it_is_read() {
        for (raw, malformed, wanted) in [
            (&b"NATS/1.0\r\nA: 1\r\nB:2 \r\nA:3\r\n\r\n"[..], false, vec![("A", vec!["1", "3"]), ("B", vec!["2"])]),
            (b"NATS/1.0 503 none\r\nA: 1\r\n  2\r\n\r\n", false, vec![("A", vec!["1  2"])]),
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
            let found: Vec<_> =
                found.iter().map(|(n, v)| (n.as_str(), v.iter().map(String::as_str).collect::<Vec<_>>())).collect();
            assert_eq!(found, wanted, "{raw:?}");
        }
    }
}

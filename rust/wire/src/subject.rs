//! Validation of subjects, names and headers before they are sent.
//!
//! One invalid byte on a protocol line ends the connection or starts another command.

use base::error::{JetError, Result};

/// Maximum bytes of a subject. The server closes the connection after a line above 4,096 bytes (`max_control_line`),
/// and subject and reply subject share a line.
const MAX_SUBJECT: usize = 3_072;

/// Validates a subject to publish to: as [`check_tokens`], and without wildcards.
pub fn check(subject: &str) -> Result<()> {
    check_tokens(subject)?;
    if subject.split('.').any(|t| t == "*" || t == ">") {
        let reason = "it has a wildcard, which only subscriptions may have";
        return Err(JetError::BadSubject { subject: shorten(subject), reason });
    }
    Ok(())
}

/// Validates a subject to subscribe to: `*` is a whole token, `>` is the last token.
pub fn check_subscription(subject: &str) -> Result<()> {
    check_tokens(subject)?;
    let mut tokens = subject.split('.').rev().skip(1);
    if tokens.any(|t| t == ">") {
        let reason = "the wildcard > must be the last token";
        return Err(JetError::BadSubject { subject: shorten(subject), reason });
    }
    if subject.split('.').any(|t| t.len() > 1 && t.contains(['*', '>'])) {
        let reason = "a wildcard must be a whole token";
        return Err(JetError::BadSubject { subject: shorten(subject), reason });
    }
    Ok(())
}

/// Validates the name of a queue group: one word on a protocol line.
pub fn check_queue(queue: &str) -> Result<()> {
    if queue.is_empty() || queue.len() > MAX_SUBJECT || queue.bytes().any(|b| b <= b' ' || b == 0x7f) {
        let reason = "a queue name has at least one character, no white space and no control character";
        return Err(JetError::BadSubject { subject: shorten(queue), reason });
    }
    Ok(())
}

/// True if the filter, which may have wildcards, matches the subject.
pub fn matches(filter: &str, subject: &str) -> bool {
    let (mut filter, mut subject) = (filter.split('.'), subject.split('.'));
    loop {
        match (filter.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some(wanted), Some(token)) if wanted == "*" || wanted == token => {}
            _ => return false,
        }
    }
}

/// Validates dot-separated tokens: none is empty, and none has white space or control characters. Wildcards are
/// allowed, because an API subject can end with a consumer's filter.
pub fn check_tokens(subject: &str) -> Result<()> {
    check_line(subject)?;
    if subject.split('.').any(str::is_empty) {
        let reason = "it has an empty token (a dot at an end, or two dots in a row)";
        return Err(JetError::BadSubject { subject: shorten(subject), reason });
    }
    Ok(())
}

/// Validates only that the subject is one word on a protocol line. The caller is responsible for its meaning.
pub fn check_line(subject: &str) -> Result<()> {
    let reason = if subject.is_empty() {
        "it is empty"
    } else if subject.len() > MAX_SUBJECT {
        "it is longer than 3072 bytes"
    } else if subject.bytes().any(|b| b <= b' ' || b == 0x7f) {
        "it has white space or a control character"
    } else {
        return Ok(());
    };
    Err(JetError::BadSubject { subject: shorten(subject), reason })
}

/// Validates the name of a stream or consumer, which becomes one token of an API subject.
pub fn check_name(what: &str, name: &str) -> Result<()> {
    let refused = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '.' | '*' | '>' | '/' | '\\');
    // The texts begin as in nats-py, because programs search for them.
    if name.is_empty() {
        return Err(JetError::Value(format!("nats: {what} name is required")));
    }
    if name.contains(refused) {
        return Err(JetError::Value(format!(
            "nats: invalid {what} name: '{}'; no white space, dots, wildcards or path separators",
            shorten(name).escape_debug()
        )));
    }
    Ok(())
}

/// Validates a header: the name is an RFC 7230 token (ADR-4), the value has no line break.
pub fn check_header(name: &str, value: &str) -> Result<()> {
    let reason = if name.is_empty() {
        "the name is empty"
    } else if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)) {
        "the name may have letters, digits and !#$%&'*+-.^_`|~ only (RFC 7230)"
    } else if value.bytes().any(|b| b == b'\r' || b == b'\n') {
        "the value has a line break, which would end the header"
    } else {
        return Ok(());
    };
    Err(JetError::BadHeader { name: shorten(name), reason })
}

/// Returns the first 80 characters of a text, for an error.
fn shorten(text: &str) -> String {
    const MAX_QUOTED: usize = 80;
    match text.char_indices().nth(MAX_QUOTED) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_validated() {
        for good in ["a", "a.b", "$JS.API.INFO", "grüße.öl", "a.b*c.d>"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let long = "x".repeat(5_000);
        for bad in
            ["", " ", "a b", "a\r\nPUB b 0", "a\tb", "a\0b", ".a", "a.", "a..b", "a.*", ">", "a.>", long.as_str()]
        {
            assert!(matches!(check(bad), Err(JetError::BadSubject { .. })), "{bad:?}");
        }
        assert_eq!(check_subscription("a.*.>"), Ok(()));
        for bad in ["", "a.>.b", "a b", "a..b", "a>", "*a", "a.b*.c"] {
            assert!(check_subscription(bad).is_err(), "{bad:?}");
        }
        assert!(check_queue("workers").is_ok() && check_queue("a b").is_err() && check_queue("a\r\n").is_err());
        assert_eq!(check_tokens("$JS.API.CONSUMER.CREATE.S.c.a.*.>"), Ok(()));
    }

    #[test]
    fn names_and_headers_are_validated() {
        assert!(check_name("stream", "ORDERS-1_x").is_ok());
        for bad in ["", "a.b", "a b", "*", "a/b"] {
            assert!(check_name("stream", bad).is_err(), "{bad:?}");
        }
        assert!(check_header("Nats-Msg-Id", "any: value, grüße").is_ok());
        for (name, value) in
            [("", "v"), ("a b", "v"), ("a:b", "v"), ("a\r\n", "v"), ("ä", "v"), ("a", "x\r\nb: c"), ("a", "\n")]
        {
            assert!(check_header(name, value).is_err(), "{name:?} {value:?}");
        }
    }
}

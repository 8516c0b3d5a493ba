//! The one error type of the engine.

use std::time::Duration;

use thiserror::Error;

pub mod rollback;

use rollback::Rollback;

pub type Result<T, E = JetError> = std::result::Result<T, E>;

/// What went wrong, in words for the user: what was attempted, what the server answered, what to do.
/// Never holds a secret or a debug dump; cloned because one cause can end many rows.
#[derive(Debug, Clone, Error, PartialEq)]
pub enum JetError {
    #[error("could not connect to {servers}: {cause}")]
    NoServers { servers: String, cause: String },
    /// None of them said anything.
    #[error("could not connect to {servers}: {cause}")]
    NoAnswer { servers: String, cause: String },
    #[error("bad server address {address:?}: {cause}; use nats://host:port")]
    BadAddress { address: String, cause: String },
    #[error("{servers} refused the credentials: {cause}")]
    Authorization { servers: String, cause: String },
    #[error("the credentials cannot be used: {cause}")]
    Credentials { cause: String },
    /// A user callback, called while connecting, raised; Python already holds the exception.
    #[error("{name} has failed")]
    Callback { name: &'static str },
    /// `first`: the handshake was to come before the server's first word, so that it is not known whether it has TLS.
    #[error("{}", if *.first {
        format!("{server} does not begin with a TLS handshake: nothing was sent; leave out tls_handshake_first \
                 (handshake_first of jetarrow.TLS), or set handshake_first in the server's tls block")
    } else {
        format!("{server} has no TLS, which was asked for: nothing was sent; use nats:// and no tls= if that is meant")
    })]
    SecureWanted { server: String, first: bool },
    #[error("the TLS handshake with {server} failed: {cause}")]
    SecureFailed { server: String, cause: String },
    #[error("no answer from {server} within {} s (connect_timeout)", .after.as_secs_f64())]
    ConnectTimeout { server: String, after: Duration },
    /// A socket or a file; `errno` makes it the right `OSError`.
    #[error("{what}: {cause}")]
    Io { what: String, cause: String, errno: Option<i32> },
    #[error("{server} ended the connection")]
    Eof { server: String },
    #[error("stale connection: {server} does not answer pings any more")]
    Stale { server: String },
    /// The server's words.
    #[error("{text}")]
    Permission { publish: bool, subject: String, text: String },
    #[error("{text}")]
    Server { text: String },
    /// `why` where it ended by itself.
    #[error("the connection to {servers} is closed{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Closed { servers: String, why: Option<String> },
    #[error(
        "the process ends: no further rows are read, and those that were read and not confirmed may or may not be stored"
    )]
    ProcessEnds,
    #[error("not connected, and the buffer for what is published meanwhile is full ({limit} bytes, pending_size)")]
    OutboundLimit { limit: usize },
    #[error("the server did not confirm within {} s that all was received", .after.as_secs_f64())]
    Flush { after: Duration },
    #[error("the link broke before the server confirmed that all was received: what was on its way may be lost")]
    FlushBroken,
    #[error("no answer to {what} within {} s", .after.as_secs_f64())]
    Timeout { what: String, after: Duration },
    /// `sent` is false where it is certain that it never was, and never will be.
    #[error("no answer to the {verb} to {subject:?} within {} s: {}", .after.as_secs_f64(), if *.sent {
        "it was sent, so that it may have been carried out, or may still be"
    } else {
        "it was not sent, because the connection was down or busy, and never will be"
    })]
    Unanswered { verb: &'static str, subject: String, after: Duration, sent: bool },
    #[error("no one listens on {subject:?}; is JetStream on, and the account right?")]
    NoResponders { subject: String },
    #[error("no stream takes the subject {subject:?}: create one that lists it, or correct the subject")]
    NoStream { subject: String },
    #[error(
        "the stream that takes the subject {subject:?} had no leader within {} s, or is offline: nothing was stored",
        .after.as_secs_f64()
    )]
    NoLeader { subject: String, after: Duration },
    #[error("bad subject {subject:?}: {reason}")]
    BadSubject { subject: String, reason: &'static str },
    #[error("bad header {name:?}: {reason}")]
    BadHeader { name: String, reason: &'static str },
    #[error("{what} has {size} bytes, the server takes at most {limit} (its max_payload, headers counted)")]
    MaxPayload { what: About, size: usize, limit: usize },
    /// The server's own words: code, err_code and description of a JetStream API error.
    #[error("{description} (code {code}, err_code {err_code})")]
    Api { code: i64, err_code: i64, description: String },
    #[error(
        "the connection went away before {what} was confirmed: it may or may not be stored; give it a message id to have it resent safely"
    )]
    Unconfirmed { what: About },
    /// An answer came that may be that of another message, or only one of several attempts has an answer.
    #[error(
        "it is not known whether {what} is stored: no answer to it was clearly its own, because a second stream or a service answers on its subject, the stream was rolled back or recreated, or an earlier attempt had no answer; give messages an id to have them resent safely"
    )]
    Ambiguous { what: About },
    #[error(
        "the connection went away before {what} was confirmed: it may or may not be stored, and was not sent again because the stream knows message ids for {} s only (its duplicate_window)",
        .window.as_secs_f64()
    )]
    Forgotten { what: About, window: Duration },
    /// A batch that was refused as a whole: nothing of it is stored.
    #[error("the batch was refused and nothing of it is stored{}: {cause}", .row.map(|r| format!(", because of row {r}")).unwrap_or_default())]
    Batch { row: Option<u64>, cause: Box<JetError> },
    #[error("{feature} needs {needs}; {has}")]
    Unsupported { feature: String, needs: String, has: String },
    #[error("{0}")]
    DataLoss(Box<Loss>),
    #[error("message {seq} does not fit the schema{}: {reason}", if .column.is_empty() { String::new() } else { format!(" in {column}") })]
    Decode { seq: i64, column: String, reason: String },
    /// With stream and sequence, where it is of one.
    #[error("the headers of {} are malformed: they were read as far as they can be", match .stored {
        Some((stream, seq)) => format!("message {seq} of stream {stream:?}"),
        None => format!("a message to {subject:?}"),
    })]
    Malformed { subject: String, stored: Option<(String, u64)> },
    #[error("{0}")]
    RolledBack(Box<Rollback>),
    #[error("stream {stream:?} was deleted and created again while it was read")]
    StreamRecreated { stream: String },
    /// A row that cannot be published; numbered like the rows of the call.
    #[error("row {row}: {reason}")]
    Row { row: u64, reason: String },
    #[error("sid not set: it came from no subscription")]
    NoSubscription,
    #[error("not a message of a stream")]
    NotJetStream,
    /// A wrong value in an argument; `argument` leads the text.
    #[error("{0}")]
    Value(String),
    #[error("{0}")]
    Type(String),
    #[error("this connection belongs to process {owner}; a forked child opens its own: call connect() in it")]
    Fork { owner: u32 },
    #[error("the server answered {what} with something unexpected: {answer}")]
    Protocol { what: String, answer: String },
    #[error("internal error (please report it): {0}")]
    Internal(String),
}

/// What an error is about.
#[derive(Debug, Clone, PartialEq)]
pub enum About {
    Row(u64),
    Other(String),
}

impl std::fmt::Display for About {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            About::Row(row) => write!(f, "row {row}"),
            About::Other(text) => f.write_str(text),
        }
    }
}

impl JetError {
    /// An answer that a server gives while it, or the stream's leader, is coming back: asking again may help.
    pub fn is_transient(&self) -> bool {
        const UNAVAILABLE: i64 = 503;
        matches!(
            self,
            JetError::Timeout { .. }
                | JetError::Unanswered { .. }
                | JetError::NoResponders { .. }
                | JetError::Api { code: UNAVAILABLE, .. }
        )
    }

    /// The same error for a message that was sent before its call was given up: it says that the message may be stored.
    pub fn of_sent(self, what: About) -> JetError {
        let unknown = format!("{what} was sent and may be stored");
        match self {
            JetError::Permission { publish, subject, text } => {
                let text = format!("{text} ({unknown}: no acknowledgement can come)");
                JetError::Permission { publish, subject, text }
            }
            JetError::Closed { servers, why } => {
                let why = why.map_or_else(|| unknown.clone(), |why| format!("{why}; {unknown}"));
                JetError::Closed { servers, why: Some(why) }
            }
            other => other,
        }
    }

    /// The same error with its rows counted from `first`, for a caller whose rows are a part of more.
    pub fn counted_from(self, first: u64) -> JetError {
        let about = |what: About| match what {
            About::Row(row) => About::Row(first.saturating_add(row)),
            other => other,
        };
        match self {
            JetError::Row { row, reason } => JetError::Row { row: first.saturating_add(row), reason },
            JetError::MaxPayload { what, size, limit } => JetError::MaxPayload { what: about(what), size, limit },
            JetError::Unconfirmed { what } => JetError::Unconfirmed { what: about(what) },
            JetError::Ambiguous { what } => JetError::Ambiguous { what: about(what) },
            JetError::Forgotten { what, window } => JetError::Forgotten { what: about(what), window },
            JetError::Batch { row, cause } => JetError::Batch {
                row: row.map(|row| first.saturating_add(row)),
                cause: Box::new(cause.counted_from(first)),
            },
            other => other,
        }
    }
}

/// What a range read asked for and what the stream still has.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    pub stream: String,
    /// Asked: [start, end).
    pub asked: (u64, u64),
    /// First sequence that can still be read.
    pub available: u64,
}

impl Loss {
    /// What happened, without what to do about it.
    pub fn summary(&self) -> String {
        let Loss { stream, asked: (start, end), available } = self;
        if start > available {
            return format!(
                "stream {stream:?} ends at {}: message {start}, where the read was to begin, is beyond its end; the \
                 server may have come back with less than it had, or the position is another stream's",
                available - 1
            );
        }
        format!(
            "messages {start} to {} of stream {stream:?} are gone (retention, purge or delete): asked for [{start}, {end}), available from {available}",
            available.min(end).saturating_sub(1)
        )
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let remedy = match self.asked.0 > self.available {
            true => "follow=True waits for it",
            false => "start there, or pass on_data_loss=\"warn\" to read what is left",
        };
        write!(f, "{}; {remedy}", self.summary())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_from_where_the_caller_says() {
        let row = JetError::Row { row: 2, reason: "the payload is null".into() };
        let refused = JetError::Batch { row: Some(2), cause: Box::new(row) };
        assert_eq!(
            refused.counted_from(100).to_string(),
            "the batch was refused and nothing of it is stored, because of row 102: row 102: the payload is null"
        );
        let large = JetError::MaxPayload { what: About::Row(1), size: 9, limit: 8 };
        assert!(large.counted_from(10).to_string().starts_with("row 11 has 9 bytes"));
        let other = JetError::Unconfirmed { what: About::Other("the atomic batch".into()) };
        assert_eq!(other.clone().counted_from(5), other);
    }

    #[test]
    fn a_loss_says_what_is_gone_and_what_to_do() {
        let loss = Loss { stream: "S".into(), asked: (3, 9), available: 7 };
        assert_eq!(
            loss.summary(),
            "messages 3 to 6 of stream \"S\" are gone (retention, purge or delete): asked for [3, 9), available from 7"
        );
        assert!(loss.to_string().starts_with(&format!("{}; start there", loss.summary())));
    }
}

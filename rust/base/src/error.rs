//! The error type of all crates.

use std::time::Duration;

use thiserror::Error;

pub mod rollback;

use rollback::Rollback;

pub type Result<T, E = JetError> = std::result::Result<T, E>;

/// The `err_code` of a stream with more unprocessed messages than the server's `max_buffered_msgs`, 10,000 by default.
const STREAM_BUSY: i64 = 10_167;

/// An error of the engine: what failed, what the server or the system answered, and what to do.
///
/// Never holds a secret or a debug dump. It is cloned because one cause can fail many rows.
#[derive(Debug, Clone, Error, PartialEq)]
pub enum JetError {
    #[error("could not connect to {servers}: {cause}; check the address, and that a server runs there")]
    NoServers { servers: String, cause: String },
    /// No server of the list responded in time.
    #[error("could not connect to {servers}: {cause}; check the address, and that a server runs there")]
    NoAnswer { servers: String, cause: String },
    #[error("invalid server address {address:?}: {cause}; use nats://host:port")]
    BadAddress { address: String, cause: String },
    #[error("{servers} rejected the credentials: {cause}")]
    Authorization { servers: String, cause: String },
    #[error("could not use the credentials: {cause}")]
    Credentials { cause: String },
    /// A user callback raised an exception while connecting. Python already holds the exception.
    #[error("callback {name} raised an exception")]
    Callback { name: &'static str },
    /// `first`: the client was to start TLS before the server's INFO, so the server's TLS support is unknown.
    #[error("{}", if *.first {
        format!("{server} does not begin with a TLS handshake, so nothing was sent; leave out tls_handshake_first \
                 (handshake_first of jetarrow.TLS), or set handshake_first in the server's tls block")
    } else {
        format!("{server} has no TLS, so nothing was sent; to connect without encryption use nats:// and no tls=")
    })]
    SecureWanted { server: String, first: bool },
    #[error("the TLS handshake with {server} failed: {cause}; check the certificates and the host name")]
    SecureFailed { server: String, cause: String },
    #[error("{server} did not respond within {} s (connect_timeout); check the address and the network", .after.as_secs_f64())]
    ConnectTimeout { server: String, after: Duration },
    /// A socket or file operation failed. `errno` selects the subclass of Python's `OSError`.
    #[error("{what}: {cause}")]
    Io { what: String, cause: String, errno: Option<i32> },
    #[error("{server} closed the connection")]
    Eof { server: String },
    #[error("stale connection: {server} did not answer pings; check the server and the network")]
    Stale { server: String },
    /// `text` is the server's.
    #[error("{text}")]
    Permission { publish: bool, subject: String, text: String },
    #[error("{text}")]
    Server { text: String },
    /// `why` is set if the connection closed without a call of `close()`.
    #[error("the connection to {servers} is closed{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Closed { servers: String, why: Option<String> },
    #[error(
        "the process exits, so publishing has stopped: rows without an ack may or may not be stored; finish the call before the exit"
    )]
    ProcessEnds,
    #[error(
        "disconnected, and the outbound buffer is full ({limit} bytes, pending_size); publish more slowly, or raise pending_size"
    )]
    OutboundLimit { limit: usize },
    #[error("the server did not answer the flush (PONG) within {} s; retry, or pass a longer timeout=", .after.as_secs_f64())]
    Flush { after: Duration },
    #[error("the connection was lost before the server answered the flush (PONG): messages in flight may be lost")]
    FlushBroken,
    #[error("no response to {what} within {} s; retry, or pass a longer timeout=", .after.as_secs_f64())]
    Timeout { what: String, after: Duration },
    /// `sent` is false only if the message was never sent and never will be.
    #[error("no response to the {verb} to {subject:?} within {} s: {}", .after.as_secs_f64(), if *.sent {
        "it was sent, so the server may have processed it, or may still do so"
    } else {
        "it was not sent, because the connection was down or busy, and will not be sent"
    })]
    Unanswered { verb: &'static str, subject: String, after: Duration, sent: bool },
    #[error("no responders on {subject:?} (status 503); {}", match .subject.starts_with("$JS.") {
        true => "check the domain and the account, and that JetStream is enabled",
        false => "start the service that answers on it, or check the subject and the account",
    })]
    NoResponders { subject: String },
    #[error("no stream has the subject {subject:?} (status 503); create one that lists it, or correct the subject")]
    NoStream { subject: String },
    #[error(
        "the stream of subject {subject:?} had no leader within {} s, or is offline: nothing was stored; retry later",
        .after.as_secs_f64()
    )]
    NoLeader { subject: String, after: Duration },
    #[error("invalid subject {subject:?}: {reason}")]
    BadSubject { subject: String, reason: &'static str },
    #[error("invalid header {name:?}: {reason}")]
    BadHeader { name: String, reason: &'static str },
    #[error(
        "{what} has {size} bytes with its headers, and the server accepts at most {limit} (max_payload); send less, or raise it"
    )]
    MaxPayload { what: About, size: usize, limit: usize },
    /// Code, err_code and description of a JetStream API error, as the server sent them, and the stream if it names one.
    #[error("{description} (code {code}, err_code {err_code})")]
    Api { code: i64, err_code: i64, description: String, stream: Option<String> },
    #[error(
        "the connection was lost before {what} was acknowledged, so it may or may not be stored; give messages an id, so that they are resent safely"
    )]
    Unconfirmed { what: About },
    /// An ack may belong to another message, or only one of several attempts has an ack.
    #[error(
        "no ack can be attributed to {what}, so it may or may not be stored: a second stream or a service answers on its subject, the stream was rolled back or recreated, or an earlier attempt had no ack; give messages an id, so that they are resent safely"
    )]
    Ambiguous { what: About },
    #[error(
        "the connection was lost before {what} was acknowledged, so it may or may not be stored; it was not resent, because the stream detects duplicates for {} s only; raise duplicate_window",
        .window.as_secs_f64()
    )]
    Forgotten { what: About, window: Duration },
    /// The server or the client rejected a whole batch: nothing of it is stored.
    #[error("the batch was rejected, and nothing of it is stored{}: {cause}", .row.map(|r| format!(", because of row {r}")).unwrap_or_default())]
    Batch { row: Option<u64>, cause: Box<JetError> },
    #[error("{feature} needs {needs}; {has}")]
    Unsupported { feature: String, needs: String, has: String },
    #[error("{0}")]
    DataLoss(Box<Loss>),
    #[error("message {seq} does not fit the schema{}: {reason}", if .column.is_empty() { String::new() } else { format!(" in {column}") })]
    Decode { seq: i64, column: String, reason: String },
    #[error("{0}")]
    Registry(Box<RegistryFailure>),
    /// `stored` is set if the message is stored in a stream.
    #[error("the headers of {} are malformed; their readable part is delivered", match .stored {
        Some((stream, seq)) => format!("message {seq} of stream {stream:?}"),
        None => format!("a message to {subject:?}"),
    })]
    Malformed { subject: String, stored: Option<(String, u64)> },
    #[error("{0}")]
    RolledBack(Box<Rollback>),
    #[error("stream {stream:?} was deleted and created again during the read; start a new read")]
    StreamRecreated { stream: String },
    /// A row that cannot be published. Its number counts from the first row of the call.
    #[error("row {row}: {reason}")]
    Row { row: u64, reason: String },
    #[error("sid not set: the message has no subscription")]
    NoSubscription,
    #[error("not a JetStream message: its reply subject is not an ack subject")]
    NotJetStream,
    /// An invalid argument value. The text starts with the argument's name.
    #[error("{0}")]
    Value(String),
    #[error("{0}")]
    Type(String),
    #[error(
        "could not use the connection of process {owner} in a forked process; call connect() in the forked process"
    )]
    Fork { owner: u32 },
    #[error("unexpected response to {what}: {answer}")]
    Protocol { what: String, answer: String },
    #[error("internal error (please report it): {0}")]
    Internal(String),
}

/// The subject of an error: a row of the call, or a description.
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
    /// True if there was no answer, not even 503 No Responders.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, JetError::Timeout { .. } | JetError::Unanswered { .. })
    }

    /// True for an error that can end with a retry, because the server or the stream's leader restarts.
    pub fn is_transient(&self) -> bool {
        const UNAVAILABLE: i64 = 503;
        self.is_unanswered() || matches!(self, JetError::NoResponders { .. } | JetError::Api { code: UNAVAILABLE, .. })
    }

    /// The answer of a stream whose queue of incoming messages is full: it did not store the message.
    pub fn stream_busy() -> JetError {
        JetError::Api { code: 429, err_code: STREAM_BUSY, description: "too many requests".to_owned(), stream: None }
    }

    pub fn is_stream_busy(&self) -> bool {
        matches!(self, JetError::Api { err_code: STREAM_BUSY, .. })
    }

    /// Adds that the message was sent and may be stored, for a message whose call was cancelled.
    pub fn of_sent(self, what: About) -> JetError {
        let unknown = format!("{what} was sent and may be stored");
        match self {
            JetError::Permission { publish, subject, text } => {
                let text = format!("{text} ({unknown}: no ack can arrive)");
                JetError::Permission { publish, subject, text }
            }
            JetError::Closed { servers, why } => {
                let why = why.map_or_else(|| unknown.clone(), |why| format!("{why}; {unknown}"));
                JetError::Closed { servers, why: Some(why) }
            }
            other => other,
        }
    }

    /// Adds `first` to the row numbers, for a caller that publishes a part of a larger table.
    pub fn counted_from(self, first: u64) -> JetError {
        self.renumbered(&|row| first.saturating_add(row))
    }

    /// Replaces the row numbers.
    pub fn renumbered(self, number: &dyn Fn(u64) -> u64) -> JetError {
        let about = |what: About| match what {
            About::Row(row) => About::Row(number(row)),
            other => other,
        };
        match self {
            JetError::Row { row, reason } => JetError::Row { row: number(row), reason },
            JetError::MaxPayload { what, size, limit } => JetError::MaxPayload { what: about(what), size, limit },
            JetError::Unconfirmed { what } => JetError::Unconfirmed { what: about(what) },
            JetError::Ambiguous { what } => JetError::Ambiguous { what: about(what) },
            JetError::Forgotten { what, window } => JetError::Forgotten { what: about(what), window },
            JetError::Batch { row, cause } => {
                JetError::Batch { row: row.map(number), cause: Box::new(cause.renumbered(number)) }
            }
            other => other,
        }
    }
}

/// A schema registry that does not answer, or refuses.
#[derive(Debug, Clone, Error, PartialEq)]
#[error("schema registry {url}: no answer to use about {what}: {cause}")]
pub struct RegistryFailure {
    pub url: String,
    pub what: String,
    pub cause: String,
    pub status: Option<u16>,
    /// The registry's `error_code`.
    pub code: Option<i64>,
    pub schema_id: Option<u32>,
}

/// A requested range of sequences, and the first sequence that the stream still has.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    pub stream: String,
    /// The requested range: [start, end).
    pub asked: (u64, u64),
    /// First sequence that can still be read.
    pub available: u64,
}

impl Loss {
    /// The loss without a remedy.
    pub fn summary(&self) -> String {
        let Loss { stream, asked: (start, end), available } = self;
        if start > available {
            return format!(
                "stream {stream:?} ends at {}, before message {start} at which the read starts; the server may have lost \
                 messages, or the position is of another stream",
                available - 1
            );
        }
        format!(
            "messages {start} to {} of stream {stream:?} are gone (retention, purge or delete): requested [{start}, {end}), available from {available}",
            available.min(end).saturating_sub(1)
        )
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let remedy = match self.asked.0 > self.available {
            true => "pass follow=True to wait for it",
            false => "start there, or pass on_data_loss=\"warn\" to read what is left",
        };
        write!(f, "{}; {remedy}", self.summary())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_from_adds_the_first_row_to_all_row_numbers() {
        let row = JetError::Row { row: 2, reason: "the payload is null".into() };
        let refused = JetError::Batch { row: Some(2), cause: Box::new(row) };
        assert_eq!(
            refused.counted_from(100).to_string(),
            "the batch was rejected, and nothing of it is stored, because of row 102: row 102: the payload is null"
        );
        let large = JetError::MaxPayload { what: About::Row(1), size: 9, limit: 8 };
        assert!(large.counted_from(10).to_string().starts_with("row 11 has 9 bytes"));
        let other = JetError::Unconfirmed { what: About::Other("the atomic batch".into()) };
        assert_eq!(other.clone().counted_from(5), other);
    }

    #[test]
    fn no_responders_text_names_jetstream_for_its_api_only() {
        let text = |subject: &str| JetError::NoResponders { subject: subject.into() }.to_string();
        assert!(
            text("orders.new").ends_with("start the service that answers on it, or check the subject and the account")
        );
        assert!(text("$JS.API.INFO").ends_with("that JetStream is enabled"));
    }

    #[test]
    fn loss_text_has_the_missing_range_and_a_remedy() {
        let loss = Loss { stream: "S".into(), asked: (3, 9), available: 7 };
        assert_eq!(
            loss.summary(),
            "messages 3 to 6 of stream \"S\" are gone (retention, purge or delete): requested [3, 9), available from 7"
        );
        assert!(loss.to_string().starts_with(&format!("{}; start there", loss.summary())));
    }
}

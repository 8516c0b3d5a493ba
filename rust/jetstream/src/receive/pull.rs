//! Pull requests over a plain subscription: their JSON, and the meaning of status messages (ADR-13, ADR-37).

use std::time::Duration;

use bytes::Bytes;

use crate::api::next_message;
use crate::receive::limits::Limit;
use crate::receive::priority::Member;
use base::error::{JetError, Result};
use client::Connection;
use client::outbox::Outgoing;
use client::pull_budget::Reservation;
use client::refusals::Refusals;
use client::traffic::Verb;
use client::transport::Subscriber;
use wire::message::Message;

/// Maximum number of messages of one request.
pub const PULL_ROWS: usize = 10_000;
/// Maximum outstanding bytes. The server disconnects a client that it cannot write 64 MiB to, and 16 MiB keep it busy.
pub const PULL_BYTES: usize = 16 << 20;

/// Maximum length of subject and reply, which the server counts in addition to payload and headers. They share a line
/// of 4,096 bytes.
pub const PROTOCOL_LINE: usize = 4096;

/// Maximum wait until a request can be sent, for callers without a deadline.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Status of a request whose pin ID belongs to another client or to none.
const WRONG_PIN: u16 = 423;

/// One pull request.
#[derive(Clone, Copy, Debug, Default)]
pub struct PullOptions {
    pub batch: usize,
    pub max_bytes: usize,
    /// Zero: none; then `no_wait` must be set.
    pub expires: Duration,
    pub no_wait: bool,
    pub heartbeat: Duration,
}

impl PullOptions {
    fn json(&self) -> String {
        let mut text = format!("{{\"batch\":{}", self.batch);
        for (key, value) in [
            ("max_bytes", self.max_bytes as u128),
            ("expires", self.expires.as_nanos()),
            ("idle_heartbeat", self.heartbeat.as_nanos()),
        ] {
            if value > 0 {
                text.push_str(&format!(",\"{key}\":{value}"));
            }
        }
        if self.no_wait {
            text.push_str(",\"no_wait\":true");
        }
        text.push('}');
        text
    }
}

/// Meaning of a status message.
#[derive(Debug, PartialEq)]
pub enum Status {
    Heartbeat,
    /// The request ended regularly: no messages, timeout, batch completed, or bytes reached.
    Over {
        /// Number of requested messages that do not follow, if the server reports it.
        unserved: Option<usize>,
        /// A message is larger than the request allows.
        too_large: bool,
    },
    /// The consumer has no leader at present, or was deleted: look it up, then repeat the request.
    Gone(String),
    /// The request exceeded a limit of the consumer. The error is for callers that cannot reduce the request.
    Limited(Limit, JetError),
    /// A repeated request would get the same answer.
    Refused(JetError),
}

/// A consumer's request subject, and the inbox of its messages.
pub struct PullInbox {
    /// Subject of requests.
    subject: String,
    inbox: String,
    pub messages: Subscriber,
    refusals: Refusals,
    requests: u64,
    /// Group of the requests, if the consumer has priority groups.
    pub member: Option<Member>,
    verb: Verb,
    /// Reservation in the connection's pull budget while a request is outstanding.
    pub share: Option<Reservation>,
}

impl PullInbox {
    pub fn new(conn: &Connection, prefix: &str, stream: &str, consumer: &str, verb: Verb) -> Result<Self> {
        Self::for_subject(conn, next_message(prefix, stream, consumer), verb)
    }

    /// Creates an inbox for requests to this subject.
    pub fn for_subject(conn: &Connection, subject: String, verb: Verb) -> Result<Self> {
        let inbox = conn.new_inbox()?;
        let refusals = conn.refusals();
        let messages = conn.subscribe(format!("{inbox}.*"))?;
        Ok(PullInbox { subject, inbox, messages, refusals, requests: 0, member: None, verb, share: None })
    }

    /// Sends the request and returns its number.
    pub async fn request(&mut self, conn: &Connection, request: &PullOptions) -> Result<u64> {
        let mut text = request.json();
        if let Some(member) = &self.member {
            text.pop();
            text.push_str(&member.json());
            text.push('}');
        }
        self.send(conn, text).await
    }

    /// Sends a request in JSON.
    pub async fn send(&mut self, conn: &Connection, request: String) -> Result<u64> {
        // Acks that make room for the request must be sent first.
        let _stuck = tokio::time::timeout(SEND_TIMEOUT, conn.in_order()).await;
        self.requests += 1;
        let reply = format!("{}.{}", self.inbox, self.requests);
        let payload = Bytes::from(request);
        conn.traffic.sent(self.verb, payload.len());
        let (subject, reply) = (self.subject.as_str().into(), Some(reply.into()));
        conn.publish(Outgoing { subject, reply, headers: None, payload }, SEND_TIMEOUT).await?;
        Ok(self.requests)
    }

    /// Returns the permission error of the request or the inbox, after which no answer follows.
    pub fn refused(&mut self) -> Option<JetError> {
        let refused = self.refusals.take_all();
        refused.publish(&self.subject).or_else(|| refused.subscription(&format!("{}.*", self.inbox))).cloned()
    }

    /// Returns number and meaning of a status; `None` for a message of the stream.
    pub fn status(&self, message: &Message) -> Option<(u64, Status)> {
        let rest = message.subject_bytes().strip_prefix(self.inbox.as_bytes());
        let number = rest.and_then(|rest| str::from_utf8(rest).ok()?.strip_prefix('.')?.parse().ok());
        if let Some(member) = &self.member {
            match number {
                Some(_) if message.status().is_some_and(|(code, _)| code == WRONG_PIN) => member.unpinned(),
                Some(_) => {}
                None => member.hear(message),
            }
        }
        Some((number?, status(message)))
    }
}

/// Returns the consumer sequence of the last delivered message, as a heartbeat has it.
pub fn last_consumer_seq(message: &Message) -> Option<i64> {
    message.header("Nats-Last-Consumer")?.parse().ok()
}

fn status(message: &Message) -> Status {
    let (code, text) = message.status().unwrap_or_default();
    let unserved = message.header("Nats-Pending-Messages").and_then(|count| count.parse().ok());
    let lower = text.to_ascii_lowercase();
    match code {
        100 => Status::Heartbeat,
        404 | 408 | WRONG_PIN => Status::Over { unserved, too_large: false },
        409 if lower.starts_with("message size exceeds") => Status::Over { unserved, too_large: true },
        409 if lower.starts_with("batch completed") => Status::Over { unserved, too_large: false },
        409 if lower.contains("leadership change")
            || lower.contains("server shutdown")
            || lower.contains("consumer deleted") =>
        {
            Status::Gone(text)
        }
        409 if let Some(limit) = Limit::read(&lower) => Status::Limited(limit, rejected(code, text)),
        503 => Status::Gone("no answer from the consumer".into()),
        _ => Status::Refused(rejected(code, text)),
    }
}

fn rejected(code: u16, description: String) -> JetError {
    JetError::Api { code: i64::from(code), err_code: 0, description, stream: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, text: &str, unserved: Option<&str>) -> Status {
        let unserved = unserved.map_or(String::new(), |n| format!("Nats-Pending-Messages: {n}\r\n"));
        let headers = format!("NATS/1.0 {code} {text}\r\n{unserved}\r\n");
        status(&Message::new("_INBOX.x.1", "", headers.as_bytes(), b""))
    }

    #[test]
    fn statuses_are_classified() {
        assert_eq!(answer(100, "Idle Heartbeat", None), Status::Heartbeat);
        assert_eq!(answer(404, "No Messages", None), Status::Over { unserved: None, too_large: false });
        assert_eq!(answer(408, "Request Timeout", Some("9")), Status::Over { unserved: Some(9), too_large: false });
        assert_eq!(
            answer(409, "Message Size Exceeds MaxBytes", Some("3")),
            Status::Over { unserved: Some(3), too_large: true }
        );
        assert!(matches!(answer(409, "Leadership Change", None), Status::Gone(_)));
        assert!(matches!(answer(409, "Consumer Deleted", None), Status::Gone(_)));
        assert!(matches!(answer(503, "", None), Status::Gone(_)));
        for (text, expected) in [
            ("Exceeded MaxRequestBatch of 10", Limit::Batch(10)),
            ("Exceeded MaxRequestExpires of 1m0.5s", Limit::Expires(Duration::from_millis(60_500))),
            ("Exceeded MaxRequestMaxBytes of 2048", Limit::Bytes(2048)),
            ("Exceeded MaxWaiting", Limit::Waiting),
        ] {
            let Status::Limited(limit, JetError::Api { code: 409, description, .. }) = answer(409, text, None) else {
                panic!("{text}");
            };
            assert_eq!((limit, description.as_str()), (expected, text));
        }
        assert!(matches!(answer(409, "Exceeded something else of 5", None), Status::Refused(_)));
        assert!(matches!(answer(400, "Bad Request - heartbeat value too large", None), Status::Refused(_)));
    }

    #[test]
    fn requests_match_the_servers_json() {
        let request = PullOptions { batch: 5, no_wait: true, ..PullOptions::default() };
        assert_eq!(request.json(), r#"{"batch":5,"no_wait":true}"#);
        let request = PullOptions {
            batch: 1,
            max_bytes: 9,
            expires: Duration::from_secs(1),
            heartbeat: Duration::from_millis(500),
            no_wait: false,
        };
        assert_eq!(request.json(), r#"{"batch":1,"max_bytes":9,"expires":1000000000,"idle_heartbeat":500000000}"#);
    }
}

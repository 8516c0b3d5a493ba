//! JetStream API: subjects, requests, responses and error codes that the Rust core itself needs.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use crate::publish::dedup;
use base::error::{JetError, Result};
use client::Connection;
use client::request::Request;
use client::traffic::Verb;

/// Timeout of the core's own requests, before a retry or an error.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// `code` of a response: no such stream, consumer or message.
pub const NOT_FOUND: i64 = 404;
/// `err_code` "bad request": the server does not support the request.
pub const BAD_REQUEST: i64 = 10003;
/// `err_code` "batch publish ID unknown": the row was not stored, and its batch has ended.
pub const UNKNOWN_BATCH: i64 = 10208;
/// Maximum number of rows of an atomic batch, the server's own limit (err_code 10199).
pub const MAX_ATOMIC_ROWS: usize = 1_000;

/// Error that a server sends instead of a result.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct ApiError {
    pub code: i64,
    #[serde(default)]
    pub err_code: i64,
    #[serde(default)]
    pub description: String,
}

impl ApiError {
    /// Converts an error of a response that names a stream; a server leaves the name empty if it has none.
    pub fn of_stream(self, stream: Option<String>) -> JetError {
        let ApiError { code, err_code, description } = self;
        JetError::Api { code, err_code, description, stream: stream.filter(|name| !name.is_empty()) }
    }
}

impl From<ApiError> for JetError {
    fn from(error: ApiError) -> JetError {
        error.of_stream(None)
    }
}

#[derive(Deserialize)]
pub struct StreamInfo {
    /// Creation time as the server writes it.
    pub created: String,
    pub config: StreamConfig,
    pub state: StreamState,
    #[serde(default)]
    pub cluster: Cluster,
}

/// Cluster placement of a stream or a consumer.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Cluster {
    pub name: Option<String>,
    pub leader: Option<String>,
    /// Other replicas; empty with one replica.
    pub replicas: Vec<IgnoredAny>,
}

/// Stream configuration. A server that does not support a flag omits it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct StreamConfig {
    pub subjects: Vec<String>,
    pub retention: String,
    pub allow_direct: bool,
    pub allow_batched: bool,
    pub allow_atomic: bool,
    /// Nanoseconds; 0 if the server omits it.
    pub duplicate_window: u64,
}

impl StreamConfig {
    /// Returns the duration for which the server detects a duplicate message ID.
    pub fn duplicate_window(&self) -> Duration {
        match self.duplicate_window {
            0 => dedup::DEFAULT_DUPLICATE_WINDOW,
            nanos => Duration::from_nanos(nanos),
        }
    }
}

#[derive(Deserialize)]
pub struct StreamState {
    pub messages: u64,
    pub bytes: u64,
    pub first_seq: u64,
    pub last_seq: u64,
    /// Time of the last stored message, RFC 3339 in UTC.
    #[serde(default)]
    pub last_ts: Option<String>,
}

#[derive(Deserialize)]
pub struct ConsumerInfo {
    pub num_pending: u64,
    pub delivered: Delivered,
    #[serde(default)]
    pub cluster: Cluster,
}

#[derive(Deserialize)]
pub struct Delivered {
    pub stream_seq: u64,
}

#[derive(Deserialize)]
pub struct FoundMessage {
    pub seq: u64,
    /// Time at which it was stored, RFC 3339 in UTC.
    pub time: String,
}

/// Consumer state: delivered and acknowledged positions.
#[derive(Deserialize)]
pub struct ConsumerState {
    pub config: ConsumerConfig,
    pub delivered: Position,
    pub ack_floor: Position,
    #[serde(default)]
    pub num_pending: u64,
    #[serde(default)]
    pub num_ack_pending: u64,
}

#[derive(Deserialize)]
pub struct Position {
    pub consumer_seq: u64,
    pub stream_seq: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct ConsumerConfig {
    pub ack_policy: String,
    pub filter_subject: String,
    pub filter_subjects: Vec<String>,
    pub max_ack_pending: i64,
    pub headers_only: bool,
}

impl ConsumerConfig {
    /// Returns the filter subjects; empty means all subjects.
    pub fn filters(&self) -> Vec<String> {
        let one = (!self.filter_subject.is_empty()).then(|| self.filter_subject.clone());
        one.into_iter().chain(self.filter_subjects.iter().cloned()).collect()
    }
}

/// A stored message.
pub struct Stored {
    pub subject: String,
    pub seq: u64,
    /// Headers as published; empty without headers.
    pub headers: Vec<u8>,
    pub payload: Vec<u8>,
    /// RFC 3339.
    pub time: String,
}

/// API client of one connection and one prefix: `$JS.API`, or the prefix of a domain.
#[derive(Clone, Copy)]
pub struct Api<'a> {
    conn: &'a Connection,
    prefix: &'a str,
    timeout: Duration,
}

impl<'a> Api<'a> {
    pub fn new(conn: &'a Connection, prefix: &'a str) -> Self {
        Api { conn, prefix, timeout: REQUEST_TIMEOUT }
    }

    /// Sets the timeout of responses.
    pub fn within(self, timeout: Duration) -> Self {
        Api { timeout, ..self }
    }

    /// Sends one request, with JSON in both directions. The server's error becomes `JetError::Api`.
    async fn call<T: DeserializeOwned>(self, verb: &str, body: &Value) -> Result<T> {
        let subject = format!("{}.{verb}", self.prefix);
        let payload = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let answer = self.conn.request(subject.clone(), payload, None, self.timeout).await?;
        #[derive(Deserialize)]
        struct Failure {
            error: ApiError,
        }
        if let Ok(Failure { error }) = serde_json::from_slice(answer.payload()) {
            return Err(error.into());
        }
        serde_json::from_slice(answer.payload())
            .map_err(|e| JetError::Protocol { what: format!("{subject:?}"), answer: e.to_string() })
    }

    pub async fn stream_info(self, stream: &str) -> Result<StreamInfo> {
        self.call(&format!("STREAM.INFO.{stream}"), &Value::Null).await
    }

    /// Returns the number of the stream's subjects that match the filter.
    pub async fn subjects(self, stream: &str, filter: &str) -> Result<u64> {
        #[derive(Deserialize)]
        struct Page {
            #[serde(default)]
            total: u64,
        }
        // An offset beyond the last page returns no names, only their number.
        let body = json!({"subjects_filter": filter, "offset": u32::MAX});
        Ok(self.call::<Page>(&format!("STREAM.INFO.{stream}"), &body).await?.total)
    }

    /// Returns the stream that stores this subject.
    pub async fn stream_of(self, subject: &str) -> Result<String> {
        #[derive(Deserialize)]
        struct Names {
            streams: Option<Vec<String>>,
        }
        let names: Names = self.call("STREAM.NAMES", &json!({"subject": subject})).await?;
        let first = names.streams.unwrap_or_default().into_iter().next();
        first.ok_or_else(|| JetError::NoStream { subject: subject.to_owned() })
    }

    /// Returns the message that `wanted` selects, from the stream's leader; `None` if there is none.
    pub async fn find_message(self, stream: &str, wanted: &Value) -> Result<Option<FoundMessage>> {
        self.call_message_get(stream, wanted).await
    }

    /// Calls `STREAM.MSG.GET`; `M` selects the message's fields.
    async fn call_message_get<M: DeserializeOwned>(self, stream: &str, wanted: &Value) -> Result<Option<M>> {
        #[derive(Deserialize)]
        struct MessageGet<M> {
            message: M,
        }
        match self.call::<MessageGet<M>>(&format!("STREAM.MSG.GET.{stream}"), wanted).await {
            Ok(response) => Ok(Some(response.message)),
            Err(JetError::Api { code: NOT_FOUND, .. }) => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// Returns the stored message that `wanted` selects; `None` if there is none.
    pub async fn get_message(self, stream: &str, wanted: &Value) -> Result<Option<Stored>> {
        #[derive(Deserialize)]
        struct EncodedMessage {
            subject: String,
            seq: u64,
            #[serde(default)]
            hdrs: String,
            #[serde(default)]
            data: String,
            time: String,
        }
        let Some(found) = self.call_message_get(stream, wanted).await? else { return Ok(None) };
        let EncodedMessage { subject, seq, hdrs, data, time } = found;
        let bytes = |text: &str| {
            BASE64_STANDARD
                .decode(text)
                .map_err(|e| JetError::Protocol { what: "STREAM.MSG.GET".into(), answer: e.to_string() })
        };
        Ok(Some(Stored { subject, seq, headers: bytes(&hdrs)?, payload: bytes(&data)?, time }))
    }

    /// Returns the first message from `from` on that matches a filter. Without filters every message matches.
    pub async fn next_stored(self, stream: &str, from: u64, filters: &[String]) -> Result<Option<Stored>> {
        let all = [">".to_owned()];
        let mut next: Option<Stored> = None;
        for filter in if filters.is_empty() { &all[..] } else { filters } {
            let found = self.get_message(stream, &json!({"seq": from, "next_by_subj": filter})).await?;
            next = next.into_iter().chain(found).min_by_key(|stored| stored.seq);
        }
        Ok(next)
    }

    /// Checks that the consumer exists. Returns an error if it does not, or if the server does not answer.
    pub async fn check_consumer(self, stream: &str, consumer: &str) -> Result<()> {
        self.call::<Value>(&format!("CONSUMER.INFO.{stream}.{consumer}"), &Value::Null).await.map(drop)
    }

    pub async fn consumer_state(self, stream: &str, consumer: &str) -> Result<ConsumerState> {
        self.call(&format!("CONSUMER.INFO.{stream}.{consumer}"), &Value::Null).await
    }

    pub async fn create_consumer(self, stream: &str, name: &str, body: &Value) -> Result<ConsumerInfo> {
        self.call(&format!("CONSUMER.CREATE.{stream}.{name}"), body).await
    }

    /// Enqueues the deletion at once, ahead of later requests. The returned future waits for the response; false
    /// without one.
    pub fn delete_consumer(self, stream: &str, name: &str) -> impl Future<Output = bool> + Send + use<> {
        let subject = format!("{}.CONSUMER.DELETE.{stream}.{name}", self.prefix);
        let asked = self.conn.ask(Request {
            subject: subject.into(),
            payload: Bytes::new(),
            headers: None,
            timeout: self.timeout,
            verb: Verb::Request,
        });
        async move {
            match asked {
                Ok(answer) => answer.await.is_ok(),
                Err(_) => false,
            }
        }
    }
}

/// Returns the subject of a pull consumer's requests.
pub fn next_message(prefix: &str, stream: &str, consumer: &str) -> String {
    format!("{prefix}.CONSUMER.MSG.NEXT.{stream}.{consumer}")
}

/// Returns the subject of direct gets (ADR-31).
pub fn direct_get(prefix: &str, stream: &str) -> String {
    format!("{prefix}.DIRECT.GET.{stream}")
}

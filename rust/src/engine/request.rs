//! Requests: one inbox for all of a connection, and a number in the reply subject to tell the answers apart.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode, Subject};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::{OnceCell, oneshot};
use tokio::task::unconstrained;

use crate::engine::connect::Connection;
use crate::engine::inflight::{read_token, write_token};
use crate::engine::outbox::Outgoing;
use crate::engine::puback::ApiError;
use crate::error::{JetError, Result};

/// The answers that are awaited. An entry goes with its request, answered or not: async-nats's own would stay.
#[derive(Default)]
pub struct Requests {
    inbox: OnceCell<String>,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct Waiting(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    last: u64,
    senders: HashMap<u64, oneshot::Sender<Message>>,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the entry away, also where the request is dropped while it waits.
struct Entry<'a> {
    waiting: &'a Waiting,
    number: u64,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.waiting.lock().senders.remove(&self.number);
    }
}

impl Requests {
    /// The inbox's prefix; subscribes to it at the first use.
    async fn inbox(&self, conn: &Connection) -> Result<&str> {
        let subscribe = async || {
            let prefix = format!("{}.", conn.client.new_inbox());
            let answers = conn.client.subscribe(format!("{prefix}*")).await.map_err(|_| conn.closed())?;
            let waiting = Arc::downgrade(&self.waiting);
            tokio::spawn(unconstrained(sort(answers, prefix.len(), waiting)));
            Ok(prefix)
        };
        self.inbox.get_or_try_init(subscribe).await.map(String::as_str)
    }
}

/// Hands each answer to the request that waits for it, until the connection closes or is gone.
async fn sort(mut answers: async_nats::Subscriber, prefix: usize, waiting: Weak<Waiting>) {
    while let Some(message) = answers.next().await {
        let Some(waiting) = waiting.upgrade() else { return };
        let number = message.subject.as_bytes().get(prefix..).and_then(read_token);
        let sender = number.and_then(|number| waiting.lock().senders.remove(&number));
        if let Some(sender) = sender {
            let _nobody_waits = sender.send(message);
        }
    }
    // Closed: dropping the senders tells all that wait.
    if let Some(waiting) = waiting.upgrade() {
        waiting.lock().senders.clear();
    }
}

/// Publishes and waits for the first answer.
pub async fn request(
    conn: &Connection,
    subject: String,
    payload: Bytes,
    headers: Option<HeaderMap>,
    timeout: Duration,
) -> Result<Message> {
    let requests = &conn.requests;
    let late = || JetError::Timeout { what: format!("the request to {subject:?}"), after: timeout };
    let answered = async {
        let mut reply = requests.inbox(conn).await?.as_bytes().to_vec();
        let (send, answer) = oneshot::channel();
        let number = {
            let mut answers = requests.waiting.lock();
            answers.last += 1;
            let number = answers.last;
            answers.senders.insert(number, send);
            number
        };
        let _entry = Entry { waiting: &requests.waiting, number };
        write_token(number, &mut reply);
        let reply = String::from_utf8_lossy(&reply).into_owned();
        let subject = Subject::from(subject.as_str());
        conn.outbox.push(Outgoing { subject, reply: Some(reply.into()), headers, payload });
        answer.await.map_err(|_| conn.closed())
    };
    let answer = match tokio::time::timeout(timeout, answered).await {
        Ok(answer) => answer?,
        Err(_) => return Err(if conn.link.borrow().closed { conn.closed() } else { late() }),
    };
    if answer.status == Some(StatusCode::NO_RESPONDERS) {
        return Err(JetError::NoResponders { subject });
    }
    Ok(answer)
}

/// How long the engine's own API requests may take before they are tried again or given up.
pub const API_TIMEOUT: Duration = Duration::from_secs(5);

/// A JetStream API request: JSON there and back, the server's error as `JetError::Api`.
pub async fn api<T: serde::de::DeserializeOwned>(
    conn: &Connection,
    prefix: &str,
    verb: &str,
    body: &serde_json::Value,
) -> Result<T> {
    let subject = format!("{prefix}.{verb}");
    let payload = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let answer = request(conn, subject.clone(), payload, None, API_TIMEOUT).await?;
    #[derive(serde::Deserialize)]
    struct Failure {
        error: ApiError,
    }
    if let Ok(Failure { error }) = serde_json::from_slice(&answer.payload) {
        return Err(error.into());
    }
    serde_json::from_slice(&answer.payload)
        .map_err(|e| JetError::Protocol { what: format!("{subject:?}"), answer: e.to_string() })
}

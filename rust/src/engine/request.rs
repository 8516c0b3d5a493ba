//! One request, one answer: what all the cold verbs are made of.

use std::time::Duration;

use async_nats::{HeaderMap, Request, RequestErrorKind, StatusCode};
use bytes::Bytes;

use crate::engine::connect::Connection;
use crate::engine::puback::ApiError;
use crate::error::{JetError, Result};

pub async fn request(
    conn: &Connection,
    subject: String,
    payload: Bytes,
    headers: Option<HeaderMap>,
    timeout: Duration,
) -> Result<async_nats::Message> {
    let mut request = Request::new().payload(payload).timeout(Some(timeout));
    if let Some(headers) = headers {
        request = request.headers(headers);
    }
    let late = || JetError::Timeout { what: format!("the request to {subject:?}"), after: timeout };
    let answer = match tokio::time::timeout(timeout, conn.client.send_request(subject.clone(), request)).await {
        Err(_) => return Err(if conn.link.borrow().closed { conn.closed() } else { late() }),
        Ok(Ok(message)) => message,
        Ok(Err(err)) => {
            return Err(match err.kind() {
                RequestErrorKind::TimedOut => late(),
                RequestErrorKind::NoResponders => JetError::NoResponders { subject },
                _ => conn.closed(),
            });
        }
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

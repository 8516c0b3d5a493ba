//! Acknowledging messages, many at once.

use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::task::unconstrained;

use base::error::{JetError, Result};
use client::Connection;
use client::outbox::Outgoing;
use client::traffic;
use wire::nats::Subject;
use wire::size::message_size;

/// Kind of acknowledgement, with its options.
#[derive(Clone, Debug, PartialEq)]
pub enum AckKind {
    Ack,
    Nak(Option<Duration>),
    Progress,
    Term(Option<String>),
}

/// Kind of acknowledgement by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckVerb {
    Ack,
    Nak,
    InProgress,
    Term,
}

impl AckVerb {
    const ALL: [AckVerb; 4] = [AckVerb::Ack, AckVerb::Nak, AckVerb::InProgress, AckVerb::Term];

    pub fn name(self) -> &'static str {
        match self {
            AckVerb::Ack => "ack",
            AckVerb::Nak => "nak",
            AckVerb::InProgress => "in_progress",
            AckVerb::Term => "term",
        }
    }

    /// Adds the options that the kind supports; others are ignored.
    pub fn with(self, delay: Option<Duration>, reason: Option<String>) -> AckKind {
        match self {
            AckVerb::Ack => AckKind::Ack,
            AckVerb::Nak => AckKind::Nak(delay),
            AckVerb::InProgress => AckKind::Progress,
            AckVerb::Term => AckKind::Term(reason),
        }
    }
}

impl FromStr for AckVerb {
    type Err = JetError;

    fn from_str(word: &str) -> Result<AckVerb> {
        let found = AckVerb::ALL.into_iter().find(|verb| verb.name() == word);
        found.ok_or_else(|| JetError::Value(format!("unknown kind of ack {word:?}")))
    }
}

impl AckKind {
    pub fn payload(&self) -> Bytes {
        match self {
            AckKind::Ack => Bytes::from_static(b"+ACK"),
            AckKind::Nak(None) => Bytes::from_static(b"-NAK"),
            AckKind::Nak(Some(delay)) => format!("-NAK {{\"delay\": {}}}", delay.as_nanos()).into(),
            AckKind::Progress => Bytes::from_static(b"+WPI"),
            AckKind::Term(None) => Bytes::from_static(b"+TERM"),
            AckKind::Term(Some(reason)) => format!("+TERM {reason}").into(),
        }
    }
}

/// Enqueues one acknowledgement per reply subject.
pub async fn send(conn: &Connection, replies: impl IntoIterator<Item = Subject>, kind: &AckKind) -> Result<()> {
    let payload = kind.payload();
    conn.in_order().await;
    for subject in replies {
        let message = Outgoing { subject, reply: None, headers: None, payload: payload.clone() };
        let bytes = message_size(&message);
        if !conn.client.has_room(bytes) {
            conn.while_up(conn.client.room(bytes)).await;
        }
        if conn.link.borrow().up {
            conn.traffic.sent(traffic::Verb::Ack, payload.len());
            conn.client.send(&message, bytes).map_err(|_| conn.closed())?;
        } else if conn.link.borrow().closed {
            return Err(conn.closed());
        } else {
            conn.outbox.push(message, traffic::Verb::Ack);
        }
    }
    Ok(())
}

/// Sends the acks and waits until all are written. While the link is down they stay queued, and the caller does not
/// wait.
pub async fn ack(conn: &Connection, replies: Vec<Subject>, kind: &AckKind) -> Result<()> {
    unconstrained(send(conn, replies, kind)).await?;
    conn.while_up(conn.client.flush()).await;
    if conn.link.borrow().closed { Err(conn.closed()) } else { Ok(()) }
}

/// Sends the acks and waits for the server's confirmation of each, under one deadline.
pub async fn ack_sync(conn: &Connection, replies: Vec<Subject>, kind: &AckKind, timeout: Duration) -> Result<()> {
    let inbox = conn.new_inbox()?;
    let mut answers = conn.subscribe(inbox.clone())?;
    let (all, payload, inbox) = (replies.len(), kind.payload(), Subject::from(inbox));
    let mut confirmed = 0;
    let work = async {
        for subject in replies {
            conn.traffic.sent(traffic::Verb::Ack, payload.len());
            let (reply, payload) = (Some(inbox.clone()), payload.clone());
            conn.publish(Outgoing { subject, reply, headers: None, payload }, timeout).await?;
        }
        while confirmed < all {
            let Some(answer) = answers.next().await else { return Err(conn.closed()) };
            // 503 No Responders: the consumer no longer exists.
            if answer.says_no_responders() {
                return Err(JetError::NoResponders { subject: "the consumer's acks".into() });
            }
            confirmed += 1;
        }
        Ok(())
    };
    match tokio::time::timeout(timeout, work).await {
        Ok(done) => done,
        Err(_) => Err(JetError::Timeout { what: format!("{} of {all} acks", all - confirmed), after: timeout }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_match_the_protocol() {
        for (kind, text) in [
            (AckKind::Ack, "+ACK"),
            (AckKind::Nak(None), "-NAK"),
            (AckKind::Nak(Some(Duration::from_millis(1_500))), "-NAK {\"delay\": 1500000000}"),
            (AckKind::Progress, "+WPI"),
            (AckKind::Term(Some("bad row".into())), "+TERM bad row"),
        ] {
            assert_eq!(kind.payload(), text.as_bytes());
        }
    }
}

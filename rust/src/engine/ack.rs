//! Acknowledging messages, many at once.

use std::time::Duration;

use async_nats::Subject;
use bytes::Bytes;

use crate::engine::connect::Connection;
use crate::error::Result;

/// What to tell the server about a delivered message.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Ack,
    Nak(Option<Duration>),
    Progress,
    Term(Option<String>),
}

impl Kind {
    pub fn payload(&self) -> Bytes {
        match self {
            Kind::Ack => Bytes::from_static(b"+ACK"),
            Kind::Nak(None) => Bytes::from_static(b"-NAK"),
            Kind::Nak(Some(delay)) => format!("-NAK {{\"delay\": {}}}", delay.as_nanos()).into(),
            Kind::Progress => Bytes::from_static(b"+WPI"),
            Kind::Term(None) => Bytes::from_static(b"+TERM"),
            Kind::Term(Some(reason)) => format!("+TERM {reason}").into(),
        }
    }
}

/// Sends one acknowledgement per reply subject, and returns when all are on the wire.
pub async fn ack(conn: &Connection, replies: impl IntoIterator<Item = Subject>, kind: &Kind) -> Result<()> {
    let payload = kind.payload();
    for reply in replies {
        conn.client.publish(reply, payload.clone()).await.map_err(|_| conn.closed())?;
    }
    conn.client.flush().await.map_err(|_| conn.closed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_the_servers_words() {
        for (kind, text) in [
            (Kind::Ack, "+ACK"),
            (Kind::Nak(None), "-NAK"),
            (Kind::Nak(Some(Duration::from_millis(1_500))), "-NAK {\"delay\": 1500000000}"),
            (Kind::Progress, "+WPI"),
            (Kind::Term(Some("bad row".into())), "+TERM bad row"),
        ] {
            assert_eq!(kind.payload(), text.as_bytes());
        }
    }
}

//! A message on its way out: into the window, and to the connection.

use std::pin::pin;

use futures_util::Stream;
use tokio::time::Interval;

use super::trouble::ended_by;
use super::{Handed, Item, Outlet, Run};
use crate::engine::connection::client::Refused;
use crate::engine::connection::outbox::Outgoing;
use crate::engine::publish::inflight::Sent;
use crate::error::{JetError, Result};

impl<F: Stream<Item = Result<Item>> + Send + Unpin, O: Outlet> Run<'_, F, O> {
    /// False where the link broke, or the server is silent.
    pub(super) async fn send(&mut self, mut sent: Sent, tick: &mut Interval) -> Result<bool> {
        if let Some(cause) = self.over.as_ref().or(self.deaf.as_ref()) {
            self.outlet.failed(sent.row, ended_by(&sent, cause));
            return Ok(true);
        }
        if let Some(window) = self.forgotten(&sent) {
            self.outlet.failed(sent.row, JetError::Forgotten { what: sent.about(), window });
            return Ok(true);
        }
        if self.inflight.is_empty() {
            // Nothing was in flight, so the server has not been silent.
            self.last_answer = self.now;
        }
        let Some(payload) = sent.body.wire_payload(&mut self.arena) else {
            let err = sent.body.no_payload(sent.row);
            self.outlet.failed(sent.row, err);
            return Ok(true);
        };
        if let Err(err) = sent.body.check(sent.row, self.conn.client.max_payload()) {
            self.outlet.failed(sent.row, err);
            return Ok(true);
        }
        let subject = sent.body.subject();
        let headers = sent.body.wire_headers();
        sent.deadline = sent.deadline.or(Some(self.now + self.window.timeout));
        let before = sent.first;
        if sent.sent_at.is_some() {
            self.conn.traffic.resent(self.verb);
        }
        (sent.first, sent.sent_at) = (before.or(Some(self.now)), Some(self.now));
        if let Some(congestion) = &mut self.congestion {
            congestion.sent(sent.place, self.inflight.bytes(), self.now);
        }
        let token = self.inflight.insert(sent, self.trust.is_firm());
        let reply = self.reply(token)?;
        self.conn.traffic.sent(self.verb, payload.len());
        let client = &self.conn.client;
        let message = Outgoing { subject, reply: Some(reply), headers, payload };
        // Polled by hand: a select for every message would cost as much as the message.
        self.handing = Some(token);
        let handed = self.hand_over(token, pin!(client.publish(message)), tick).await?;
        self.handing = None;
        match handed {
            Handed::Over | Handed::Late => Ok(true),
            Handed::Not => {
                // Of this attempt it is certain that it was not stored.
                let back = self.inflight.withdraw(token).map(|sent| Sent { first: before, ..sent });
                self.send_again(back);
                self.check_time_and_link();
                Ok(false)
            }
            // A reconnect can lead to a server with a smaller limit than the one the rows were checked against.
            Handed::Refused(Refused::TooLarge) => {
                if let Some(sent) = self.inflight.withdraw(token) {
                    let (what, limit) = (sent.about(), self.conn.client.max_payload());
                    let size = sent.body.payload().map_or(0, <[u8]>::len);
                    self.outlet.failed(sent.row, JetError::MaxPayload { what, size, limit });
                }
                Ok(true)
            }
            Handed::Refused(Refused::Closed | Refused::LinkLost) | Handed::Ended => {
                self.connection_ended();
                Ok(true)
            }
        }
    }
}

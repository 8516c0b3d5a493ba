//! A message on its way out: into the window, and to the connection.

use std::pin::pin;

use futures_util::Stream;
use tokio::time::Interval;

use super::trouble::ended_by;
use super::{Handed, Item, Outlet, Run};
use crate::publish::inflight::Sent;
use base::error::{JetError, Result};
use client::outbox::Outgoing;
use client::transport::Refused;
use wire::token::write_token;

impl<F: Stream<Item = Result<Item>> + Send + Unpin, O: Outlet> Run<'_, F, O> {
    /// Sends it, or fails it, where that can be done at once. Else it is in the window with the token that this returns.
    pub(super) fn send_now(&mut self, mut sent: Sent) -> Option<u64> {
        if let Some(cause) = self.over.as_ref().or(self.deaf.as_ref()) {
            self.outlet.failed(sent.row, ended_by(&sent, cause));
            return None;
        }
        if let Some(window) = self.forgotten(&sent) {
            self.outlet.failed(sent.row, JetError::Forgotten { what: sent.about(), window });
            return None;
        }
        if self.inflight.is_empty() {
            // Nothing was in flight, so the server has not been silent.
            self.last_answer = self.now;
        }
        let Some(payload) = sent.body.payload().map(<[u8]>::len) else {
            let err = sent.body.no_payload(sent.row);
            self.outlet.failed(sent.row, err);
            return None;
        };
        if let Err(err) = sent.body.check(sent.row, self.conn.client.max_payload()) {
            self.outlet.failed(sent.row, err);
            return None;
        }
        sent.deadline = sent.deadline.or(Some(self.now + self.window.timeout));
        if sent.sent_at.is_some() {
            self.conn.traffic.resent(self.verb);
        }
        (sent.earlier, sent.sent_at) = (sent.first, Some(self.now));
        sent.first = sent.first.or(sent.sent_at);
        if let Some(congestion) = &mut self.congestion {
            congestion.sent(sent.place, self.inflight.moving().1, self.now);
        }
        self.conn.traffic.sent(self.verb, payload);
        let token = self.inflight.insert(sent, self.now);
        let sent = self.inflight.get(token)?;
        let prefix = self.inbox.len();
        write_token(token, &mut self.inbox);
        let gone = sent.body.send_now(&self.conn.client, &self.inbox, &mut self.block);
        self.inbox.truncate(prefix);
        (!gone).then_some(token)
    }

    /// A message that has its token, and has to wait for room; or is so large that it is sent from where it lies. False where
    /// the link broke, or the server is silent.
    pub(super) async fn send_patiently(&mut self, token: u64, tick: &mut Interval) -> Result<bool> {
        let reply = Some(self.reply(token)?);
        let Some(sent) = self.inflight.get(token) else { return Ok(true) };
        let payload = sent.body.wire_payload(&mut self.arena).unwrap_or_default();
        let message = Outgoing { subject: sent.body.subject(), reply, headers: sent.body.wire_headers(), payload };
        let client = &self.conn.client;
        // Polled by hand: a select for every message would cost as much as the message.
        self.handing = Some(token);
        let handed = self.hand_over(token, pin!(client.publish(message)), tick).await?;
        self.handing = None;
        match handed {
            Handed::Over | Handed::Late => Ok(true),
            Handed::Not => {
                // Of this attempt it is certain that it was not stored.
                let back = self.inflight.withdraw(token).map(|sent| Sent { first: sent.earlier, ..sent });
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

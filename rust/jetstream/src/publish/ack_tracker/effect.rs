//! From the bytes of a reply to what the publish loop has to do.

use tokio::time::Instant;

use super::attribution::{AckReply, Attribution};
use super::{AckTracker, InFlightMessage};
use crate::publish::puback::{self, PubAck, Reading};
use base::error::JetError;

/// A message on the ack inbox.
#[derive(Clone, Copy, Debug)]
pub enum Reply<'a> {
    /// Status 503: no server subscribes to the subject.
    NoResponders,
    Payload(&'a [u8]),
}

/// The consequence of a reply. A message in it is no longer in flight.
pub enum Effect {
    /// The stream of `AckTracker::origin` stored the message.
    Stored { sent: InFlightMessage, seq: u64, duplicate: bool },
    /// The first ack of a stream, or one with more fields than the others.
    StoredInFull { sent: InFlightMessage, ack: PubAck },
    /// The message ends with this error.
    Rejected { sent: InFlightMessage, error: JetError },
    /// No stream received this attempt.
    NoResponders(InFlightMessage),
    /// The reply may belong to an earlier message of the token. This one has an id: send it again.
    Resend(InFlightMessage),
    /// The reply may belong to an earlier message of the token. This one stays in flight.
    Ambiguous,
    /// The reply belongs to no message in flight: suspend the reuse of tokens on the whole connection for `SUSPENSION`.
    Foreign,
}

impl AckTracker {
    /// Attributes a reply to the message that it belongs to.
    pub fn on_reply(&mut self, token: Option<u64>, reply: Reply<'_>, now: Instant) -> Effect {
        let payload = match reply {
            Reply::NoResponders => return self.own(token, &AckReply::NoResponders, now, Effect::NoResponders),
            Reply::Payload(payload) => payload,
        };
        if let Some((seq, duplicate)) = self.parser.quick(payload) {
            let origin = self.parser.origin().clone();
            let ack = AckReply::Ack { origin: &origin, seq, duplicate };
            return self.own(token, &ack, now, |sent| Effect::Stored { sent, seq, duplicate });
        }
        match puback::read(payload) {
            Reading::Ack(ack) => {
                let origin = self.parser.origin_of(&ack);
                let reply = AckReply::Ack { origin: &origin, seq: ack.seq, duplicate: ack.duplicate };
                match self.attribute(token, &reply, now) {
                    Attribution::Own(sent) => {
                        self.parser.learn(payload, &ack, &origin);
                        Effect::StoredInFull { sent, ack }
                    }
                    other => other.without_message(),
                }
            }
            Reading::Rejected { stream, error } => {
                let reply = AckReply::Rejected { stream: stream.as_deref() };
                self.own(token, &reply, now, |sent| {
                    // An earlier attempt may be stored as well.
                    let unknown = sent.earlier.is_some() && !sent.body.has_id();
                    let error = if unknown { JetError::Ambiguous { what: sent.about() } } else { error };
                    Effect::Rejected { sent, error }
                })
            }
            Reading::Unreadable(error) => {
                self.own(token, &AckReply::Unreadable, now, |sent| Effect::Rejected { sent, error })
            }
        }
    }

    fn own(
        &mut self,
        token: Option<u64>,
        reply: &AckReply,
        now: Instant,
        effect: impl FnOnce(InFlightMessage) -> Effect,
    ) -> Effect {
        match self.attribute(token, reply, now) {
            Attribution::Own(sent) => effect(sent),
            other => other.without_message(),
        }
    }
}

impl Attribution {
    /// The effect of a reply that is not attributed to a message.
    fn without_message(self) -> Effect {
        match self {
            Attribution::Own(sent) | Attribution::Resend(sent) => Effect::Resend(sent),
            Attribution::Ambiguous => Effect::Ambiguous,
            Attribution::Foreign => Effect::Foreign,
        }
    }
}

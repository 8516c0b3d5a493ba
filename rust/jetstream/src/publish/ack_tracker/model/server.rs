//! The model's servers, and their troubles.

use std::collections::HashMap;
use std::sync::Arc;

use super::{TIMEOUT, World};
use crate::publish::puback::Origin;

/// A stream of the model's servers.
pub struct Stream {
    pub origin: Arc<Origin>,
    pub seq: u64,
    /// Sequences by message id.
    pub ids: HashMap<u64, u64>,
}

impl Stream {
    pub fn new(name: &str, domain: Option<&str>) -> Self {
        let origin = Arc::new(Origin { stream: name.into(), domain: domain.map(str::to_owned) });
        Stream { origin, seq: 0, ids: HashMap::new() }
    }
}

/// The streams: that of subjects a, b, m; that of c, half of m, and b while it has moved; a twin in another domain; one of
/// the same name; and one for each of the subjects from n on.
pub fn streams(singles: u64) -> Vec<Stream> {
    let first =
        [("S", None), ("T", None), ("S", Some("leaf")), ("S", None)].map(|(name, domain)| Stream::new(name, domain));
    first.into_iter().chain((0..singles).map(|number| Stream::new(&format!("U{number}"), None))).collect()
}

pub const MAIN: usize = 0;
pub const OTHER: usize = 1;
pub const LEAF: usize = 2;
pub const TWIN: usize = 3;
pub const SINGLES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trouble {
    Lost,
    Doubled,
    Late,
    Reordered,
    Rejections,
    UnnamedRejections,
    Full,
    NoStream,
    Leaf,
    Service,
    OtherStream,
    Moved,
    Mapped,
    Duplicates,
    Cancels,
    Breaks,
    Recreated,
    Restored,
    Purged,
    NewLeader,
}

pub const TROUBLES: [Trouble; 20] = [
    Trouble::Lost,
    Trouble::Doubled,
    Trouble::Late,
    Trouble::Reordered,
    Trouble::Rejections,
    Trouble::UnnamedRejections,
    Trouble::Full,
    Trouble::NoStream,
    Trouble::Leaf,
    Trouble::Service,
    Trouble::OtherStream,
    Trouble::Moved,
    Trouble::Mapped,
    Trouble::Duplicates,
    Trouble::Cancels,
    Trouble::Breaks,
    Trouble::Recreated,
    Trouble::Restored,
    Trouble::Purged,
    Trouble::NewLeader,
];

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Ack { origin: Arc<Origin>, seq: u64, duplicate: bool },
    Rejected { stream: Option<String> },
    NoResponders,
    Unreadable,
}

impl Kind {
    /// The payload, as nats-server writes it; `None` for the status 503 No Responders.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let text = match self {
            Kind::Ack { origin, seq, duplicate } => {
                let domain = origin.domain.as_ref().map_or_else(String::new, |name| format!(",\"domain\":{name:?}"));
                let duplicate = if *duplicate { ",\"duplicate\": true" } else { "" };
                format!("{{\"stream\":{:?}{domain}, \"seq\":{seq}{duplicate}}}", origin.stream)
            }
            Kind::Rejected { stream } => {
                let stream = stream.as_ref().map_or_else(String::new, |name| format!(",\"stream\":{name:?},\"seq\":0"));
                format!("{{\"error\":{{\"code\":503,\"err_code\":10077,\"description\":\"full\"}}{stream}}}")
            }
            Kind::NoResponders => return None,
            Kind::Unreadable => "+OK".to_owned(),
        };
        Some(text.into_bytes())
    }
}

/// An answer on its way.
#[derive(Clone, Debug)]
pub struct Answer {
    pub token: u64,
    /// The message that it answers.
    pub row: u64,
    pub kind: Kind,
}

/// A message as the server gets it.
pub struct Published {
    pub token: u64,
    pub row: u64,
    pub subject: char,
    pub id: Option<u64>,
}

impl World {
    /// The servers take the next message.
    pub fn serve(&mut self) {
        let Some(message) = self.wire.pop_front() else { return };
        let Published { token, row, subject, .. } = message;
        let reply = |kind| Answer { token, row, kind };
        if self.is(Trouble::Service) && self.random.once_in(3) {
            self.send(reply(Kind::Unreadable));
        }
        if self.is(Trouble::NoStream) {
            return self.send(reply(Kind::NoResponders));
        }
        let stream = match subject {
            'c' => OTHER,
            'm' if self.random.once_in(2) => OTHER,
            'b' if self.is(Trouble::Moved) => OTHER,
            'n'.. => SINGLES + (u32::from(subject) - u32::from('n')) as usize,
            _ => MAIN,
        };
        let refused = (self.is(Trouble::Rejections) || self.is(Trouble::UnnamedRejections)) && self.random.once_in(5);
        if refused || self.is(Trouble::Full) {
            let unnamed = self.is(Trouble::UnnamedRejections);
            let name = self.streams[stream].origin.stream.clone();
            self.send(reply(Kind::Rejected { stream: (!unnamed).then_some(name) }));
        } else {
            self.store(stream, &message);
        }
        if self.is(Trouble::Leaf) {
            self.store(LEAF, &message);
        }
        if self.has_twin && stream == MAIN {
            self.store(TWIN, &message);
        }
    }

    fn store(&mut self, stream: usize, message: &Published) {
        let stream = &mut self.streams[stream];
        let known = message.id.and_then(|id| stream.ids.get(&id).copied());
        if known.is_none() {
            stream.seq += 1;
            message.id.map(|id| stream.ids.insert(id, stream.seq));
        }
        let (origin, seq, duplicate) = (stream.origin.clone(), known.unwrap_or(stream.seq), known.is_some());
        self.send(Answer { token: message.token, row: message.row, kind: Kind::Ack { origin, seq, duplicate } });
    }

    fn send(&mut self, reply: Answer) {
        if self.is(Trouble::Lost) && self.random.once_in(3) {
            return;
        }
        self.last_replies.push_back(reply.clone());
        if self.last_replies.len() > 50 {
            self.last_replies.pop_front();
        }
        let later =
            self.is(Trouble::Late) && self.random.once_in(2) || self.is(Trouble::Reordered) && self.random.once_in(9);
        if self.is(Trouble::Doubled) && self.random.once_in(2) {
            let due = (self.ms + self.random.below(20), self.random.roll());
            self.late.insert(due, reply.clone());
        }
        if later {
            let most = if self.is(Trouble::Late) { 2 * TIMEOUT.as_millis() as u64 } else { 3 };
            let due = (self.ms + self.random.below(most), self.random.roll());
            self.late.insert(due, reply);
        } else {
            self.replies.push_back(reply);
        }
    }

    pub fn begin(&mut self, trouble: Trouble) {
        let main = &mut self.streams[MAIN];
        match trouble {
            Trouble::Recreated => *main = Stream::new("S", None),
            Trouble::Restored => {
                main.seq -= self.random.below(main.seq + 1).min(1_000);
                let seq = main.seq;
                main.ids.retain(|_, stored| *stored <= seq);
            }
            Trouble::Purged => main.ids.clear(),
            Trouble::NewLeader => {
                // Messages on their way are lost with the old leader; the new one repeats acknowledgements.
                let gone = self.random.below(self.wire.len() as u64 + 1) as usize;
                self.wire.drain(..gone);
                let repeated = self.random.below(self.last_replies.len() as u64 + 1) as usize;
                self.replies.extend(self.last_replies.iter().take(repeated).cloned());
            }
            Trouble::Breaks => {
                self.replies.clear();
                let gone = self.random.below(self.wire.len() as u64 + 1) as usize;
                self.wire.truncate(self.wire.len() - gone);
                for sent in self.book.on_disconnect() {
                    if sent.body.has_id() { self.again.push_back(sent) } else { self.end(&sent) }
                }
            }
            Trouble::Cancels => {
                let mut tokens: Vec<_> = self.wire.iter().map(|message| message.token).collect();
                tokens.retain(|_| self.random.once_in(3));
                for token in tokens {
                    if let Some(sent) = self.book.withdraw(token) {
                        self.end(&sent);
                    }
                }
            }
            _ => {}
        }
    }
}

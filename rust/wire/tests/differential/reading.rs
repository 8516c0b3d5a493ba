//! The result of reading a script, in a form that both clients fill, and its comparison.

use std::fmt;

use async_nats::ServerError;
use wire::headers::Headers;
use wire::message::Message;
use wire::parser::{Op, ParseError, Parser};

use crate::script::{Cuts, SUBSCRIPTIONS};

/// Largest message that the parser accepts here: the default `max_payload` of a server.
pub const MAX_MESSAGE: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client accepts all bytes, and can wait for the rest of a frame.
    Open,
    /// The client closes the connection because of the bytes.
    Broken,
}

#[derive(PartialEq, Eq)]
pub struct Received {
    pub subject: String,
    pub reply: Option<String>,
    pub headers: Option<Headers>,
    pub status: Option<u16>,
    pub description: Option<String>,
    pub payload: Vec<u8>,
    /// Bytes of subject, reply subject, headers and payload.
    pub length: usize,
    /// The parser reports malformed headers. async-nats accepts none.
    pub is_malformed: bool,
}

impl From<async_nats::Message> for Received {
    fn from(message: async_nats::Message) -> Self {
        let values =
            |values: &[async_nats::HeaderValue]| values.iter().map(|value| value.as_str().to_owned()).collect();
        Received {
            subject: message.subject.to_string(),
            reply: message.reply.map(|reply| reply.to_string()),
            headers: message
                .headers
                .map(|headers| headers.iter().map(|(name, all)| (name.to_string(), values(all))).collect()),
            status: message.status.map(|status| status.as_u16()),
            description: message.description,
            payload: message.payload.to_vec(),
            length: message.length,
            is_malformed: false,
        }
    }
}

impl From<&Message> for Received {
    fn from(message: &Message) -> Self {
        let status = message.status();
        Received {
            subject: message.subject().into_owned(),
            reply: message.reply().map(str::to_owned),
            headers: message.headers(),
            status: status.as_ref().map(|(code, _)| *code),
            description: status.map(|(_, description)| description).filter(|description| !description.is_empty()),
            payload: message.payload().to_vec(),
            length: message.size(),
            is_malformed: message.is_malformed(),
        }
    }
}

/// Payloads are shortened.
impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begin = self.payload[..self.payload.len().min(60)].escape_ascii();
        write!(f, "{:?} reply {:?} headers {:?} ", self.subject, self.reply, self.headers)?;
        write!(f, "status {:?} {:?} malformed {} ", self.status, self.description, self.is_malformed)?;
        write!(f, "length {} payload {} bytes \"{begin}\"", self.length, self.payload.len())
    }
}

#[derive(Debug)]
pub struct Reading {
    /// Messages of each subscription, in order.
    pub messages: [Vec<Received>; SUBSCRIPTIONS as usize],
    /// Messages of all sids, including those without a subscription.
    pub total: usize,
    pub errors: Vec<String>,
    /// INFO frames that announce lame duck mode.
    pub lame_ducks: usize,
    /// PINGs that the client answered. A broken connection can lose the answers.
    pub pings: usize,
    pub end: End,
}

impl Reading {
    pub fn new() -> Self {
        Reading { messages: Default::default(), total: 0, errors: Vec::new(), lame_ducks: 0, pings: 0, end: End::Open }
    }

    fn add(&mut self, op: Op) {
        match op {
            Op::Message(sid, message) => {
                self.total += 1;
                if (1..=SUBSCRIPTIONS).contains(&sid) {
                    self.messages[sid as usize - 1].push(Received::from(&message));
                }
            }
            Op::Info(info) => self.lame_ducks += usize::from(info.lame_duck_mode),
            Op::Ping => self.pings += 1,
            Op::Pong => {}
            Op::Error(text) => self.errors.push(text),
        }
    }

    pub fn add_error(&mut self, error: ServerError) {
        self.errors.push(match error {
            ServerError::Other(text) => text,
            known => known.to_string(),
        });
    }
}

/// Reads `bytes` with the parser under test.
pub fn read_with_parser(bytes: &[u8], mut cuts: Cuts) -> (Reading, Result<(), ParseError>) {
    let (mut parser, mut reading, mut rest) = (Parser::default(), Reading::new(), bytes);
    while !rest.is_empty() {
        let room = parser.room();
        let (piece, later) = cuts.split(rest, room.capacity() - room.len());
        room.extend_from_slice(piece);
        rest = later;
        if let Err(error) = parser.parse_buffered(MAX_MESSAGE, |op| reading.add(op)) {
            reading.end = End::Broken;
            return (reading, Err(error));
        }
    }
    (reading, Ok(()))
}

/// Describes the first difference.
pub fn difference(async_nats: &Reading, parser: &Reading) -> Option<String> {
    let all = async_nats.messages.iter().zip(&parser.messages).enumerate();
    for (index, (theirs, ours)) in all {
        for (at, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
            if theirs != ours {
                let sid = index + 1;
                return Some(format!("message {at} of sid {sid}\n  async-nats: {theirs:?}\n  parser: {ours:?}"));
            }
        }
    }
    let counts = |reading: &Reading| {
        let pings = if reading.end == End::Open { reading.pings } else { 0 };
        let lengths = reading.messages.iter().map(Vec::len).collect::<Vec<_>>();
        (reading.end, lengths, reading.total, reading.errors.clone(), reading.lame_ducks, pings)
    };
    let (theirs, ours) = (counts(async_nats), counts(parser));
    (theirs != ours).then(|| {
        format!("(end, messages per sid, all messages, errors, lame ducks, pings)\n  async-nats: {theirs:?}\n  parser: {ours:?}")
    })
}

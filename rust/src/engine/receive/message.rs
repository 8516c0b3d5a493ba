//! One message by itself.

use async_nats::{HeaderMap, Message};

/// A message copied out of the connection's read buffer, which one small message would otherwise keep alive as a whole.
pub struct Received {
    /// Subject, reply, payload.
    bytes: Box<[u8]>,
    reply_at: usize,
    data_at: usize,
    pub headers: Option<HeaderMap>,
}

impl Received {
    pub fn new(subject: &str, reply: &str, data: &[u8], headers: Option<HeaderMap>) -> Self {
        let bytes = [subject.as_bytes(), reply.as_bytes(), data].concat().into_boxed_slice();
        Received { bytes, reply_at: subject.len(), data_at: subject.len() + reply.len(), headers }
    }

    fn text(&self, from: usize, to: usize) -> &str {
        std::str::from_utf8(&self.bytes[from..to]).unwrap_or_default()
    }

    pub fn subject(&self) -> &str {
        self.text(0, self.reply_at)
    }

    pub fn reply(&self) -> &str {
        self.text(self.reply_at, self.data_at)
    }

    pub fn data(&self) -> &[u8] {
        &self.bytes[self.data_at..]
    }
}

impl From<Message> for Received {
    fn from(message: Message) -> Self {
        let headers = match message.status {
            None => message.headers,
            // nats-py shows what stands on the header's first line as two headers.
            Some(status) => {
                let mut headers = message.headers.unwrap_or_default();
                headers.insert("Status", status.to_string());
                if let Some(description) = message.description {
                    headers.insert("Description", description.as_str());
                }
                Some(headers)
            }
        };
        Received::new(&message.subject, message.reply.as_deref().unwrap_or_default(), &message.payload, headers)
    }
}

//! One message by itself.

use async_nats::{HeaderMap, Message};

use crate::engine::columns::raw_headers::RawHeaders;

/// A message copied out of the connection's read buffer, which one small message would otherwise keep alive as a whole.
pub struct Received {
    /// Subject, reply, payload.
    bytes: Box<[u8]>,
    reply_at: u32,
    data_at: u32,
    // Boxed: most have none, and there may be many of them.
    pub headers: Option<Box<HeaderMap>>,
    /// In their place, where they are malformed.
    pub raw_headers: Option<Box<RawHeaders>>,
}

impl Received {
    pub fn new(subject: &str, reply: &str, data: &[u8], headers: Option<HeaderMap>) -> Self {
        let bytes = [subject.as_bytes(), reply.as_bytes(), data].concat().into_boxed_slice();
        // No server takes texts that long.
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let (reply_at, data_at) = (place(subject.len()), place(subject.len() + reply.len()));
        Received { bytes, reply_at, data_at, headers: headers.map(Box::new), raw_headers: None }
    }

    fn text(&self, from: u32, to: u32) -> &str {
        let text = self.bytes.get(from as usize..to as usize).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }

    pub fn subject(&self) -> &str {
        self.text(0, self.reply_at)
    }

    pub fn reply(&self) -> &str {
        self.text(self.reply_at, self.data_at)
    }

    pub fn data(&self) -> &[u8] {
        self.bytes.get(self.data_at as usize..).unwrap_or_default()
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

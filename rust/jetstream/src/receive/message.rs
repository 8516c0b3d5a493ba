//! A single received message.

use allocator_api2::{alloc::System, boxed, vec};

use wire::headers::{Headers, block};
use wire::message::Message;

/// A message copied out of the connection's read buffer. Otherwise one small message would keep the whole buffer in
/// memory.
pub struct Received {
    /// Subject, reply, payload.
    bytes: Memory,
    reply_at: u32,
    data_at: u32,
    // Boxed: most messages have no headers, and there may be many messages.
    pub headers: Option<Box<Headers>>,
    /// The headers `Status` and `Description` are the status line of the server.
    pub has_status_line: bool,
}

/// Memory of a message's bytes.
enum Memory {
    /// Block of the allocator, up to a quarter larger than its contents.
    Quick(Box<[u8]>),
    /// Block of the system's allocator, of the exact size but slower to allocate; for many messages at a time.
    Exact(boxed::Box<[u8], System>),
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        match self {
            Memory::Quick(bytes) => bytes,
            Memory::Exact(bytes) => bytes,
        }
    }
}

/// Copies the parts of a message into one block of the allocator.
fn quick(parts: [&[u8]; 3]) -> Memory {
    Memory::Quick(parts.concat().into_boxed_slice())
}

fn exact(parts: [&[u8]; 3]) -> Memory {
    let size = parts.iter().map(|part| part.len()).sum();
    let mut bytes = vec::Vec::with_capacity_in(size, System);
    // `extend_from_slice` of this crate copies byte by byte.
    bytes.resize(size, 0);
    let mut rest = &mut bytes[..];
    for part in parts {
        let (here, after) = rest.split_at_mut(part.len());
        here.copy_from_slice(part);
        rest = after;
    }
    Memory::Exact(bytes.into_boxed_slice())
}

impl Received {
    pub fn new(subject: &str, reply: &str, data: &[u8], headers: Option<Headers>) -> Self {
        Self::in_memory(quick, subject, reply, data, headers)
    }

    /// Copies one of many messages that are delivered together.
    pub fn one_of_many(message: &Message) -> Self {
        Self::from_message(message, exact)
    }

    fn in_memory(
        memory: impl FnOnce([&[u8]; 3]) -> Memory,
        subject: &str,
        reply: &str,
        data: &[u8],
        headers: Option<Headers>,
    ) -> Self {
        let bytes = memory([subject.as_bytes(), reply.as_bytes(), data]);
        // No server accepts texts this long.
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let (reply_at, data_at) = (place(subject.len()), place(subject.len() + reply.len()));
        Received { bytes, reply_at, data_at, headers: headers.map(Box::new), has_status_line: false }
    }

    fn text(&self, from: u32, to: u32) -> &str {
        let text = self.bytes.as_ref().get(from as usize..to as usize).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }

    pub fn subject(&self) -> &str {
        self.text(0, self.reply_at)
    }

    pub fn reply(&self) -> &str {
        self.text(self.reply_at, self.data_at)
    }

    pub fn data(&self) -> &[u8] {
        self.bytes.as_ref().get(self.data_at as usize..).unwrap_or_default()
    }

    fn from_message(message: &Message, memory: impl FnOnce([&[u8]; 3]) -> Memory) -> Self {
        let mut headers = message.headers();
        let status = message.status();
        let has_status_line = status.is_some();
        // nats-py shows the status line as two headers.
        if let Some((code, description)) = status {
            let headers = headers.get_or_insert_default();
            headers.insert("Status".to_owned(), [code.to_string()].into());
            if !description.is_empty() {
                headers.insert("Description".to_owned(), [description].into());
            }
        }
        let reply = message.reply().unwrap_or_default();
        let received = Self::in_memory(memory, &message.subject(), reply, message.payload(), headers);
        Received { has_status_line, ..received }
    }

    /// Rebuilds the message as it was received.
    pub fn message(&self) -> Message {
        let headers = self.headers.as_deref().map(block).unwrap_or_default();
        Message::new(self.subject(), self.reply(), &headers, self.data())
    }
}

impl From<&Message> for Received {
    fn from(message: &Message) -> Self {
        Self::from_message(message, quick)
    }
}

impl From<Message> for Received {
    fn from(message: Message) -> Self {
        Self::from(&message)
    }
}

//! What a subscription gets: put there by the connection's task, all of one read at a time.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::task::AtomicWaker;

use super::Client;
use base::lock::lock;
use wire::message::Message;

/// More than any pull loop or publish window ever has outstanding. What comes beyond it is dropped.
const CAPACITY: usize = 1 << 20;

/// Room for more messages than this is given back.
const MAX_RETAINED_MESSAGES: usize = 4096;

#[derive(Default)]
struct QueuedMessages {
    messages: VecDeque<Message>,
    ended: bool,
}

#[derive(Default)]
pub(super) struct Inbox {
    waiting: Mutex<QueuedMessages>,
    waker: AtomicWaker,
}

impl Inbox {
    /// Takes all of them, in their order.
    pub fn put(&self, messages: &mut VecDeque<Message>) {
        {
            let mut waiting = lock(&self.waiting);
            if waiting.messages.is_empty() {
                std::mem::swap(&mut waiting.messages, messages);
            } else {
                let room = CAPACITY.saturating_sub(waiting.messages.len());
                messages.truncate(room);
                waiting.messages.append(messages);
            }
        }
        self.waker.wake();
    }

    /// Nothing more will come.
    pub fn end(&self) {
        lock(&self.waiting).ended = true;
        self.waker.wake();
    }
}

/// A subscription. It ends where it is dropped.
pub struct Subscriber {
    client: Client,
    sid: u64,
    inbox: Arc<Inbox>,
    /// Taken out of the inbox at one time.
    taken: VecDeque<Message>,
}

impl Subscriber {
    pub(super) fn new(client: Client, sid: u64, inbox: Arc<Inbox>) -> Self {
        Subscriber { client, sid, inbox, taken: VecDeque::new() }
    }

    /// Ends it, at the server too; what has come is still handed out.
    pub fn unsubscribe(&self) {
        self.client.unsubscribe(self.sid);
    }

    /// Ends it once so many messages have come, of all since it began.
    pub fn unsubscribe_after(&self, most: u64) {
        self.client.unsubscribe_after(self.sid, most);
    }

    /// Ends the server's side only: what is on its way still comes.
    pub fn withdraw(&self) {
        self.client.withdraw(self.sid);
    }
}

impl Stream for Subscriber {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let this = self.get_mut();
        if let Some(message) = this.taken.pop_front() {
            return Poll::Ready(Some(message));
        }
        if this.taken.capacity() > MAX_RETAINED_MESSAGES {
            this.taken = VecDeque::new();
        }
        for registered in [false, true] {
            {
                let mut waiting = lock(&this.inbox.waiting);
                if !waiting.messages.is_empty() {
                    std::mem::swap(&mut waiting.messages, &mut this.taken);
                    break;
                }
                if waiting.ended {
                    return Poll::Ready(None);
                }
            }
            if registered {
                return Poll::Pending;
            }
            this.inbox.waker.register(cx.waker());
        }
        Poll::Ready(this.taken.pop_front())
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.client.unsubscribe(self.sid);
    }
}

//! Receive buffer of a subscription, filled by the transport's task with all messages of one read at a time.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::task::AtomicWaker;

use super::Client;
use base::lock::lock;
use wire::message::Message;

/// Maximum number of buffered messages, above any pull loop's or publish window's. Further ones are discarded.
const MAX_QUEUED_MESSAGES: usize = 1 << 20;

/// Capacity in messages above which the buffer is freed.
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
    /// Appends all messages in order.
    pub fn put(&self, messages: &mut VecDeque<Message>) {
        {
            let mut waiting = lock(&self.waiting);
            if waiting.messages.is_empty() {
                std::mem::swap(&mut waiting.messages, messages);
            } else {
                let room = MAX_QUEUED_MESSAGES.saturating_sub(waiting.messages.len());
                messages.truncate(room);
                waiting.messages.append(messages);
            }
        }
        self.waker.wake();
    }

    /// Ends the buffer: no more messages follow.
    pub fn end(&self) {
        lock(&self.waiting).ended = true;
        self.waker.wake();
    }
}

/// A subscription, which ends on drop.
pub struct Subscriber {
    client: Client,
    sid: u64,
    inbox: Arc<Inbox>,
    /// Messages taken out of the inbox together.
    taken: VecDeque<Message>,
}

impl Subscriber {
    pub(super) fn new(client: Client, sid: u64, inbox: Arc<Inbox>) -> Self {
        Subscriber { client, sid, inbox, taken: VecDeque::new() }
    }

    /// Unsubscribes, at the server too. Buffered messages are still delivered.
    pub fn unsubscribe(&self) {
        self.client.unsubscribe(self.sid);
    }

    /// Unsubscribes after `most` messages since the start.
    pub fn unsubscribe_after(&self, most: u64) {
        self.client.unsubscribe_after(self.sid, most);
    }

    /// Unsubscribes at the server only: messages in transit are still delivered.
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

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;
    use std::time::Duration;

    use futures_util::{FutureExt, StreamExt};

    use super::*;
    use crate::connection_state::{ConnectionState, StateSettings};
    use crate::pool::{Pool, Rules};

    fn client() -> Client {
        let wait = Duration::from_secs(2);
        let rules = Rules {
            randomize: false,
            max_failures: None,
            wait,
            wait_max: wait,
            jitter: wait,
            jitter_tls: wait,
            always_tls: false,
            ignore_discovered: true,
        };
        let settings = StateSettings {
            name: None,
            credentials: Default::default(),
            connect_timeout: wait,
            reconnect_timeout: wait,
            allow_reconnect: true,
            retry_first: false,
            choose: None,
            inbox_prefix: None,
            notices: None,
        };
        let (first, _) = tokio::sync::oneshot::channel();
        let pool = Pool::new(&["nats://127.0.0.1:4222".into()], rules).unwrap();
        Client::new(Arc::new(ConnectionState::new(settings, pool, "".into(), first)))
    }

    #[test]
    fn subscriptions_made_during_a_close_end() {
        let mut ended = 0;
        for _ in 0..2_000 {
            let (client, barrier) = (client(), Barrier::new(2));
            let made = thread::scope(|scope| {
                let subscribing = scope.spawn(|| {
                    let mut made = vec![client.subscribe("a".into(), None).unwrap()];
                    barrier.wait();
                    made.extend(std::iter::from_fn(|| client.subscribe("a".into(), None).ok()));
                    made
                });
                barrier.wait();
                client.close();
                subscribing.join().unwrap()
            });
            for mut subscriber in made {
                assert_eq!(subscriber.next().now_or_never(), Some(None));
                ended += 1;
            }
        }
        assert!(ended > 2_000);
    }
}

//! Core messages on their way to the connection: handed in without waiting, sent in order by one task.

use std::sync::{Arc, Mutex};

use async_nats::{Client, HeaderMap, PublishError, Subject};
use bytes::Bytes;
use tokio::sync::{Notify, watch};
use tokio::task::unconstrained;

use crate::engine::connection::link::{Link, Traffic};
use crate::error::{JetError, Result};
use crate::lock::lock;
use crate::task::{Spot, spawn, weak_spot};

/// A message without a result of its own.
pub struct Outgoing {
    pub subject: Subject,
    pub reply: Option<Subject>,
    pub headers: Option<HeaderMap>,
    pub payload: Bytes,
}

#[derive(Default)]
struct Queue {
    messages: Vec<Outgoing>,
    /// Payload bytes of what is queued, and of what the task has taken and not handed over yet.
    bytes: usize,
    /// How many messages were ever queued, and how many of them the connection has taken.
    queued: u64,
    taken: u64,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// There is something to send, or no more will come.
    filled: Notify,
    /// Some of it was sent.
    drained: Notify,
}

/// What waits to be sent, one message just queued included.
pub struct Held {
    pub messages: usize,
    pub bytes: usize,
    /// Nothing else was on its way.
    pub idle: bool,
}

/// The way out. Dropping it lets the task end, after all that is queued.
pub struct Outbox {
    shared: Arc<Shared>,
}

impl Outbox {
    /// Starts the task on the current runtime.
    pub fn start(
        client: Client,
        link: watch::Receiver<Link>,
        traffic: Arc<Traffic>,
        failed: impl FnOnce(JetError) + Send + 'static,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let ended = shared.clone();
        let failed = move |error| {
            failed(error);
            ended.close();
        };
        spawn(unconstrained(carry(client, shared.clone(), link, traffic)), failed)?;
        Ok(Outbox { shared })
    }

    /// Queues one message and has it sent.
    pub fn push(&self, message: Outgoing) {
        if self.hold(message).idle {
            self.kick();
        }
    }

    /// Queues one message that is sent at the next `kick`, together with what comes until then.
    pub fn hold(&self, message: Outgoing) -> Held {
        let mut queue = lock(&self.shared.queue);
        let idle = queue.queued == queue.taken;
        if !queue.closed {
            queue.bytes += message.payload.len();
            queue.messages.push(message);
            queue.queued += 1;
        }
        Held { messages: queue.messages.len(), bytes: queue.bytes, idle }
    }

    /// Has what is queued sent.
    pub fn kick(&self) {
        self.shared.filled.notify_one();
    }

    /// Payload bytes that the connection has not taken yet.
    pub fn bytes(&self) -> usize {
        lock(&self.shared.queue).bytes
    }

    /// What is queued, sent; for when the outbox itself is going.
    pub fn rest(&self) -> impl Future<Output = ()> + Send + 'static {
        let shared = self.shared.clone();
        async move { shared.until(|queue| queue.queued == queue.taken).await }
    }

    /// True where nothing is queued.
    pub fn is_idle(&self) -> bool {
        let queue = lock(&self.shared.queue);
        queue.queued == queue.taken
    }

    /// Waits until at most `bytes` are queued.
    pub async fn room(&self, bytes: usize) {
        self.shared.until(|queue| queue.bytes <= bytes).await;
    }

    /// Waits until the connection has taken all that is queued now: what is sent to it next comes after that.
    pub async fn caught_up(&self) {
        let queued = lock(&self.shared.queue).queued;
        self.shared.until(|queue| queue.closed || queue.taken >= queued).await;
    }
}

impl Shared {
    /// Nothing will be sent any more.
    fn close(&self) {
        *lock(&self.queue) = Queue { closed: true, ..Queue::default() };
        self.drained.notify_waiters();
    }

    async fn until(&self, enough: impl Fn(&Queue) -> bool) {
        loop {
            let drained = self.drained.notified();
            {
                let queue = lock(&self.queue);
                if enough(&queue) {
                    return;
                }
            }
            self.filled.notify_one();
            drained.await;
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.filled.notify_one();
    }
}

async fn carry(client: Client, shared: Arc<Shared>, mut link: watch::Receiver<Link>, traffic: Arc<Traffic>) {
    loop {
        let messages = std::mem::take(&mut lock(&shared.queue).messages);
        if messages.is_empty() {
            shared.drained.notify_waiters();
            if lock(&shared.queue).closed {
                return;
            }
            shared.filled.notified().await;
            continue;
        }
        for message in messages {
            let bytes = message.payload.len();
            if !link.borrow().up {
                // Without a link the bound of what is queued is ours: async-nats has a queue of its own.
                let _gone = link.wait_for(|link| link.up || link.closed).await;
            }
            weak_spot(Spot::Outbox);
            if send(&client, message).await.is_err() {
                // The connection is closed.
                return shared.close();
            }
            traffic.sent(bytes);
            let mut queue = lock(&shared.queue);
            queue.bytes -= bytes;
            queue.taken += 1;
        }
        shared.drained.notify_waiters();
    }
}

async fn send(client: &Client, message: Outgoing) -> std::result::Result<(), PublishError> {
    let Outgoing { subject, reply, headers, payload } = message;
    match (reply, headers) {
        (None, None) => client.publish(subject, payload).await,
        (None, Some(headers)) => client.publish_with_headers(subject, headers, payload).await,
        (Some(reply), None) => client.publish_with_reply(subject, reply, payload).await,
        (Some(reply), Some(headers)) => client.publish_with_reply_and_headers(subject, reply, headers, payload).await,
    }
}

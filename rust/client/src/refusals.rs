//! Permission errors of publishes and subscriptions. The server sends no reply to these, only an error with the
//! subject.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

use base::error::JetError;
use base::lock::lock;

/// Maximum number of queued errors, enough for one read of the socket. Further ones are discarded. The error callback
/// gets all of them, and a call that waits for a discarded one times out.
const MAX_QUEUED: usize = 4_096;

#[derive(Default)]
struct RefusalQueue {
    errors: Mutex<Vec<JetError>>,
    added: Notify,
}

/// Distributor of a connection's permission errors. It keeps no receiver alive.
#[derive(Default)]
pub struct RefusalSender(Mutex<Vec<Weak<RefusalQueue>>>);

/// Receiver of permission errors since the last query. `Link::refusals` increases with each error.
pub struct Refusals(Arc<RefusalQueue>);

/// Permission errors by subject.
#[derive(Default)]
pub struct Refusal {
    publishes: HashMap<String, JetError>,
    subscriptions: HashMap<String, JetError>,
}

impl RefusalSender {
    pub fn subscribe(&self) -> Refusals {
        let queue = Arc::new(RefusalQueue::default());
        let mut receivers = lock(&self.0);
        // Amortized: most receivers live as long as one call.
        if receivers.len() == receivers.capacity() {
            receivers.retain(|queue| queue.strong_count() > 0);
        }
        receivers.push(Arc::downgrade(&queue));
        Refusals(queue)
    }

    /// Sends the error to every receiver; false if there is none.
    pub fn send(&self, error: &JetError) -> bool {
        let queues: Vec<_> = lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        for queue in &queues {
            let mut errors = lock(&queue.errors);
            if errors.len() < MAX_QUEUED {
                errors.push(error.clone());
            }
            drop(errors);
            queue.added.notify_one();
        }
        !queues.is_empty()
    }
}

impl Refusals {
    pub fn take_all(&mut self) -> Refusal {
        let mut refused = Refusal::default();
        std::mem::take(&mut *lock(&self.0.errors)).into_iter().for_each(|error| refused.add(error));
        refused
    }

    /// Waits for a permission error.
    pub async fn wait(&mut self) -> Refusal {
        loop {
            self.0.added.notified().await;
            let refused = self.take_all();
            if !refused.is_empty() {
                return refused;
            }
        }
    }
}

impl Refusal {
    fn add(&mut self, error: JetError) {
        if let JetError::Permission { publish, subject, .. } = &error {
            let kind = if *publish { &mut self.publishes } else { &mut self.subscriptions };
            kind.entry(subject.clone()).or_insert(error);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.publishes.is_empty() && self.subscriptions.is_empty()
    }

    pub fn publish(&self, subject: &str) -> Option<&JetError> {
        self.publishes.get(subject)
    }

    pub fn subscription(&self, subject: &str) -> Option<&JetError> {
        self.subscriptions.get(subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(subject: &str) -> JetError {
        JetError::Permission { publish: true, subject: subject.into(), text: String::new() }
    }

    #[test]
    fn receiver_gets_only_errors_after_its_start() {
        let sender = RefusalSender::default();
        assert!(!sender.send(&refusal("a")));
        let mut first = sender.subscribe();
        assert!(sender.send(&refusal("b")));
        let mut second = sender.subscribe();
        (0..2 * MAX_QUEUED).for_each(|number| assert!(sender.send(&refusal(&number.to_string()))));
        let (one, two) = (first.take_all(), second.take_all());
        assert!(one.publish("a").is_none() && one.publish("b").is_some() && one.publish("0").is_some());
        assert!(two.publish("b").is_none() && two.publishes.len() == MAX_QUEUED);
        assert!(first.take_all().is_empty());
    }

    #[test]
    fn dropped_receivers_are_removed() {
        let sender = RefusalSender::default();
        (0..10_000).for_each(|_| drop(sender.subscribe()));
        assert!(lock(&sender.0).capacity() < 16);
        assert!(!sender.send(&refusal("a")));
    }
}

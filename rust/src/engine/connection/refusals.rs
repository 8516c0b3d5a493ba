//! Publishes and subscriptions that the server refuses: they get no answer, only an error that names the subject.

use std::collections::HashMap;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use crate::error::JetError;

/// What was refused since it was asked last. `Link::refusals` rises when there is something to take.
pub struct Refusals(Receiver<JetError>);

/// Refusals by subject.
#[derive(Default)]
pub struct Refused {
    publishes: HashMap<String, JetError>,
    subscriptions: HashMap<String, JetError>,
}

impl Refusals {
    pub fn new(receiver: Receiver<JetError>) -> Self {
        Refusals(receiver)
    }

    pub fn take(&mut self) -> Refused {
        let mut refused = Refused::default();
        loop {
            match self.0.try_recv() {
                Ok(error) => refused.add(error),
                // The error callback gets what is missing; a call that waits for it runs into its timeout.
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return refused,
            }
        }
    }

    /// Waits until something was refused; None when the connection is gone.
    pub async fn wait(&mut self) -> Option<Refused> {
        use tokio::sync::broadcast::error::RecvError;
        loop {
            match self.0.recv().await {
                Ok(error) => {
                    let mut refused = self.take();
                    refused.add(error);
                    return Some(refused);
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

impl Refused {
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

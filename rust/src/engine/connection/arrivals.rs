//! The tasks that take the subscriptions' messages from async-nats, polled in the order in which the messages came.
//!
//! Missing upstream: an order between messages of two subscriptions, each of which has a channel of its own. How we get
//! it: async-nats fills all the channels in one task, and so wakes their readers in the order of the messages; what is
//! woken here is polled in that order, by one task, while tasks of their own would be run as the runtime likes (the last
//! one woken first, mostly). Held in place by tests/compat/test_callback_order.py.

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::unconstrained;

use crate::error::{JetError, Result};
use crate::task::{guarded, spawn};

type Work = BoxFuture<'static, ()>;

/// Dropping it lets what was added go on to its end.
pub struct Arrivals {
    added: UnboundedSender<Work>,
}

impl Arrivals {
    /// Starts the task that polls them.
    pub fn start(failed: impl FnOnce(JetError) + Send + 'static) -> Result<Self> {
        let (added, works) = unbounded_channel();
        spawn(unconstrained(poll_all(works)), failed)?;
        Ok(Arrivals { added })
    }

    /// Adds one, as `task::spawn` does: `failed` gets its panic, which is no end of the others.
    pub fn add(&self, work: impl Future<Output = ()> + Send + 'static, failed: impl FnOnce(JetError) + Send + 'static) {
        let work = async move {
            if let Err(error) = guarded(work).await {
                failed(error);
            }
        };
        // The task ends with this handle, not before.
        let _held = self.added.send(Box::pin(work));
    }
}

async fn poll_all(mut added: UnboundedReceiver<Work>) {
    let mut works = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            work = added.recv() => match work {
                Some(work) => works.push(work),
                None => break,
            },
            Some(()) = works.next() => {}
        }
    }
    while works.next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::sync::mpsc::channel;

    use super::*;
    use crate::lock::lock;

    #[tokio::test]
    async fn they_are_polled_in_the_order_in_which_they_were_woken() {
        let arrivals = Arrivals::start(|error| panic!("{error}")).unwrap();
        let (seen, (told, mut tell)) = (Arc::new(Mutex::new(Vec::new())), unbounded_channel());
        let mut readers: Vec<_> = (0..8)
            .map(|reader| {
                let (send, mut receive) = channel::<()>(1);
                let (seen, told) = (seen.clone(), told.clone());
                let work = async move {
                    while receive.recv().await.is_some() {
                        lock(&seen).push(reader);
                        told.send(()).unwrap();
                    }
                };
                arrivals.add(work, |error| panic!("{error}"));
                (reader, send)
            })
            .collect();
        for round in 0..200 {
            readers.rotate_left(round % 3);
            for (_, send) in &readers {
                send.try_send(()).unwrap();
            }
            for _ in &readers {
                tell.recv().await.unwrap();
            }
            let order: Vec<_> = readers.iter().map(|(reader, _)| *reader).collect();
            let seen = std::mem::take(&mut *lock(&seen));
            assert_eq!(seen, order);
        }
    }

    #[tokio::test]
    async fn a_panic_in_one_is_told_and_the_others_go_on() {
        let arrivals = Arrivals::start(|error| panic!("{error}")).unwrap();
        let (told, mut tell) = unbounded_channel();
        let done = told.clone();
        let nothing: Vec<u8> = Vec::new();
        arrivals.add(async move { assert!(!nothing.is_empty(), "nothing") }, move |error| told.send(error).unwrap());
        assert_eq!(tell.recv().await, Some(JetError::Internal("nothing".into())));
        arrivals.add(async move { done.send(JetError::Internal("done".into())).unwrap() }, |error| panic!("{error}"));
        assert_eq!(tell.recv().await, Some(JetError::Internal("done".into())));
    }
}

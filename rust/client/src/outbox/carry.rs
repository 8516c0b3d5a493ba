//! The task that hands over what is queued, in order.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use super::{Entry, SPARE, Shared};
use crate::link::Link;
use crate::traffic::Traffic;
use crate::transport::{Client, Refused};
use base::error::{About, JetError};
use base::lock::lock;
use runtime::task::{Spot, weak_spot};

/// What the task does next.
enum Step {
    Hand(Entry),
    /// There is no room on the wire for so many bytes.
    Wait(usize),
    WaitForLink,
    Empty,
    End,
}

impl Shared {
    /// Takes the next entry that is wanted, where it can go. `handed` is the size of the last one.
    fn next(&self, client: &Client, up: bool, handed: usize) -> Step {
        let mut queue = lock(&self.queue);
        queue.bytes -= handed;
        while let Some((_, Entry::Gone)) = queue.entries.front() {
            queue.entries.pop_front();
            queue.gone -= 1;
        }
        queue.taken = queue.entries.front().map_or(queue.queued, |(place, _)| *place);
        let Some((_, entry)) = queue.entries.front() else {
            if queue.entries.capacity() > SPARE {
                queue.entries = VecDeque::new();
            }
            return if queue.closed { Step::End } else { Step::Empty };
        };
        let bytes = entry.bytes();
        if !up {
            // Without a link the bound of what is queued is ours, and it can be taken back.
            return Step::WaitForLink;
        }
        if !client.has_room(bytes) {
            return Step::Wait(bytes);
        }
        queue.entries.pop_front().map_or(Step::Empty, |(_, entry)| Step::Hand(entry))
    }
}

pub(super) async fn carry(
    client: Client,
    shared: Arc<Shared>,
    mut link: watch::Receiver<Link>,
    traffic: Arc<Traffic>,
    refused: impl Fn(JetError),
) {
    let mut handed = 0;
    loop {
        let up = {
            let link = link.borrow();
            // Once it is closed handing over fails, which ends this task.
            link.up || link.closed
        };
        let step = shared.next(&client, up, std::mem::take(&mut handed));
        if matches!(step, Step::Hand(_)) {
            weak_spot(Spot::Outbox);
        }
        match step {
            Step::Hand(Entry::Message(message, bytes, verb)) => {
                handed = bytes;
                traffic.sent(verb, message.payload.len());
                match client.send(&message, bytes) {
                    Ok(()) => {}
                    // It was queued for another server, which takes larger ones.
                    Err(Refused::TooLarge) => {
                        let what = About::Other("a message that was queued while disconnected".into());
                        let limit = client.max_payload();
                        refused(JetError::MaxPayload { what, size: bytes, limit });
                    }
                    Err(Refused::Closed | Refused::LinkLost) => break,
                }
            }
            Step::Hand(Entry::Subscribe { done, .. }) if done.is_closed() => {}
            Step::Hand(Entry::Subscribe { subject, queue, done }) => {
                match client.subscribe(subject, queue) {
                    // Where nobody waits any more it ends itself.
                    Ok(subscriber) => drop(done.send(subscriber)),
                    Err(_) => break,
                }
            }
            Step::Hand(Entry::Turn { come, over }) => {
                if come.send(()).is_ok() {
                    let _dropped = over.await;
                }
            }
            Step::Hand(Entry::Gate(gate)) => gate.pass(&mut link, &shared.drained).await,
            Step::Hand(Entry::Gone) => {}
            Step::Wait(bytes) => {
                shared.drained.notify_waiters();
                client.room(bytes).await;
            }
            Step::WaitForLink => {
                shared.drained.notify_waiters();
                let _gone = link.wait_for(|link| link.up || link.closed).await;
            }
            Step::Empty => {
                shared.drained.notify_waiters();
                shared.filled.notified().await;
            }
            Step::End => break,
        }
    }
    shared.close();
}

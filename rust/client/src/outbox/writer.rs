//! Writer task of the outbox: hands over the entries in order.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use super::{MAX_RETAINED_ENTRIES, OutboxEntry, OutboxState};
use crate::connection_state::link::Link;
use crate::traffic::Traffic;
use crate::transport::{Client, SendRejected};
use base::error::{About, JetError};
use base::lock::lock;
use runtime::task::{Spot, weak_spot};

/// Next step of the task.
enum WriterStep {
    Hand(OutboxEntry),
    /// The write buffer has no room for this many bytes.
    Wait(usize),
    WaitForLink,
    Empty,
    End,
}

impl OutboxState {
    /// Takes the next entry that is not cancelled, if there is room for it. `handed` is the size of the last one.
    fn next(&self, client: &Client, up: bool, handed: usize) -> WriterStep {
        let mut queue = lock(&self.queue);
        queue.bytes -= handed;
        while let Some((_, OutboxEntry::Gone)) = queue.entries.front() {
            queue.entries.pop_front();
            queue.gone -= 1;
        }
        queue.taken = queue.entries.front().map_or(queue.queued, |(place, _)| *place);
        let Some((_, entry)) = queue.entries.front() else {
            if queue.entries.capacity() > MAX_RETAINED_ENTRIES {
                queue.entries = VecDeque::new();
            }
            return if queue.closed { WriterStep::End } else { WriterStep::Empty };
        };
        let bytes = entry.bytes();
        if !up {
            // Without a link the entries stay in the outbox: its limit applies, and they can be cancelled.
            return WriterStep::WaitForLink;
        }
        if !client.has_room(bytes) {
            return WriterStep::Wait(bytes);
        }
        queue.entries.pop_front().map_or(WriterStep::Empty, |(_, entry)| WriterStep::Hand(entry))
    }
}

/// The error of a message that was queued for another server with a higher limit.
fn too_large(size: usize, limit: usize) -> JetError {
    JetError::MaxPayload { what: About::Other("a message that was queued while disconnected".into()), size, limit }
}

pub(super) async fn write_queued(
    client: Client,
    shared: Arc<OutboxState>,
    mut link: watch::Receiver<Link>,
    traffic: Arc<Traffic>,
    refused: impl Fn(JetError),
) {
    let mut handed = 0;
    loop {
        let up = {
            let link = link.borrow();
            // After a close, handing over fails, which ends this task.
            link.is_open() || link.closed
        };
        let step = shared.next(&client, up, std::mem::take(&mut handed));
        if matches!(step, WriterStep::Hand(_)) {
            weak_spot(Spot::Outbox);
        }
        match step {
            WriterStep::Hand(OutboxEntry::Message(message, bytes, verb)) => {
                handed = bytes;
                traffic.sent(verb, message.payload.len());
                match client.send(&message, bytes) {
                    Ok(()) => {}
                    Err(SendRejected::TooLarge) => refused(too_large(bytes, client.max_payload())),
                    Err(SendRejected::Closed | SendRejected::LinkLost) => break,
                }
            }
            WriterStep::Hand(OutboxEntry::Subscribe { done, .. }) if done.is_closed() => {}
            WriterStep::Hand(OutboxEntry::Subscribe { subject, queue, done }) => {
                match client.subscribe(subject, queue) {
                    // If the caller stopped waiting, the subscriber is dropped and unsubscribes.
                    Ok(subscriber) => drop(done.send(subscriber)),
                    Err(_) => break,
                }
            }
            WriterStep::Hand(OutboxEntry::Slot { come, over }) => {
                if come.send(()).is_ok() {
                    let _dropped = over.await;
                }
            }
            WriterStep::Hand(OutboxEntry::Fence(fence)) => fence.pass(&mut link, &shared.drained).await,
            WriterStep::Hand(OutboxEntry::Gone) => {}
            WriterStep::Wait(bytes) => {
                shared.drained.notify_waiters();
                client.room(bytes).await;
            }
            WriterStep::WaitForLink => {
                shared.drained.notify_waiters();
                let _gone = link.wait_for(|link| link.is_open() || link.closed).await;
            }
            WriterStep::Empty => {
                shared.drained.notify_waiters();
                shared.filled.notified().await;
            }
            WriterStep::End => break,
        }
    }
    shared.close();
}

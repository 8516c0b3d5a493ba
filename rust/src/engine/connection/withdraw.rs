//! Ending the server's side of a subscription only: what is on its way still comes.
//!
//! Missing upstream: a drain that keeps the subscription until the server has answered. async-nats's own drain forgets
//! it before the server has, and drops what comes in between. How we get it: an unsubscribe after a number of messages
//! that has ten digits. nats-server's parser reads nine and takes more for no limit, which ends its side at once;
//! async-nats counts up to the number, which ends ours never. Should a server read it one day, dropping the subscriber
//! still ends both sides. Held in place by tests/test_fetch.py
//! (`test_no_request_is_left_at_the_limit_of_unacknowledged_messages`) and the drains of tests/test_subscribe.py.

use async_nats::{Subscriber, UnsubscribeError};

/// A limit of messages with more digits than a server reads.
const UNREADABLE_LIMIT: u64 = 10_000_000_000;

pub async fn withdraw(subscriber: &mut Subscriber) -> Result<(), UnsubscribeError> {
    subscriber.unsubscribe_after(UNREADABLE_LIMIT).await
}

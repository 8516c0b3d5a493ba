//! Task of a subscription: moves messages from the connection into the buffer, and handles a push consumer's status
//! messages.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::flow_control_replies::answer;
use super::{
    OnNotice, Order, SharedSubscription, SubscriptionKind, SubscriptionNotice, SubscriptionState, WaitingMessages,
};
use crate::receive::pull::last_consumer_seq;
use crate::receive::rollback::Mark;
use client::Connection;
use client::disconnect_reason::malformed;
use client::outbox::OutboxSlot;
use client::traffic::Verb;
use client::transport::Subscriber;
use runtime::task::{Spot, weak_spot};
use wire::message::Message;

/// Status code of heartbeats and flow control messages.
const IDLE_HEARTBEAT: u16 = 100;
/// Messages after which waiting readers are woken, even if more are available.
const MESSAGES_PER_WAKE: usize = 1024;
/// One of this many messages is kept as a mark, to detect a rolled back stream later.
const MARK_EVERY: u64 = 1_024;

/// Task that moves messages out of the connection's buffer, which discards silently when full.
pub struct Pump {
    /// Resolves once the subscription was handed to the connection.
    pub subscriber: oneshot::Receiver<Subscriber>,
    pub orders: UnboundedReceiver<(Order, OutboxSlot)>,
    pub shared: Arc<SharedSubscription>,
    pub conn: Arc<Connection>,
    pub on_notice: OnNotice,
}

impl Pump {
    pub async fn run(mut self) {
        let mut due = VecDeque::new();
        let subscriber = loop {
            tokio::select! {
                biased;
                made = &mut self.subscriber => break made.ok(),
                order = self.orders.recv() => match order {
                    // The subscription is never made.
                    Some((Order::Unsubscribe, _)) | None => break None,
                    Some(order) => due.push_back(order),
                },
            }
        };
        if let Some(mut subscriber) = subscriber {
            self.pass_on(&mut subscriber, due).await;
        }
        self.shared.end(self.conn.state.failure());
    }

    /// Runs until the subscription ends. `due` has the orders that wait for their outbox slots.
    async fn pass_on(&mut self, subscriber: &mut Subscriber, mut due: VecDeque<(Order, OutboxSlot)>) {
        loop {
            let more = tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some((order, turn)) => {
                        if matches!(order, Order::Unsubscribe) {
                            // The messages received by now are the last.
                            let (shared, conn, tell) = (&self.shared, &self.conn, &self.on_notice);
                            while Self::burst(subscriber, shared, conn, tell).now_or_never() == Some(true) {}
                            self.shared.end(None);
                        }
                        due.push_back((order, turn));
                        true
                    }
                    // The subscription was dropped.
                    None => apply_order(subscriber, Order::Unsubscribe),
                },
                open = come(&mut due) => match due.pop_front() {
                    Some((order, turn)) if open => {
                        let more = apply_order(subscriber, order);
                        turn.pass();
                        more
                    }
                    // A closed connection ends the channel too, after the messages in it.
                    _ => true,
                },
                more = Self::burst(subscriber, &self.shared, &self.conn, &self.on_notice) => {
                    self.shared.came();
                    if self.shared.lock().flow.take_answered() {
                        // The answer is sent now, before the rest is buffered.
                        yield_now().await;
                    }
                    if self.shared.lock().is_limit_reached() {
                        self.shared.end(None);
                        apply_order(subscriber, Order::Unsubscribe)
                    } else {
                        more
                    }
                }
            };
            if !more {
                return;
            }
        }
    }

    /// Moves the available messages, at least one; false at the end.
    async fn burst(
        subscriber: &mut Subscriber,
        shared: &SharedSubscription,
        conn: &Connection,
        on_notice: &OnNotice,
    ) -> bool {
        poll_fn(|cx| {
            let mut taken = 0;
            let mut dropped = 0;
            let more = loop {
                match subscriber.poll_next_unpin(cx) {
                    Poll::Pending if taken == 0 => return Poll::Pending,
                    Poll::Pending => break true,
                    Poll::Ready(None) => break false,
                    Poll::Ready(Some(message)) => {
                        weak_spot(Spot::Subscription);
                        match shared.keep(conn, message) {
                            None => (),
                            Some(SubscriptionNotice::Dropped(more)) => dropped += more,
                            Some(notice) => on_notice(notice),
                        }
                        taken += 1;
                        if taken == MESSAGES_PER_WAKE {
                            break true;
                        }
                    }
                }
            };
            if dropped > 0 {
                conn.traffic.dropped(dropped);
                on_notice(SubscriptionNotice::Dropped(dropped));
            }
            Poll::Ready(more)
        })
        .await
    }
}

/// Waits until the first order's slot is reached; false if it never is.
async fn come(due: &mut VecDeque<(Order, OutboxSlot)>) -> bool {
    match due.front_mut() {
        Some((_, turn)) => turn.wait().await,
        None => std::future::pending().await,
    }
}

/// Performs an order; false if it ends the subscription.
fn apply_order(subscriber: &mut Subscriber, order: Order) -> bool {
    match order {
        Order::After(limit) => {
            subscriber.unsubscribe_after(limit);
            true
        }
        Order::Withdraw => {
            subscriber.withdraw();
            true
        }
        Order::Unsubscribe => {
            subscriber.unsubscribe();
            false
        }
    }
}

impl SharedSubscription {
    fn is_full(state: &SubscriptionState, more: usize) -> bool {
        let full = |limit: usize, held: usize| limit > 0 && held > limit;
        full(state.limits.messages, state.messages + 1) || full(state.limits.bytes, state.bytes + more)
    }

    fn keep(&self, conn: &Connection, message: Message) -> Option<SubscriptionNotice> {
        conn.traffic.received(Verb::Subscribe, message.payload().len());
        let malformed = malformed(&message, None);
        let mut state = self.lock();
        if state.ended || state.is_limit_reached() {
            return None;
        }
        let mut nanos = 0;
        if self.kind != SubscriptionKind::Core {
            if message.status().is_some_and(|(code, _)| code == IDLE_HEARTBEAT) {
                return state.heartbeat(conn, self.kind, &message);
            }
            let meta = message.meta();
            // A message was lost, or the consumer restarted. Later messages are not in order.
            let in_order = meta.is_some_and(|meta| meta.consumer_seq == state.consumer_seq + 1);
            if self.kind == SubscriptionKind::Ordered && (state.gap || !in_order) {
                state.gap = true;
                return None;
            }
            if let Some(meta) = meta {
                state.consumer_seq = meta.consumer_seq;
                (state.seq, nanos) = (meta.seq, meta.nanos);
            }
        }
        state.delivered += 1;
        if Self::is_full(&state, message.payload().len()) {
            state.dropped += 1;
            state.dropped_bytes += message.payload().len() as u64;
            if self.kind == SubscriptionKind::Ordered {
                // A new consumer starts after the last message in order.
                state.gap = true;
                state.seq = state.held_seq;
            }
            return Some(SubscriptionNotice::Dropped(1));
        }
        (state.held_seq, state.held_nanos) = (state.seq, nanos);
        if state.delivered % MARK_EVERY == 1 && state.seq > 0 {
            let mark = Mark { seq: state.seq as u64, nanos };
            state.marks.push(mark);
        }
        state.messages += 1;
        let waiting = WaitingMessages::behind(state.bytes, message);
        state.bytes += waiting.payload();
        state.queue.push_back(waiting);
        drop(state);
        malformed.into_iter().for_each(|error| conn.state.tell(error));
        None
    }
}

impl SubscriptionState {
    /// Whether as many messages as requested were received; discarded ones do not count.
    pub(super) fn is_limit_reached(&self) -> bool {
        self.limit.is_some_and(|limit| self.delivered - self.dropped >= limit)
    }

    /// Handles a heartbeat or a flow control message.
    fn heartbeat(
        &mut self,
        conn: &Connection,
        kind: SubscriptionKind,
        message: &Message,
    ) -> Option<SubscriptionNotice> {
        if let Some(reply) = message.reply() {
            self.flow.asked(conn, reply.into(), (self.messages, self.bytes), self.limits);
            return None;
        }
        // The server waits for the answer to a flow control message. That message arrives by itself unless it was lost.
        if let Some(stalled) = message.header("Nats-Consumer-Stalled")
            && self.queue.is_empty()
        {
            answer(conn, stalled.into());
        }
        let last = last_consumer_seq(message)?;
        if last == self.consumer_seq {
            return None;
        }
        if kind == SubscriptionKind::Ordered {
            self.gap = true;
            return None;
        }
        // No message was received yet: the consumer is older than this subscription.
        (self.consumer_seq > 0).then_some(SubscriptionNotice::Missed {
            seq: self.seq,
            consumer_seq: self.consumer_seq,
            last,
        })
    }
}

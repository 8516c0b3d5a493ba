//! What a request brings after its call has returned: over a slow link, or from a server that was stopped.
//!
//! It belongs to the next call of the same subscription, which asks for nothing new before all of it has come: what is
//! under way stays bounded by one request. When the subscription ends it is given back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::undelivered::UndeliveredMessages;
use crate::receive::pull::{PullInbox, Status};
use client::Connection;
use runtime::task::spawn;

/// How long one round trip is waited for, before it is looked whether the link still stands.
const TRIP: Duration = Duration::from_secs(5);
const LATE_RETRY_INTERVAL: Duration = Duration::from_millis(100);

pub struct LateReplies {
    /// What is here already: it was taken out of a cancelled call, or was too large for the one that looked at it.
    at_hand: VecDeque<UndeliveredMessages>,
    coming: Option<Coming>,
}

/// An inbox, and what its request still brings.
struct Coming {
    inbox: PullInbox,
    conn: Arc<Connection>,
    /// Of the link, when the request was sent.
    breaks: u64,
    /// When something came last. Calls may be shorter than a silence.
    heard: Instant,
    rest: Rest,
}

enum Rest {
    /// The request is open, and to be withdrawn.
    Open,
    /// The request is open, and so short that it is left to end by itself: what the server is about to send would be lost
    /// with it otherwise.
    Ending(Ending),
    /// It was withdrawn; the task ends when all that the server had sent has come.
    Underway(JoinHandle<()>),
    Here,
}

/// A request for what is at hand.
#[derive(Clone, Copy)]
pub struct Ending {
    pub number: u64,
    /// How many of its messages have not come.
    pub left: usize,
    /// And bytes of them. Without any left it is over, and the server does not say so.
    pub room: usize,
}

/// How long a server may be silent about such a request.
const LATE_SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

impl LateReplies {
    /// An inbox whose request ends by itself.
    pub fn ending(conn: &Arc<Connection>, inbox: PullInbox, breaks: u64, ending: Ending) -> Self {
        let coming = Coming { inbox, conn: conn.clone(), breaks, heard: Instant::now(), rest: Rest::Ending(ending) };
        LateReplies { at_hand: VecDeque::new(), coming: Some(coming) }
    }

    /// An inbox whose request is still open: it is withdrawn. `breaks`: of the link, when the request was sent.
    pub fn open(conn: &Arc<Connection>, inbox: PullInbox, breaks: u64) -> Self {
        let mut coming = Coming { inbox, conn: conn.clone(), breaks, heard: Instant::now(), rest: Rest::Open };
        coming.withdraw();
        LateReplies { at_hand: VecDeque::new(), coming: Some(coming) }
    }

    /// Withdraws the request, where that was not done yet.
    pub fn withdraw(&mut self) {
        if let Some(coming) = &mut self.coming {
            coming.withdraw();
        }
    }

    /// Nothing more comes.
    pub fn at_hand(kept: Vec<UndeliveredMessages>) -> Self {
        LateReplies { at_hand: kept.into(), coming: None }
    }

    /// The next message; None when all have come.
    pub async fn next(&mut self) -> Option<UndeliveredMessages> {
        if let Some(kept) = self.at_hand.pop_front() {
            return Some(kept);
        }
        self.coming.as_mut()?.next().await
    }

    /// Takes back what `next` gave.
    pub fn put_back(&mut self, kept: UndeliveredMessages) {
        self.at_hand.push_front(kept);
    }
}

impl Coming {
    fn withdraw(&mut self) {
        if let Rest::Open = self.rest {
            self.inbox.messages.withdraw();
            let all = spawn(all_came(self.conn.clone(), self.breaks), |_| ());
            self.rest = all.map_or(Rest::Here, Rest::Underway);
        }
    }

    async fn next(&mut self) -> Option<UndeliveredMessages> {
        loop {
            let message = match &mut self.rest {
                Rest::Open => {
                    self.withdraw();
                    continue;
                }
                Rest::Ending(Ending { number, left, room }) => {
                    if *left == 0 || *room == 0 || self.conn.breaks() != self.breaks {
                        self.rest = Rest::Here;
                        continue;
                    }
                    let Ok(message) = timeout_at(self.heard + LATE_SILENCE_TIMEOUT, self.inbox.messages.next()).await
                    else {
                        self.rest = Rest::Open;
                        continue;
                    };
                    self.heard = Instant::now();
                    let message = message?;
                    match self.inbox.status(&message) {
                        None => (*left, *room) = (*left - 1, room.saturating_sub(message.size())),
                        Some((of, status)) if of == *number && !matches!(status, Status::Heartbeat) => *left = 0,
                        Some(_) => {}
                    }
                    message
                }
                Rest::Underway(all) => tokio::select! {
                    biased;
                    message = self.inbox.messages.next() => message?,
                    _over = all => {
                        self.rest = Rest::Here;
                        continue;
                    }
                },
                Rest::Here => self.inbox.messages.next().now_or_never().flatten()?,
            };
            if self.inbox.status(&message).is_none() {
                return Some(UndeliveredMessages::Fresh(message));
            }
        }
    }
}

/// Returns once nothing can come any more of what the server had sent: a round trip later, or when the link broke.
async fn all_came(conn: Arc<Connection>, breaks: u64) {
    while conn.breaks() == breaks && !conn.link.borrow().closed {
        if conn.round_trip(TRIP).await.is_ok() {
            return;
        }
        tokio::time::sleep(LATE_RETRY_INTERVAL).await;
    }
}

//! Messages that a call received and its caller does not get, because the call was cancelled.
//!
//! If the consumer wants acks, they are negatively acknowledged, and the server redelivers them. If it wants none, the
//! server does not redeliver: they are kept for the subscription's next call.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::pull_request::PullRequest;
use super::sink::{Sink, Undelivered};
use crate::api::{Api, ConsumerState};
use crate::receive::ack::{AckKind, ack, send};
use base::error::Result;
use base::lock::{Guard, lock};
use base::panics::caught;
use client::Connection;
use runtime::task::spawn;
use wire::nats::Subject;

/// Properties of a consumer that cannot be updated.
#[derive(Clone, Copy)]
pub struct ConsumerTraits {
    pub wants_acks: bool,
    /// The server omits payloads (`headers_only`).
    pub headers_only: bool,
}

impl From<&ConsumerState> for ConsumerTraits {
    fn from(state: &ConsumerState) -> Self {
        ConsumerTraits { wants_acks: state.config.ack_policy != "none", headers_only: state.config.headers_only }
    }
}

/// Decides between redelivery and keeping, for all calls of a subscription.
pub struct Redelivery {
    pub conn: Arc<Connection>,
    prefix: String,
    pub stream: String,
    consumer: String,
    /// Messages that former calls requested and did not hand out.
    late: Mutex<VecDeque<LateReplies>>,
    ways: OnceLock<ConsumerTraits>,
    /// Number of calls whose messages have no destination yet.
    undecided: watch::Sender<usize>,
    ended: AtomicBool,
}

impl Redelivery {
    pub fn new(conn: Arc<Connection>, prefix: String, stream: String, consumer: String) -> Self {
        let (late, ways, undecided, ended) = Default::default();
        Redelivery { conn, prefix, stream, consumer, late, ways, undecided, ended }
    }

    pub fn late(&self) -> Guard<'_, VecDeque<LateReplies>> {
        lock(&self.late)
    }

    pub fn learn(&self, ways: ConsumerTraits) {
        let _it_was_known = self.ways.set(ways);
    }

    pub async fn ways(&self) -> Option<ConsumerTraits> {
        if let Some(ways) = self.ways.get() {
            return Some(*ways);
        }
        let state = Api::new(&self.conn, &self.prefix).consumer_state(&self.stream, &self.consumer).await.ok()?;
        let ways = ConsumerTraits::from(&state);
        self.learn(ways);
        Some(ways)
    }

    /// Waits until the messages of former calls have a destination.
    pub async fn settled(&self, deadline: Instant) {
        if *self.undecided.borrow() > 0 {
            let mut undecided = self.undecided.subscribe();
            let _late = timeout_at(deadline, undecided.wait_for(|undecided| *undecided == 0)).await;
        }
    }

    /// Returns everything to the server: no further call takes messages.
    pub fn end(self: &Arc<Self>) {
        self.ended.store(true, Ordering::SeqCst);
        for late in std::mem::take(&mut *self.late()) {
            self.give_back(Vec::new(), Some(late));
        }
    }

    /// True if the consumer is known to want acks, so that undelivered messages are redelivered.
    pub fn goes_back(&self) -> bool {
        self.ways.get().is_some_and(|ways| ways.wants_acks)
    }

    /// Takes over the messages of a sink, and those that an open request still brings.
    pub fn take_over(self: &Arc<Self>, sink: Option<impl Sink>, open: Option<PullRequest>) {
        let goes_back = self.goes_back();
        let late = open.map(|request| LateReplies::of_request(request, goes_back));
        // A panic in a `drop` during unwinding would abort the process.
        if goes_back {
            let replies = caught(|| sink.map_or_else(Vec::new, |sink| sink.replies())).unwrap_or_default();
            return self.give_back(replies, late);
        }
        let kept = caught(|| sink.map_or_else(Vec::new, Sink::keep)).unwrap_or_default();
        self.take_kept(kept, late);
    }

    fn take_kept(self: &Arc<Self>, kept: Vec<Undelivered>, late: Option<LateReplies>) {
        if kept.is_empty() && late.is_none() {
            return;
        }
        match self.ways.get() {
            Some(ways) => self.sort(*ways, kept, late),
            None => {
                let undecided = self.undecided();
                let work = async move {
                    let ways = undecided.ways().await;
                    undecided.0.sort(ways, kept, late);
                };
                let _nobody_waits = spawn(work, |_| ());
            }
        }
    }

    /// Takes back messages that were handed out, in their order. The next call waits until the returned future is done.
    pub fn put_back(self: &Arc<Self>, kept: Vec<Undelivered>) -> impl Future<Output = Result<()>> + Send + use<> {
        let undecided = self.undecided();
        async move {
            let ways = undecided.ways().await;
            if !ways.wants_acks {
                undecided.0.sort(ways, kept, None);
                return Ok(());
            }
            ack(&undecided.0.conn, kept.into_iter().filter_map(Undelivered::reply).collect(), &AckKind::Nak(None)).await
        }
    }

    fn undecided(self: &Arc<Self>) -> Undecided {
        self.undecided.send_modify(|undecided| *undecided += 1);
        Undecided(self.clone())
    }

    /// A guard for a result that is not claimed yet: the next call may have to begin with its messages.
    pub fn may_come_back(self: &Arc<Self>) -> Option<Undecided> {
        (!self.goes_back()).then(|| self.undecided())
    }

    fn sort(self: &Arc<Self>, ways: ConsumerTraits, kept: Vec<Undelivered>, late: Option<LateReplies>) {
        if ways.wants_acks || self.ended.load(Ordering::SeqCst) {
            return self.give_back(kept.into_iter().filter_map(Undelivered::reply).collect(), late);
        }
        let mut queue = self.late();
        queue.extend((!kept.is_empty()).then(|| LateReplies::at_hand(kept)));
        queue.extend(late);
    }

    /// Negatively acknowledges these messages, and those that still arrive.
    ///
    /// Best effort: a disconnected server redelivers after its ack wait.
    fn give_back(self: &Arc<Self>, replies: Vec<Subject>, late: Option<LateReplies>) {
        if replies.is_empty() && late.is_none() {
            return;
        }
        let conn = self.conn.clone();
        let work = async move {
            let _ = send(&conn, replies, &AckKind::Nak(None)).await;
            let Some(mut late) = late else { return };
            while let Some(kept) = late.next().await {
                let _ = send(&conn, kept.reply(), &AckKind::Nak(None)).await;
            }
        };
        let _nobody_waits = spawn(work, |_| ());
    }
}

/// Messages that belong to the next call of the same subscription, which requests nothing new before all of them
/// arrived: so data in transit stays bounded by one request. They go back when the subscription ends.
pub struct LateReplies {
    /// Taken out of a cancelled call, or too large for the call that looked at it.
    at_hand: VecDeque<Undelivered>,
    request: Option<PullRequest>,
}

impl LateReplies {
    /// A request whose call is over.
    pub fn of_request(mut request: PullRequest, redelivers: bool) -> Self {
        request.call_over(redelivers);
        LateReplies { at_hand: VecDeque::new(), request: Some(request) }
    }

    /// Messages after which nothing arrives.
    pub fn at_hand(kept: Vec<Undelivered>) -> Self {
        LateReplies { at_hand: kept.into(), request: None }
    }

    /// The next message; `None` when all have arrived.
    pub async fn next(&mut self) -> Option<Undelivered> {
        if let Some(kept) = self.at_hand.pop_front() {
            return Some(kept);
        }
        self.request.as_mut()?.next().await.map(Undelivered::Fresh)
    }

    /// Takes back a message that `next` returned.
    pub fn put_back(&mut self, kept: Undelivered) {
        self.at_hand.push_front(kept);
    }

    /// Forgets the message that was put back last.
    pub fn drop_first(&mut self) {
        self.at_hand.pop_front();
    }
}

/// A guard while messages have no destination; dropping it ends the wait of the next call.
pub struct Undecided(Arc<Redelivery>);

impl Undecided {
    /// The consumer's traits. If they cannot be read, messages are kept for the next call: with acks they would come
    /// again, without acks a nak would lose them.
    async fn ways(&self) -> ConsumerTraits {
        self.0.ways().await.unwrap_or(ConsumerTraits { wants_acks: false, headers_only: false })
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        self.0.undecided.send_modify(|undecided| *undecided -= 1);
    }
}

/// Cancellation of a call: from its begin on the next call waits until this one has released its messages.
pub struct Cancel {
    returns: Arc<Redelivery>,
    state: Mutex<Cancelled>,
}

#[derive(Default)]
struct Cancelled {
    undecided: Option<Undecided>,
    over: bool,
}

impl Cancel {
    /// Returns the handle, and the guard that the call's work holds until its end.
    pub fn new(returns: &Arc<Redelivery>) -> (Arc<Self>, LastDelivery) {
        let cancel = Arc::new(Cancel { returns: returns.clone(), state: Mutex::default() });
        (cancel.clone(), LastDelivery(cancel))
    }

    /// Announces the cancellation. Call it before the work is dropped.
    pub fn begin(&self) {
        let undecided = self.returns.undecided();
        let mut state = lock(&self.state);
        if !state.over {
            state.undecided = Some(undecided);
        }
    }
}

/// The guard that a call's work drops last.
pub struct LastDelivery(Arc<Cancel>);

impl Drop for LastDelivery {
    fn drop(&mut self) {
        let undecided = {
            let mut state = lock(&self.0.state);
            state.over = true;
            state.undecided.take()
        };
        drop(undecided);
    }
}

//! Publisher: a publish loop fed one message at a time.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::Stream;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::publish::durable::durable;
use crate::publish::window::{ResultSink, RowToPublish, Window, run};
use base::error::{JetError, Result};
use client::Connection;
use client::outbox::fence::FenceGuard;
use runtime::task::spawn;

/// Maximum time between the end of a loop's channel and its error.
const LAST_WORD: Duration = Duration::from_millis(100);

/// Input of the loop. The caller limits the queued messages. Dropping it ends the loop after the results.
pub struct Publisher {
    send: Option<UnboundedSender<Vec<Feed>>>,
    conn: Arc<Connection>,
    task: Option<JoinHandle<()>>,
    urgent: Arc<Urgent>,
    /// Error that ended the loop early.
    failure: Arc<OnceLock<JetError>>,
}

/// Input item of a publisher.
pub enum Feed {
    Row(RowToPublish),
    /// All earlier messages are to be handed over before the fence opens.
    Fence(FenceGuard),
}

impl Feed {
    fn is_urgent(&self) -> bool {
        match self {
            Feed::Row((_, body)) => body.is_awaited(),
            Feed::Fence(_) => true,
        }
    }
}

/// Counter of urgent items in the loop's input: awaited messages, and fences of core messages. The loop sends these and
/// all before them regardless of its window, because a stream that does not answer may occupy most of it.
#[derive(Default)]
pub struct Urgent {
    waiting: AtomicUsize,
    added: Notify,
}

impl Urgent {
    pub fn count(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    pub fn is_any(&self) -> bool {
        self.count() > 0
    }

    /// Waits for another urgent item.
    pub async fn added(&self) {
        self.added.notified().await;
    }
}

pub struct Channel {
    receive: UnboundedReceiver<Vec<Feed>>,
    now: std::vec::IntoIter<Feed>,
    urgent: Arc<Urgent>,
}

impl Stream for Channel {
    type Item = Result<RowToPublish>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let next = self.now.next();
            if next.as_ref().is_some_and(Feed::is_urgent) {
                self.urgent.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            match next {
                Some(Feed::Row(item)) => return Poll::Ready(Some(Ok(item))),
                // Polling for the next item means that the earlier ones are handed over, so the fences before it open.
                Some(Feed::Fence(guard)) => {
                    drop(guard);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                None => {}
            }
            match ready!(self.receive.poll_recv(cx)) {
                Some(items) => self.now = items.into_iter(),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Publisher {
    /// Starts the loop. `failed` gets the error if it ends early, and discards all messages handed over.
    pub fn start(
        conn: Arc<Connection>,
        window: Window,
        results: impl ResultSink + 'static,
        failed: impl Fn(JetError) + Clone + Send + 'static,
    ) -> Result<Self> {
        let (for_loop, urgent) = (conn.clone(), window.urgent.clone());
        Self::spawn(conn, urgent, failed, |feed| async move { run(&for_loop, feed, results, window).await })
    }

    /// Starts a publisher that stores messages in atomic batches of those that wait.
    pub fn start_durable(
        conn: Arc<Connection>,
        window: Window,
        results: impl ResultSink + Clone + 'static,
        failed: impl Fn(JetError) + Clone + Send + 'static,
    ) -> Result<Self> {
        let (for_loop, urgent, panicked) = (conn.clone(), window.urgent.clone(), failed.clone());
        Self::spawn(
            conn,
            urgent,
            failed,
            |feed| async move { durable(for_loop, feed, results, window, panicked).await },
        )
    }

    fn spawn<W: Future<Output = Result<()>> + Send + 'static>(
        conn: Arc<Connection>,
        urgent: Arc<Urgent>,
        failed: impl Fn(JetError) + Clone + Send + 'static,
        work: impl FnOnce(Channel) -> W + Send + 'static,
    ) -> Result<Self> {
        let (send, receive) = unbounded_channel();
        let counted = urgent.clone();
        let failure = Arc::new(OnceLock::new());
        let known = failure.clone();
        let failed = move |error: JetError| {
            let _first = known.set(error.clone());
            failed(error);
        };
        let panicked = failed.clone();
        let running = async move {
            let feed = Channel { receive, now: Vec::new().into_iter(), urgent: counted };
            if let Err(error) = work(feed).await {
                failed(error);
            }
        };
        let task = spawn(running, panicked)?;
        Ok(Publisher { send: Some(send), conn, task: Some(task), urgent, failure })
    }

    /// Hands messages over, in batches if there are many, because each call may wake a thread. Returns them if the
    /// connection is closed.
    pub fn send(&self, items: Vec<Feed>) -> std::result::Result<(), (Vec<Feed>, JetError)> {
        let Some(send) = &self.send else { return Err((items, self.over())) };
        let urgent = items.iter().filter(|item| item.is_urgent()).count();
        self.urgent.waiting.fetch_add(urgent, Ordering::Relaxed);
        send.send(items).map_err(|refused| (refused.0, self.over()))?;
        if urgent > 0 {
            self.urgent.added.notify_one();
        }
        Ok(())
    }

    fn over(&self) -> JetError {
        // A loop that panics drops its channel a moment before it reports the error.
        let until = Instant::now() + LAST_WORD;
        while self.failure.get().is_none()
            && self.task.as_ref().is_some_and(|task| !task.is_finished())
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.failure.get().cloned().unwrap_or_else(|| self.conn.closed())
    }

    pub fn max_payload(&self) -> usize {
        self.conn.client.max_payload()
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.send = None;
        if let Some(task) = self.task.take() {
            // The exit of the process waits until the server has the messages in transit.
            let conn = self.conn.clone();
            runtime::linger(async move {
                let answered = async {
                    let _cut_off = task.await;
                };
                conn.run_until_stalled(answered).await;
            });
        }
    }
}

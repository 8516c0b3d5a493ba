//! A publisher whose messages are stored in atomic batches: on a server that syncs each write, many callers share one sync.
//!
//! Each stream has a loop (`chunks`), to which its rows are passed. The stream of a subject is looked up once.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::api::{Api, MAX_ATOMIC_ROWS};
use crate::publish::chunks::{Chunking, Target, chunked};
use crate::publish::no_responders::RETRY_INTERVAL;
use crate::publish::outcome::RowSource;
use crate::publish::window::{ResultSink, RowToPublish, Window};
use base::error::{JetError, Result};
use client::Connection;
use runtime::task::spawn;
use wire::subject;

/// An account without JetStream looks like a cluster that elects a leader, for as long.
const NO_LEADER_PATIENCE: Duration = Duration::from_secs(5);
const CHUNKING: Chunking = Chunking { rows: MAX_ATOMIC_ROWS, split: true, live: true };

/// The rows of one stream, with their arrivals.
struct Queue {
    receive: UnboundedReceiver<(Instant, RowToPublish)>,
    arrived: Instant,
}

impl Stream for Queue {
    type Item = Result<RowToPublish>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receive.poll_recv(cx).map(|item| {
            let (arrived, row) = item?;
            self.arrived = arrived;
            Some(Ok(row))
        })
    }
}

impl RowSource for Queue {
    fn arrived(&self) -> Instant {
        self.arrived
    }
}

/// The loop of a stream.
struct Route {
    stream: String,
    subjects: Vec<String>,
    send: UnboundedSender<(Instant, RowToPublish)>,
    task: JoinHandle<()>,
}

struct Routes<R, P> {
    conn: Arc<Connection>,
    window: Window,
    results: R,
    failed: P,
    routes: Vec<Route>,
    /// No stream is looked up until then, because the last question had no answer.
    unanswered: Option<(Instant, JetError)>,
}

/// Publishes the whole feed. `failed` gets the error of a loop that panics.
pub async fn durable<R: ResultSink + Clone + 'static>(
    conn: Arc<Connection>,
    mut feed: impl Stream<Item = Result<RowToPublish>> + Send + Unpin,
    results: R,
    window: Window,
    failed: impl Fn(JetError) + Clone + Send + 'static,
) -> Result<()> {
    let mut routes = Routes { conn, window, results, failed, routes: Vec::new(), unanswered: None };
    let (send, mut waiting) = unbounded_channel();
    // The feed is never kept waiting: core messages, and so the question for a stream, wait until it has passed their
    // fences.
    let take = async move {
        while let Some(row) = feed.next().await.transpose()? {
            if send.send((Instant::now(), row)).is_err() {
                break;
            }
        }
        Ok(())
    };
    let pass = async move {
        while let Some((arrived, row)) = waiting.recv().await {
            if let Err((row, error)) = routes.pass_on(row, arrived).await {
                routes.results.failed(row, error);
                routes.results.flush();
            }
        }
        let tasks: Vec<_> = routes.routes.drain(..).map(|route| route.task).collect();
        for task in tasks {
            // A panic was reported by the task.
            let _ended = task.await;
        }
    };
    let (taken, ()) = tokio::join!(take, pass);
    taken
}

impl<R: ResultSink + Clone + 'static, P: Fn(JetError) + Clone + Send + 'static> Routes<R, P> {
    /// Passes a row to the loop of its stream.
    async fn pass_on(
        &mut self,
        (row, body): RowToPublish,
        arrived: Instant,
    ) -> std::result::Result<(), (u64, JetError)> {
        let subject = body.subject_text();
        let known = self.routes.iter().position(|route| takes(&route.subjects, subject));
        let at = match known {
            Some(at) => at,
            None => self.open(subject, body.expected_stream(), arrived).await.map_err(|error| (row, error))?,
        };
        let sent = self.routes[at].send.send((arrived, (row, body)));
        sent.map_err(|_| (row, self.conn.closed()))
    }

    /// Returns the loop of the stream that takes this subject; starts it if there is none.
    async fn open(&mut self, subject: &str, expected: Option<&str>, arrived: Instant) -> Result<usize> {
        if let Some((until, error)) = &self.unanswered
            && arrived < *until
        {
            return Err(error.clone());
        }
        let found = find(&self.conn, &self.window, subject, expected, arrived + self.window.timeout).await;
        self.unanswered = match &found {
            Err(error @ JetError::Timeout { .. }) => Some((Instant::now() + RETRY_INTERVAL, error.clone())),
            _ => None,
        };
        let target = found?;
        let (stream, subjects) = (target.stream.clone(), target.subjects.clone());
        if let Some(at) = self.routes.iter().position(|route| route.stream == stream) {
            // Its subjects have changed, or the message expects a stream that does not take it.
            self.routes[at].subjects = subjects;
            return Ok(at);
        }
        let (send, receive) = unbounded_channel();
        let (conn, window, results, failed) =
            (self.conn.clone(), self.window.clone(), self.results.clone(), self.failed.clone());
        let panicked = self.failed.clone();
        let work = async move {
            let queue = Queue { receive, arrived };
            if let Err(error) = chunked(&conn, queue, results, &window, CHUNKING, target).await {
                failed(error);
            }
        };
        self.routes.push(Route { stream, subjects, send, task: spawn(work, panicked)? });
        Ok(self.routes.len() - 1)
    }
}

/// Looks a stream up, again while its answer may be lost.
async fn find(
    conn: &Connection,
    window: &Window,
    subject: &str,
    expected: Option<&str>,
    deadline: Instant,
) -> Result<Target> {
    let late =
        || JetError::Timeout { what: format!("the question which stream takes {subject:?}"), after: window.timeout };
    let api = Api::new(conn, &window.prefix);
    let question = async || {
        let stream = match expected {
            Some(stream) => stream.to_owned(),
            None => api.stream_of(subject).await?,
        };
        let info = api.stream_info(&stream).await?;
        match info.config.allow_atomic {
            true => Ok(Target::new(stream, info)),
            false => Err(not_atomic(conn, &stream)),
        }
    };
    let begin = Instant::now();
    loop {
        match timeout_at(deadline, question()).await {
            Err(_) => return Err(late()),
            Ok(Err(error))
                if !conn.link.borrow().closed
                    && (error.is_unanswered() || error.is_transient() && begin.elapsed() < NO_LEADER_PATIENCE) =>
            {
                if timeout_at(deadline, sleep(RETRY_INTERVAL)).await.is_err() {
                    return Err(late());
                }
            }
            Ok(found) => return found,
        }
    }
}

fn not_atomic(conn: &Connection, stream: &str) -> JetError {
    JetError::Unsupported {
        feature: "publisher(durable=True)".to_owned(),
        needs: "nats-server 2.12 or newer, and a stream with allow_atomic=True".to_owned(),
        has: format!("stream {stream:?} has it off, on nats-server {}", conn.client.server_info().version),
    }
}

fn takes(filters: &[String], subject: &str) -> bool {
    filters.iter().any(|filter| subject::matches(filter, subject))
}

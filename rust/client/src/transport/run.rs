//! The transport's task: connects, reads, writes, and reconnects.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, Sleep};

use super::connect_attempt::{EstablishedLink, Greeting, Socket, attempt};
use super::{Client, DEFAULT_PAYLOAD};
use crate::connection_state::DisconnectReason;
use base::lock::lock;
use runtime::task::{Spot, weak_spot};
use wire::frame_buffer::FrameBuffer;
use wire::frames;
use wire::message::Message;
use wire::nats::ServerInfo;
use wire::parser::{Op, ParseError, Parser};

/// Maximum bytes of a received message: the largest `max_payload` a server accepts by default, with headers. A message
/// stored before the limit was lowered may still arrive.
const MAX_READ_BYTES: usize = 64 << 20;
/// Maximum bytes of a received message for any limit that the server names.
const MAX_READ_BYTES_OF_ANY_SERVER: usize = 1 << 30;
/// Reads before other tasks run.
const READS_PER_POLL: usize = 4;
/// PINGs that may be unanswered.
const MAX_UNANSWERED_PINGS: u32 = 2;
/// Maximum time to write the rest when the connection ends.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_millis(250);

pub struct TransportSettings {
    pub greeting: Greeting,
    /// Interval of silence after which the client sends a PING.
    pub ping_period: Duration,
}

/// Runs until no more attempts are made.
pub async fn run(client: Client, settings: TransportSettings) {
    let state = client.0.state.clone();
    let mut failure = None;
    weak_spot(Spot::FirstConnect);
    while let Some(addr) = {
        weak_spot(Spot::Connection);
        state.next_server(failure.take(), client.server_info()).await
    } {
        let linked = tokio::select! {
            linked = attempt(&state, &settings.greeting, &addr) => linked,
            () = state.ending() => break,
        };
        match linked {
            Err(why) => failure = Some(why),
            Ok(link) => {
                let ended = drive(&client, link, settings.ping_period).await;
                client.disconnected();
                match ended {
                    Ended::Wanted => break,
                    Ended::Renewed => {}
                    Ended::Stale => state.events().stale(),
                    Ended::Broken(why) => state.events().broke(why),
                }
            }
        }
    }
    client.close();
    state.closed(None);
}

enum Ended {
    /// The user closes the connection.
    Wanted,
    /// The user requested a reconnect.
    Renewed,
    Stale,
    Broken(DisconnectReason),
}

impl Client {
    /// Restores the subscriptions on a new link, before any other data.
    fn connected(&self, info: &ServerInfo) {
        *lock(&self.0.info) = info.clone();
        // An INFO without a limit means the default.
        self.0.max_payload.store(DEFAULT_PAYLOAD, Ordering::Relaxed);
        self.learn_limit(info);
        let mut subscriptions = lock(&self.0.subscriptions);
        let mut all: Vec<_> = subscriptions.by_sid.iter_mut().filter(|(_, one)| !one.withdrawn).collect();
        all.sort_unstable_by_key(|(sid, _)| **sid);
        let mut out = lock(&self.0.out);
        for (sid, one) in all {
            one.before = one.delivered;
            out.put_subscription(*sid, &one.subject, one.queue.as_deref(), self.0.state.pinged());
            if let Some(most) = one.most {
                out.put(|bytes| frames::unsubscribe(bytes, *sid, Some(most.saturating_sub(one.delivered))));
            }
        }
        out.connected = true;
        out.links += 1;
        drop(out);
        drop(subscriptions);
        // The new link has room.
        self.0.written.notify_waiters();
    }

    fn learn_limit(&self, info: &ServerInfo) {
        if info.max_payload > 0 {
            self.0.max_payload.store(info.max_payload, Ordering::Relaxed);
        }
    }

    fn disconnected(&self) {
        let unwritten = lock(&self.0.out).take_unwritten();
        drop(unwritten);
        self.0.written.notify_waiters();
    }

    /// Delivers messages of one subscription.
    fn deliver(&self, sid: u64, messages: &mut VecDeque<Message>) {
        let mut subscriptions = lock(&self.0.subscriptions);
        let Some(one) = subscriptions.by_sid.get_mut(&sid) else { return messages.clear() };
        if let Some(most) = one.most {
            messages.truncate(most.saturating_sub(one.delivered) as usize);
        }
        one.delivered += messages.len() as u64;
        one.inbox.put(messages);
        if one.most.is_some_and(|most| one.delivered >= most)
            && let Some(ended) = subscriptions.by_sid.remove(&sid)
        {
            drop(subscriptions);
            ended.inbox.end();
        }
        messages.clear();
    }
}

struct Drive<'a> {
    client: &'a Client,
    socket: Box<dyn Socket>,
    reader: Parser,
    /// Maximum size of a received message.
    limit: usize,
    /// Messages of one read for one subscription.
    sid: u64,
    messages: VecDeque<Message>,
    received: u64,
    /// Data being written.
    block: FrameBuffer,
    /// Data was written that the socket may still buffer.
    unflushed: bool,
    heard: Instant,
    silence: Pin<Box<Sleep>>,
    ping_period: Duration,
    unanswered: u32,
    /// Deadline of the end.
    end: Option<Pin<Box<Sleep>>>,
}

async fn drive(client: &Client, link: EstablishedLink, ping_period: Duration) -> Ended {
    let EstablishedLink { socket, reader, heard, info } = link;
    let statistics = &client.0.statistics;
    client.connected(&info);
    statistics.connects.fetch_add(1, Ordering::Relaxed);
    client.0.state.connected();
    let mut drive = Drive {
        client,
        socket,
        reader,
        limit: limit(&info),
        sid: 0,
        messages: VecDeque::new(),
        received: statistics.in_messages.load(Ordering::Relaxed),
        block: FrameBuffer::default(),
        unflushed: false,
        heard: Instant::now(),
        silence: Box::pin(tokio::time::sleep(ping_period)),
        ping_period,
        unanswered: 0,
        end: None,
    };
    heard.into_iter().for_each(|op| drive.handle_op(op));
    poll_fn(|cx| drive.poll(cx)).await
}

fn limit(info: &ServerInfo) -> usize {
    info.max_payload.clamp(MAX_READ_BYTES, MAX_READ_BYTES_OF_ANY_SERVER)
}

impl Drive<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        // Registered first: requests made meanwhile wake this task again.
        self.client.0.task.register(cx.waker());
        let read = self.read(cx);
        self.deliver();
        if let Err(ended) = read {
            return Poll::Ready(ended);
        }
        let all_written = match self.write(cx) {
            Ok(all) => all,
            Err(error) => return Poll::Ready(self.read_pending_error(cx, error)),
        };
        while self.silence.as_mut().poll(cx).is_ready() {
            let mut since = self.heard;
            if since.elapsed() >= self.ping_period {
                if self.unanswered == MAX_UNANSWERED_PINGS {
                    return Poll::Ready(Ended::Stale);
                }
                self.unanswered += 1;
                self.client.ping();
                since = Instant::now();
            }
            self.silence.as_mut().reset(since + self.ping_period);
        }
        let (renew, end) = {
            let out = lock(&self.client.0.out);
            (out.renew, out.end)
        };
        if renew {
            return Poll::Ready(Ended::Renewed);
        }
        if end { self.finish(cx, all_written) } else { Poll::Pending }
    }

    fn deliver(&mut self) {
        if !self.messages.is_empty() {
            self.client.deliver(self.sid, &mut self.messages);
        }
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<(), Ended> {
        for _ in 0..READS_PER_POLL {
            let read = std::pin::pin!(self.socket.read_buf(self.reader.room())).poll(cx);
            let count = match read {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(Ended::Broken(DisconnectReason::Eof)),
                Poll::Ready(Ok(count)) => count,
                Poll::Ready(Err(error)) => return Err(Ended::Broken(DisconnectReason::Io(error))),
            };
            (self.heard, self.unanswered) = (Instant::now(), 0);
            self.client.0.statistics.in_bytes.fetch_add(count as u64, Ordering::Relaxed);
            let mut reader = std::mem::take(&mut self.reader);
            let taken = reader.parse_buffered(self.limit, |op| self.handle_op(op));
            self.reader = reader;
            self.client.0.statistics.in_messages.store(self.received, Ordering::Relaxed);
            taken.map_err(|unreadable| {
                Ended::Broken(match unreadable {
                    ParseError::TooLarge(limit) => DisconnectReason::TooLarge(limit),
                    ParseError::Protocol => DisconnectReason::Unreadable,
                })
            })?;
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    fn handle_op(&mut self, op: Op) {
        if let Op::Message(sid, message) = op {
            if self.sid != sid {
                self.deliver();
                self.sid = sid;
            }
            self.received += 1;
            return self.messages.push_back(message);
        }
        // Messages received before a PONG are delivered before it is reported.
        self.deliver();
        let state = &self.client.0.state;
        match op {
            Op::Message(..) => {}
            Op::Ping => self.client.put(|buffer| buffer.extend_from_slice(b"PONG\r\n")),
            Op::Pong => {
                let answered = state.events().ponged();
                lock(&self.client.0.out).confirm(answered);
            }
            Op::Error(text) => {
                let ping = state.pings.borrow().answered;
                let subscribed = lock(&self.client.0.out).subscribed_after(ping);
                state.events().server_error(&text, subscribed.as_deref());
            }
            Op::Info(info) => {
                self.limit = limit(&info);
                self.client.learn_limit(&info);
                state.events().informed(&info);
            }
        }
    }

    /// Writes the buffer; true once it is empty.
    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        loop {
            if self.block.is_empty() {
                self.block.clear();
                let mut out = lock(&self.client.0.out);
                if out.buffer.is_empty() {
                    // Messages appended from now on are seen in this loop, so senders need no wake-up, which is a
                    // system call.
                    out.told = false;
                    break;
                }
                std::mem::swap(&mut out.buffer, &mut self.block);
                out.writing = self.block.len();
            }
            let mut slices = Vec::new();
            self.block.slices(&mut slices);
            match Pin::new(&mut self.socket).poll_write_vectored(cx, &slices) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => {
                    let count = written?;
                    self.block.advance(count);
                    self.unflushed = true;
                    {
                        let mut out = lock(&self.client.0.out);
                        out.writing -= count;
                        out.gone += count as u64;
                    }
                    self.client.0.written.notify_waiters();
                }
            }
        }
        if self.unflushed {
            match Pin::new(&mut self.socket).poll_flush(cx) {
                Poll::Pending => return Ok(false),
                Poll::Ready(flushed) => flushed?,
            }
            self.unflushed = false;
        }
        Ok(true)
    }

    /// Writing failed: reads the server's error, which it may have sent before.
    fn read_pending_error(&mut self, cx: &mut Context<'_>, error: io::Error) -> Ended {
        let _read = self.read(cx);
        self.deliver();
        Ended::Broken(DisconnectReason::Io(error))
    }

    /// Ends the link: writes the rest, up to a deadline.
    fn finish(&mut self, cx: &mut Context<'_>, all_written: bool) -> Poll<Ended> {
        if all_written && Pin::new(&mut self.socket).poll_shutdown(cx).is_ready() {
            return Poll::Ready(Ended::Wanted);
        }
        let late = self.end.get_or_insert_with(|| Box::pin(tokio::time::sleep(FINAL_WRITE_TIMEOUT)));
        late.as_mut().poll(cx).map(|()| Ended::Wanted)
    }
}

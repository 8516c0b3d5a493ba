//! The connection's task: connects, reads and writes, and connects anew.

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

/// The largest message that a server stores unless it was told to take larger ones, with its headers; one that it stored
/// before its limit was lowered may still come.
const MAX_READ_BYTES: usize = 64 << 20;
/// More than this is not gathered, whatever limit the server names.
const MOST_EVER: usize = 1 << 30;
/// Reads after which others have their turn.
const READS: usize = 4;
/// PINGs that may be unanswered.
const PINGS: u32 = 2;
/// How long what is left may take where the connection ends.
const LINGER: Duration = Duration::from_millis(250);

pub struct TransportSettings {
    pub greeting: Greeting,
    /// The server is asked for a sign of life after so much silence.
    pub ping_period: Duration,
}

/// Until no more attempts are made.
pub async fn run(client: Client, settings: TransportSettings) {
    let hub = client.0.hub.clone();
    let mut failure = None;
    while let Some(addr) = {
        weak_spot(Spot::Connection);
        hub.next_server(failure.take(), client.server_info()).await
    } {
        let linked = tokio::select! {
            linked = attempt(&hub, &settings.greeting, &addr) => linked,
            () = hub.ending() => break,
        };
        match linked {
            Err(why) => failure = Some(why),
            Ok(link) => {
                let ended = drive(&client, link, settings.ping_period).await;
                client.disconnected();
                match ended {
                    Ended::Wanted => break,
                    Ended::Renewed => {}
                    Ended::Stale => hub.stale(),
                    Ended::Broken(why) => hub.broke(why),
                }
            }
        }
    }
    client.close();
    hub.closed(None);
}

enum Ended {
    /// By us, for good.
    Wanted,
    /// By us, for another link.
    Renewed,
    Stale,
    Broken(DisconnectReason),
}

impl Client {
    /// A link stands: what is subscribed is told to the server, before all else.
    fn connected(&self, info: &ServerInfo) {
        *lock(&self.0.info) = info.clone();
        // A server that names none has the usual one.
        self.0.max_payload.store(DEFAULT_PAYLOAD, Ordering::Relaxed);
        self.learn_limit(info);
        let subscriptions = lock(&self.0.subscriptions);
        let mut all: Vec<_> = subscriptions.by_sid.iter().filter(|(_, one)| !one.withdrawn).collect();
        all.sort_unstable_by_key(|(sid, _)| **sid);
        let mut out = lock(&self.0.out);
        for (sid, one) in all {
            out.put_subscription(*sid, &one.subject, one.queue.as_deref(), self.0.hub.pinged());
            if let Some(most) = one.most {
                out.put(|bytes| frames::unsubscribe(bytes, *sid, Some(most.saturating_sub(one.delivered))));
            }
        }
        out.connected = true;
        out.links += 1;
        drop(out);
        drop(subscriptions);
        // There is room now.
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

    /// Hands messages of one subscription over.
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
    /// No message is larger.
    limit: usize,
    /// What was read together, for one subscription.
    sid: u64,
    messages: VecDeque<Message>,
    received: u64,
    /// What is being written.
    block: FrameBuffer,
    /// Something was written that the socket may still hold.
    unflushed: bool,
    heard: Instant,
    silence: Pin<Box<Sleep>>,
    ping_period: Duration,
    unanswered: u32,
    /// When the end is not waited for any longer.
    end: Option<Pin<Box<Sleep>>>,
}

async fn drive(client: &Client, link: EstablishedLink, ping_period: Duration) -> Ended {
    let EstablishedLink { socket, reader, heard, info } = link;
    let statistics = &client.0.statistics;
    client.connected(&info);
    statistics.connects.fetch_add(1, Ordering::Relaxed);
    client.0.hub.connected();
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
    info.max_payload.clamp(MAX_READ_BYTES, MOST_EVER)
}

impl Drive<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        // Before anything is looked at: what is asked for meanwhile wakes this task again.
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
                if self.unanswered == PINGS {
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
        for _ in 0..READS {
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
        // Messages that came before a PONG are there when it is told.
        self.deliver();
        let hub = &self.client.0.hub;
        match op {
            Op::Message(..) => {}
            Op::Ping => self.client.put(|buffer| buffer.extend_from_slice(b"PONG\r\n")),
            Op::Pong => {
                let answered = hub.ponged();
                lock(&self.client.0.out).confirm(answered);
            }
            Op::Error(text) => {
                let ping = hub.pings.borrow().answered;
                let subscribed = lock(&self.client.0.out).subscribed_after(ping);
                hub.server_error(&text, subscribed.as_deref());
            }
            Op::Info(info) => {
                self.limit = limit(&info);
                self.client.learn_limit(&info);
                hub.informed(&info);
            }
        }
    }

    /// True once all is written.
    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        loop {
            if self.block.is_empty() {
                self.block.clear();
                let mut out = lock(&self.client.0.out);
                if out.buffer.is_empty() {
                    // What comes meanwhile is seen here, without a word, which costs whoever sends a system call.
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

    /// Writing has failed: the server may have said why before.
    fn read_pending_error(&mut self, cx: &mut Context<'_>, error: io::Error) -> Ended {
        let _read = self.read(cx);
        self.deliver();
        Ended::Broken(DisconnectReason::Io(error))
    }

    /// The end is wanted: what is left is written, but not for long.
    fn finish(&mut self, cx: &mut Context<'_>, all_written: bool) -> Poll<Ended> {
        if all_written && Pin::new(&mut self.socket).poll_shutdown(cx).is_ready() {
            return Poll::Ready(Ended::Wanted);
        }
        let late = self.end.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        late.as_mut().poll(cx).map(|()| Ended::Wanted)
    }
}

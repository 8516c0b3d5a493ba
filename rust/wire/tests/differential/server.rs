//! A scripted server on loopback, and async-nats as its client.
//!
//! Server and client share one thread. After each piece the server yields until async-nats has counted all bytes sent
//! so far. async-nats parses in the same poll in which it counts, so that each piece is read alone and no timing
//! matters.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, Subscriber};
use futures_util::{FutureExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{unconstrained, yield_now};

use crate::reading::{End, Reading};
use crate::script::{Cuts, SUBSCRIPTIONS};

const INFO: &[u8] =
    b"INFO {\"server_id\":\"scripted\",\"version\":\"2.14.0\",\"headers\":true,\"max_payload\":1048576}\r\n";
const PONG: &[u8] = b"PONG\r\n";
/// Ends a test that hangs. It is never reached otherwise.
const HANG: Duration = Duration::from_secs(120);
/// Longer than any test: no PING of the client, and no second connection.
const NEVER: Duration = Duration::from_secs(86_400);

struct Server {
    stream: TcpStream,
    received: Vec<u8>,
    is_closed: bool,
}

impl Server {
    async fn accept(listener: &TcpListener) -> Self {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut server = Server { stream, received: Vec::new(), is_closed: false };
        server.stream.write_all(INFO).await.unwrap();
        server.wait_for_lines(b"PING", 1).await;
        server.stream.write_all(PONG).await.unwrap();
        server
    }

    fn count_lines(&self, verb: &[u8]) -> usize {
        self.received.split(|byte| *byte == b'\n').filter(|line| line.starts_with(verb)).count()
    }

    async fn wait_for_lines(&mut self, verb: &[u8], count: usize) {
        while self.count_lines(verb) < count || !self.received.ends_with(b"\n") {
            assert!(self.stream.read_buf(&mut self.received).await.unwrap() > 0, "async-nats closed the connection");
        }
    }

    /// Takes the received bytes without waiting, and notes a close.
    fn receive(&mut self) {
        match self.stream.try_read_buf(&mut self.received) {
            Ok(0) => self.is_closed = true,
            Ok(_) => {}
            Err(error) => self.is_closed = error.kind() != ErrorKind::WouldBlock,
        }
    }

    /// Sends `bytes` in pieces until the end or until async-nats disconnects.
    async fn send(&mut self, client: &Client, bytes: &[u8], mut cuts: Cuts) -> End {
        let (statistics, mut sent, mut rest) = (client.statistics(), INFO.len() + PONG.len(), bytes);
        while !rest.is_empty() {
            let (piece, later) = cuts.split(rest, rest.len());
            if self.stream.write_all(piece).await.is_err() {
                return End::Broken;
            }
            (sent, rest) = (sent + piece.len(), later);
            while statistics.in_bytes.load(Ordering::Relaxed) < sent as u64 && !self.is_broken(client) {
                yield_now().await;
            }
            if self.is_broken(client) {
                return End::Broken;
            }
        }
        End::Open
    }

    /// A panic in async-nats' task closes the socket without a change of its state.
    fn is_broken(&mut self, client: &Client) -> bool {
        self.receive();
        self.is_closed || client.connection_state() == State::Disconnected
    }
}

async fn subscribe(client: &Client, server: &mut Server) -> Vec<Subscriber> {
    let mut subscribers = Vec::new();
    for sid in 1..=SUBSCRIPTIONS {
        subscribers.push(client.subscribe(format!("s.{sid}")).await.unwrap());
    }
    server.wait_for_lines(b"SUB ", SUBSCRIPTIONS as usize).await;
    for sid in 1..=SUBSCRIPTIONS {
        assert_eq!(server.count_lines(format!("SUB s.{sid} {sid}\r").as_bytes()), 1, "async-nats numbers from 1");
    }
    subscribers
}

async fn exchange(bytes: &[u8], cuts: Cuts, buffer: u16) -> Reading {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (events, mut observed) = mpsc::unbounded_channel();
    let is_connected = AtomicBool::new(false);
    let options = ConnectOptions::new()
        .read_buffer_capacity(buffer)
        .connection_timeout(HANG)
        .ping_interval(NEVER)
        .reconnect_delay_callback(
            move |_| if is_connected.swap(true, Ordering::Relaxed) { NEVER } else { Duration::ZERO },
        )
        .event_callback(move |event| {
            events.send(event).ok();
            std::future::ready(())
        });
    let address = listener.local_addr().unwrap().to_string();
    let (client, mut server) = tokio::join!(options.connect(address), Server::accept(&listener));
    let client = client.unwrap();
    let mut subscribers = subscribe(&client, &mut server).await;

    let mut reading = Reading::new();
    reading.end = server.send(&client, bytes, cuts).await;
    reading.total = client.statistics().in_messages.load(Ordering::Relaxed) as usize;
    for (subscriber, messages) in subscribers.iter_mut().zip(&mut reading.messages) {
        // Outside of tokio's budget, which would report an empty queue after 128 messages.
        while let Some(message) = unconstrained(subscriber.next()).now_or_never().flatten() {
            messages.push(message.into());
        }
    }
    drop((client, subscribers));
    if reading.end == End::Open {
        server.stream.read_to_end(&mut server.received).await.unwrap();
        reading.pings = server.count_lines(b"PONG\r");
    }
    loop {
        match observed.recv().await {
            Some(Event::ServerError(error)) => reading.add_error(error),
            Some(Event::LameDuckMode) => reading.lame_ducks += 1,
            Some(Event::SlowConsumer(sid)) => panic!("async-nats discards messages of sid {sid}"),
            Some(Event::Closed | Event::Disconnected) | None => return reading,
            Some(_) => {}
        }
    }
}

/// Reads `bytes` with async-nats. `buffer` is the initial size of its read buffer: a small one cuts the stream once
/// more.
pub fn read_with_async_nats(bytes: &[u8], cuts: Cuts, buffer: u16) -> Reading {
    // A runtime per script ends the tasks of broken connections.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let reading = runtime.block_on(async { tokio::time::timeout(HANG, exchange(bytes, cuts, buffer)).await });
    reading.expect("async-nats neither reads the bytes nor disconnects")
}

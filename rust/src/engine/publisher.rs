//! A publish loop that is fed message by message.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::engine::connect::Connection;
use crate::engine::rows::Body;
use crate::engine::window::{Item, Outlet, Window, run};
use crate::error::Result;

/// The way in. How many messages may wait in it is the caller's to limit. Dropping it ends the loop, after the results.
pub struct Publisher {
    send: UnboundedSender<Item>,
    conn: Arc<Connection>,
}

struct Channel(UnboundedReceiver<Item>);

impl Stream for Channel {
    type Item = Result<Item>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|item| item.map(Ok))
    }
}

impl Publisher {
    /// Starts the loop on the current runtime.
    pub fn start(conn: Arc<Connection>, window: Window, outlet: impl Outlet + 'static) -> Self {
        let (send, receive) = unbounded_channel();
        let publisher = Publisher { send, conn: conn.clone() };
        tokio::spawn(async move {
            // It fails only where the connection is closed, and then `send` says so.
            let _closed = run(&conn, Channel(receive), outlet, window).await;
        });
        publisher
    }

    pub fn send(&self, row: u64, body: Body) -> Result<()> {
        self.send.send((row, body)).map_err(|_| self.conn.closed())
    }

    pub fn max_payload(&self) -> usize {
        self.conn.client.max_payload()
    }
}

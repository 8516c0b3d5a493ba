//! A publish loop that is fed message by message.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::engine::connect::Connection;
use crate::engine::window::{Item, Outlet, Window, run};
use crate::error::{JetError, Result};

/// The way in. How many messages may wait in it is the caller's to limit. Dropping it ends the loop, after the results.
pub struct Publisher {
    send: UnboundedSender<Vec<Item>>,
    conn: Arc<Connection>,
}

struct Channel {
    receive: UnboundedReceiver<Vec<Item>>,
    now: std::vec::IntoIter<Item>,
}

impl Stream for Channel {
    type Item = Result<Item>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.now.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            match ready!(self.receive.poll_recv(cx)) {
                Some(items) => self.now = items.into_iter(),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Publisher {
    /// Starts the loop on the current runtime.
    pub fn start(conn: Arc<Connection>, window: Window, outlet: impl Outlet + 'static) -> Self {
        let (send, receive) = unbounded_channel();
        let publisher = Publisher { send, conn: conn.clone() };
        tokio::spawn(async move {
            // It fails only where the connection is closed, and then `send` says so.
            let _closed = run(&conn, Channel { receive, now: Vec::new().into_iter() }, outlet, window).await;
        });
        publisher
    }

    /// Hands messages over, many at once where there are many: each hand-over may have to wake a thread. They come
    /// back where the connection is closed.
    pub fn send(&self, items: Vec<Item>) -> std::result::Result<(), (Vec<Item>, JetError)> {
        self.send.send(items).map_err(|refused| (refused.0, self.conn.closed()))
    }

    pub fn max_payload(&self) -> usize {
        self.conn.client.max_payload()
    }
}

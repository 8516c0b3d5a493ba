//! Messages that nobody will work on go back to the server.

use std::sync::Arc;

use async_nats::Subject;

use super::Late;
use crate::engine::connection::Connection;
use crate::engine::connection::withdraw::withdraw;
use crate::engine::receive::ack::{Kind, send};
use crate::engine::receive::pull::PullInbox;
use crate::task::spawn;

/// Naks these messages, which nobody will work on, and what an open request still brings.
///
/// Best effort: where the server is away it takes the messages back by itself after its ack wait.
pub(super) fn give_back(conn: Arc<Connection>, replies: Vec<Subject>, rest: Option<PullInbox>) {
    if replies.is_empty() && rest.is_none() {
        return;
    }
    let work = async move {
        let breaks = conn.breaks();
        let _ = send(&conn, replies, &Kind::Nak(None)).await;
        let Some(mut inbox) = rest else { return };
        if withdraw(&mut inbox.messages).await.is_ok() {
            let late = Late::new(&conn, inbox, breaks);
            nak_late(&conn, late).await;
        }
    };
    let _nobody_waits = spawn(work, |_| ());
}

/// Naks what comes late.
pub(super) fn give_back_late(conn: Arc<Connection>, late: Late) {
    let _nobody_waits = spawn(async move { nak_late(&conn, late).await }, |_| ());
}

async fn nak_late(conn: &Connection, mut late: Late) {
    while let Some(message) = late.next().await {
        let _ = send(conn, message.reply, &Kind::Nak(None)).await;
    }
}

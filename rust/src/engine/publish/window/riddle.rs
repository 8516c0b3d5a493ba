//! What the answers to rows that share a token leave open is decided by what the stream has under the sequences of its
//! acks.

use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream};
use serde_json::json;
use tokio::time::timeout;

use super::{Item, Outlet, Run};
use crate::engine::api::Api;
use crate::engine::publish::inflight::group::{Found, Group, Place};
use crate::error::{JetError, Result};

/// How long a stream's answer may take.
const ASK: Duration = Duration::from_secs(2);

/// Streams that are asked, for the rows of which token. Nothing is sent meanwhile: what is sent again is not to come after
/// it.
pub type Riddles<'a> = FuturesUnordered<BoxFuture<'a, (u64, Found)>>;

async fn look_up(api: Api<'_>, places: Vec<Place>) -> Found {
    let get =
        async |(at, stream, seq): &Place| match timeout(ASK, api.get_message(stream, &json!({ "seq": seq }))).await {
            Ok(Ok(stored)) => Some((*at, stored)),
            _ => None,
        };
    let mut found = Vec::new();
    // Where the user may not ask, being told so once is enough.
    if let Some((first, rest)) = places.split_first()
        && let Some(answer) = get(first).await
    {
        found = join_all(rest.iter().map(get)).await.into_iter().flatten().collect();
        found.push(answer);
    }
    found.into_iter().filter_map(|(at, stored)| Some((at, stored?))).collect()
}

impl<F: Stream<Item = Result<Item>> + Send + Unpin, O: Outlet> Run<'_, F, O> {
    pub(super) fn ask_for_stored(&mut self, token: u64) {
        self.trust.puzzled();
        let Some(places) = self.inflight.change(token, Group::ask).flatten() else { return };
        let (conn, prefix) = (self.conn, self.window.prefix.clone());
        self.riddles.push(async move { (token, look_up(Api::new(conn, &prefix), places).await) }.boxed());
    }

    pub(super) fn learn_stored(&mut self, token: u64, found: &Found) {
        let learnt = self.inflight.change(token, |group| (group.learn(found), group.heard()));
        let Some(((known, hopeless), heard)) = learnt else { return };
        if !known.is_empty() {
            self.last_answer = self.now;
        }
        known.into_iter().for_each(|(sent, answer)| self.end(sent, answer));
        for sent in hopeless {
            if self.window.resend != Some(false) && sent.body.has_id() {
                self.send_again(Some(sent));
            } else {
                self.outlet.failed(sent.row, JetError::Unattributed { what: sent.about() });
            }
        }
        self.go_on(token, heard);
    }
}

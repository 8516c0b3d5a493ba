//! The next chunk: its rows are collected here.

use std::collections::HashSet;

use super::questions::EXPECTED_LAST_MSG_ID;
use crate::publish::body::Body;
use crate::publish::window::RowToPublish;
use base::error::{JetError, Result};

/// Rows of a chunk, and their size on the wire.
#[derive(Default)]
pub struct Unsent {
    pub rows: Vec<RowToPublish>,
    pub bytes: usize,
}

#[derive(Default)]
pub struct Filling {
    unsent: Unsent,
    ids: HashSet<String>,
    /// A row that cannot be sent; its chunk is rejected with it.
    bad: Option<(u64, JetError)>,
    /// A row whose id is in the chunk already, and the reason if it cannot be sent.
    held: Option<(RowToPublish, Option<JetError>)>,
}

impl Filling {
    pub fn is_empty(&self) -> bool {
        self.unsent.rows.is_empty()
    }

    /// True if the chunk takes no more rows.
    pub fn is_full(&self, rows: usize) -> bool {
        self.unsent.rows.len() >= rows || self.held.is_some()
    }

    pub fn unsent(&self) -> &Unsent {
        &self.unsent
    }

    /// Adds a row, with the reason if it cannot be sent.
    pub fn push(&mut self, (row, body): RowToPublish, bad: Option<JetError>) {
        if body.msg_id().is_some_and(|id| self.ids.contains(id)) {
            // The server rejects a batch with an id twice; behind the first chunk the row is a duplicate.
            self.held = Some(((row, body), bad));
            return;
        }
        self.bad = self.bad.take().or_else(|| Some((row, bad?)));
        self.ids.extend(body.msg_id().map(str::to_owned));
        self.unsent.bytes += body.size();
        self.unsent.rows.push((row, body));
    }

    /// Takes the chunk, and its row that cannot be sent. The row that it held begins the next one.
    pub fn take(&mut self) -> (Unsent, Option<(u64, JetError)>) {
        let Filling { unsent, bad, held, .. } = std::mem::take(self);
        if let Some((row, bad)) = held {
            self.push(row, bad);
        }
        (unsent, bad)
    }

    /// Takes all rows.
    pub fn take_all(&mut self) -> impl Iterator<Item = RowToPublish> + use<> {
        let Filling { unsent, held, .. } = std::mem::take(self);
        unsent.rows.into_iter().chain(held.map(|(row, _)| row))
    }
}

/// Checks a row before it is sent.
pub fn check(row: u64, body: &Body, max_payload: usize) -> Result<()> {
    body.check(row, max_payload)?;
    if body.payload().is_none() {
        return Err(body.no_payload(row));
    }
    if body.has_header(EXPECTED_LAST_MSG_ID) {
        let reason = format!("mode=\"atomic\" cannot take the header {EXPECTED_LAST_MSG_ID}");
        return Err(JetError::Row { row, reason });
    }
    Ok(())
}

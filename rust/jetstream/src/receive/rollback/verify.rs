//! Lookups that `decide` needs, at the server.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::{Extent, Mark, Rollback, RollbackVerdict, decide};
use crate::api::{Api, StreamState};
use base::error::{JetError, Result};
use columns::decode::nanoseconds;

/// Number and interval of repeated comparisons after a contradiction: a new leader may answer before it has applied all
/// committed messages.
const CONFIRMATIONS: u32 = 3;
const LOOK_UP_INTERVAL: Duration = Duration::from_millis(300);

impl From<&StreamState> for Extent {
    fn from(state: &StreamState) -> Self {
        Extent {
            first_seq: state.first_seq,
            last_seq: state.last_seq,
            last_nanos: state.last_ts.as_deref().and_then(|time| nanoseconds(time.as_bytes())),
        }
    }
}

/// Returns the time of a stored message; `None` if it does not exist. The stream's leader answers, because a mirror
/// with direct gets may still have messages that the stream lost.
pub async fn look_up(api: Api<'_>, stream: &str, seq: u64) -> Result<Option<i64>> {
    let Some(found) = api.find_message(stream, &json!({"seq": seq})).await? else { return Ok(None) };
    let wrong = || JetError::Protocol { what: "STREAM.MSG.GET".into(), answer: found.time.clone() };
    nanoseconds(found.time.as_bytes()).map(Some).ok_or_else(wrong)
}

/// Compares marks, newest first, with the stream; `None` if nothing contradicts them.
///
/// Requests the stream's extent unless it is known. Without permission for `STREAM.MSG.GET` it detects only a stream
/// that ends before the marks.
pub async fn verify(api: Api<'_>, stream: &str, marks: &[Mark], mut known: Option<Extent>) -> Result<Option<Rollback>> {
    let (mut found, had_extent) = (None, known.is_some());
    for attempt in 0..=CONFIRMATIONS {
        if marks.is_empty() {
            return Ok(None);
        }
        // The extent of a caller is of a moment ago.
        if attempt > 1 || attempt == 1 && !had_extent {
            sleep(LOOK_UP_INTERVAL).await;
        }
        // A server that is in no cluster has applied all messages before it answers. It names itself as the leader.
        let mut is_final = false;
        let extent = match known.take() {
            Some(extent) => extent,
            None => {
                let info = api.stream_info(stream).await?;
                is_final = info.cluster.name.is_none();
                Extent::from(&info.state)
            }
        };
        let mut looked_up = Vec::new();
        found = loop {
            match decide(marks, &extent, &looked_up) {
                RollbackVerdict::Holds => return Ok(None),
                RollbackVerdict::RolledBack { expected, found, last_good } => {
                    break Some(Rollback { stream: stream.to_owned(), expected, found, last_good });
                }
                RollbackVerdict::Look(seq) => {
                    match look_up(api, stream, seq).await {
                        // Not repeated for each mark: `error_cb` gets every permission error.
                        Err(JetError::Permission { .. }) => looked_up.extend(marks.iter().map(|mark| (mark.seq, None))),
                        time => looked_up.push((seq, time?)),
                    }
                }
            }
        };
        if is_final {
            break;
        }
    }
    Ok(found)
}

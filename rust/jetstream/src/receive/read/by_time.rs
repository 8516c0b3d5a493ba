//! Lookup of a time in a stream.

use serde_json::json;

use crate::api::{Api, BAD_REQUEST, StreamState};
use base::error::{JetError, Result};

/// Returns the first sequence stored at `time` (RFC 3339, UTC) or later; `None` if there is none.
pub async fn first_at(api: Api<'_>, stream: &str, state: &StreamState, time: &str) -> Result<Option<u64>> {
    match api.find_message(stream, &json!({"start_time": time})).await {
        Ok(found) => Ok(found.map(|message| message.seq)),
        // Servers before 2.11 do not support `start_time`.
        Err(JetError::Api { err_code: BAD_REQUEST, .. }) => bisect(api, stream, state, time).await,
        Err(err) => Err(err),
    }
}

/// Binary search: times increase with sequences. For a deleted sequence the next existing one counts.
async fn bisect(api: Api<'_>, stream: &str, state: &StreamState, time: &str) -> Result<Option<u64>> {
    let wanted = sortable(time);
    let (mut low, mut high, mut found) = (state.first_seq.max(1), state.last_seq, None);
    while low <= high {
        let middle = low + (high - low) / 2;
        match api.find_message(stream, &json!({"seq": middle, "next_by_subj": ">"})).await? {
            Some(message) if sortable(&message.time) < wanted => low = message.seq + 1,
            Some(message) => {
                found = Some(message.seq);
                high = middle - 1;
            }
            None => high = middle - 1,
        }
    }
    Ok(found)
}

/// Formats a UTC time as text that sorts like the times, for any number of fractional digits.
fn sortable(time: &str) -> String {
    let time = time.trim_end_matches('Z');
    let (second, fraction) = time.split_once('.').unwrap_or((time, ""));
    format!("{second}.{fraction:0<9}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_fractions_of_any_length_sort() {
        let mut times = ["2026-01-01T00:00:01Z", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.123456789Z"];
        times.sort_by_key(|time| sortable(time));
        assert_eq!(times, ["2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:01Z"]);
        assert_eq!(sortable("2026-01-01T00:00:00Z"), sortable("2026-01-01T00:00:00.000Z"));
    }
}

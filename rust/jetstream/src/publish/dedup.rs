//! Duplicate windows of streams: a message resent after the window would be stored twice.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, timeout};

use crate::api::Api;
use crate::publish::RETRY_PAUSE;
use base::error::Result;
use client::Connection;

/// The server's default duplicate window, used if the lookup is refused.
pub const DEFAULT_DUPLICATE_WINDOW: Duration = Duration::from_secs(120);
/// Timeout of one lookup.
const WINDOW_LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of streams whose window is cached, above the streams of one call.
const MAX_CACHED_WINDOWS: usize = 16;

/// Streams of the rows so far, and the shortest of their duplicate windows once it was looked up.
#[derive(Default)]
pub struct DuplicateWindows {
    streams: BTreeSet<String>,
    known: Option<Duration>,
}

impl DuplicateWindows {
    pub fn note(&mut self, stream: &str) {
        if self.streams.len() < MAX_CACHED_WINDOWS && !self.streams.contains(stream) {
            self.streams.insert(stream.to_owned());
            self.known = None;
        }
    }

    pub fn known(&self) -> Option<Duration> {
        self.known
    }

    /// Records the result of a lookup.
    pub fn learn(&mut self, shortest: Option<Duration>) {
        self.known = shortest;
    }

    /// Looks up the shortest window; `None` if there is no answer. Without a known stream it looks up the stream of the
    /// subject.
    pub fn ask<'a>(
        &self,
        conn: &'a Connection,
        prefix: String,
        subject: String,
    ) -> impl Future<Output = Option<Duration>> + Send + use<'a> {
        let streams = self.streams.clone();
        async move {
            let until = Instant::now() + WINDOW_LOOKUP_TIMEOUT;
            let asking = async {
                loop {
                    match shortest(Api::new(conn, &prefix), &streams, &subject).await {
                        // The server has just started.
                        Err(err) if err.is_transient() && Instant::now() < until => sleep(RETRY_PAUSE).await,
                        Err(err) if err.is_transient() => return None,
                        found => return Some(found.unwrap_or(DEFAULT_DUPLICATE_WINDOW)),
                    }
                }
            };
            timeout(WINDOW_LOOKUP_TIMEOUT, asking).await.ok().flatten()
        }
    }
}

/// Duplicate windows, and the request for them, before anything is sent again.
#[derive(Default)]
pub struct DuplicateLookup<'a> {
    pub windows: DuplicateWindows,
    pub lookup: Option<BoxFuture<'a, Option<Duration>>>,
}

async fn shortest(api: Api<'_>, streams: &BTreeSet<String>, subject: &str) -> Result<Duration> {
    if streams.is_empty() {
        let stream = api.stream_of(subject).await?;
        return Ok(api.stream_info(&stream).await?.config.duplicate_window());
    }
    let mut least = Duration::MAX;
    for stream in streams {
        least = least.min(api.stream_info(stream).await?.config.duplicate_window());
    }
    Ok(least)
}

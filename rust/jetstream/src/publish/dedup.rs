//! For how long streams know a message id: what is sent again later than that would be stored twice.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::api::Api;
use crate::publish::RETRY_PAUSE;
use base::error::Result;
use client::Connection;

/// The server's own duplicate window, taken where it does not tell.
pub const DEFAULT_DUPLICATE_WINDOW: Duration = Duration::from_secs(120);
/// How long is asked; then nothing better is known than the default.
const WINDOW_LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// More streams than one call goes to.
const MAX_CACHED_WINDOWS: usize = 16;

/// The streams that rows went to, and the shortest of their duplicate windows once it was asked for.
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

    pub fn learn(&mut self, shortest: Duration) {
        self.known = Some(shortest);
    }

    /// Asks the server for the shortest window; where no stream is known yet, for that of the subject's stream.
    pub fn ask<'a>(
        &self,
        conn: &'a Connection,
        prefix: String,
        subject: String,
    ) -> impl Future<Output = Duration> + Send + use<'a> {
        let streams = self.streams.clone();
        async move {
            let until = Instant::now() + WINDOW_LOOKUP_TIMEOUT;
            let asking = async {
                loop {
                    match shortest(Api::new(conn, &prefix), &streams, &subject).await {
                        // A server that has just started.
                        Err(err) if err.is_transient() && Instant::now() < until => sleep(RETRY_PAUSE).await,
                        found => return found.unwrap_or(DEFAULT_DUPLICATE_WINDOW),
                    }
                }
            };
            timeout(WINDOW_LOOKUP_TIMEOUT, asking).await.unwrap_or(DEFAULT_DUPLICATE_WINDOW)
        }
    }
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

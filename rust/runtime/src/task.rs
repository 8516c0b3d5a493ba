//! Tasks whose panic is an error for everything that waits for them, and is not mistaken for the end of a channel.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use base::error::{JetError, Result};
use base::panics::{caught, error_of};

/// Starts a task. All tasks are started here.
///
/// A panic is passed as an error to `failed`, which reports it to the waiting code. The values of the task are dropped
/// before, so the end of a channel does not show whether the task panicked.
#[allow(clippy::disallowed_methods)] // this is what is to be used in their place
pub fn spawn(
    work: impl Future<Output = ()> + Send + 'static,
    failed: impl FnOnce(JetError) + Send + 'static,
) -> Result<JoinHandle<()>> {
    let runtime = Handle::try_current().or_else(|_| crate::handle())?;
    Ok(runtime.spawn(async move {
        if let Err(error) = guarded(work).await {
            failed(error);
        }
    }))
}

/// Runs blocking work in a thread, and starts it at once.
#[allow(clippy::disallowed_methods)]
pub fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T>> + Send + Sync {
    let runtime = Handle::try_current().or_else(|_| crate::handle());
    let task = runtime.map(|runtime| runtime.spawn_blocking(move || caught(work)));
    async move { task?.await.unwrap_or_else(|_| Err(JetError::Internal("the process exits".into()))) }
}

/// Runs the work, and returns a panic as an error.
pub async fn guarded<T>(work: impl Future<Output = T>) -> Result<T> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(error_of)
}

/// Places at which tests can make a task panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    Call,
    FirstConnect,
    Connection,
    Outbox,
    Answers,
    Expiry,
    Refusals,
    Reader,
    Publisher,
    Subscription,
    Rows,
}

#[cfg(debug_assertions)]
impl Spot {
    const ALL: [Spot; 11] = [
        Spot::Call,
        Spot::FirstConnect,
        Spot::Connection,
        Spot::Outbox,
        Spot::Answers,
        Spot::Expiry,
        Spot::Refusals,
        Spot::Reader,
        Spot::Publisher,
        Spot::Subscription,
        Spot::Rows,
    ];
}

/// Panics here if a test requests it. Does nothing in a release build.
#[inline]
pub fn weak_spot(_spot: Spot) {
    #[cfg(debug_assertions)]
    forced::check(_spot);
}

#[cfg(debug_assertions)]
pub mod forced {
    use std::sync::Mutex;

    use super::Spot;
    use base::error::{JetError, Result};
    use base::lock::lock;

    static NEXT: Mutex<Option<Spot>> = Mutex::new(None);

    /// Makes the next task panic at this place; an empty word cancels the request.
    pub fn arm(word: &str) -> Result<()> {
        if word.is_empty() {
            *lock(&NEXT) = None;
            return Ok(());
        }
        let spot = Spot::ALL.iter().find(|spot| format!("{spot:?}").eq_ignore_ascii_case(word));
        *lock(&NEXT) = Some(*spot.ok_or_else(|| JetError::Value(format!("no such spot: {word:?}")))?);
        Ok(())
    }

    pub fn check(spot: Spot) {
        let hit = {
            let mut next = lock(&NEXT);
            let hit = *next == Some(spot);
            if hit {
                *next = None;
            }
            hit
        };
        assert!(!hit, "forced in {spot:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn panic_is_reported_with_its_text() {
        let (send, reported) = channel();
        let work = async {
            let words = String::from("once upon");
            assert!(words.is_empty(), "{words} a time");
        };
        spawn(work, move |error| send.send(error).unwrap()).unwrap();
        assert_eq!(reported.recv(), Ok(JetError::Internal("once upon a time".into())));
    }

    #[test]
    fn normal_end_is_not_reported() {
        let (send, reported) = channel();
        spawn(async {}, move |error| send.send(error).unwrap()).unwrap();
        assert_eq!(reported.iter().next(), None);
    }

    #[test]
    fn blocking_work_returns_its_result_or_its_panic() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(async { blocking(|| 5).await }), Ok(5));
        let work = || {
            let none: Vec<u8> = Vec::new();
            assert!(!none.is_empty(), "nothing");
        };
        assert_eq!(runtime.block_on(async { blocking(work).await }), Err(JetError::Internal("nothing".into())));
    }
}

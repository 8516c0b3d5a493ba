//! What async-nats keeps to itself: PINGs written, PONGs read, every error of the server, INFOs, every read, and why a
//! connection ended.
//!
//! Missing upstream: its events pass a channel that drops what does not fit, and most of this is no event at all. How
//! we get it: async-nats logs each of them with `tracing` while it happens, in the task of the connection, and this
//! module's copy of `tracing` has no other listener. So we listen here, to a handful of log lines; all others stay
//! switched off. Held in place by tests/connect: `test_flush_and_rtt_where_somebody_hears_everything` (a flush waits
//! for a PONG, and would time out), test_permissions.py (-ERR), `test_discovered_servers` and `test_lame_duck` (INFO),
//! test_reconnect.py (why a connection ended).

use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, LazyLock, Weak};

use arc_swap::ArcSwap;
use tokio::task::Id;
use tracing_core::callsite::{Identifier, rebuild_interest_cache};
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Record};
use tracing_core::{Dispatch, Event, Interest, Level, LevelFilter, Metadata, Subscriber, span};

use crate::engine::connection::hub::Hub;
use crate::engine::connection::info::Info;
use crate::error::JetError;
use crate::task::spawn;

/// What a line means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Pong,
    PingWritten,
    Error,
    Info,
    Disconnected,
    Stale,
    /// Some bytes were read; its fields are not.
    Read,
    /// Nothing to us; it is switched off.
    Other,
}

// Lock-free, so that a fork in another thread cannot leave a lock held in the child.
static TASKS: LazyLock<ArcSwap<HashMap<Id, Weak<Hub>>>> = LazyLock::new(ArcSwap::default);
/// The meaning of lines that can be told apart only by their text, once it was seen.
static SEEN: LazyLock<ArcSwap<HashMap<Identifier, Line>>> = LazyLock::new(ArcSwap::default);

/// Sends what the current task logs from now on to `hub`. Call it in the task of the connection.
pub fn listen(hub: &Arc<Hub>) {
    static START: LazyLock<bool> =
        LazyLock::new(|| tracing_core::dispatcher::set_global_default(Dispatch::new(Tap)).is_ok());
    let _started = *START;
    if let Some(id) = tokio::task::try_id() {
        TASKS.rcu(|tasks| {
            let mut tasks: HashMap<_, _> =
                tasks.iter().filter(|(_, hub)| hub.strong_count() > 0).map(|(id, hub)| (*id, hub.clone())).collect();
            tasks.insert(id, Arc::downgrade(hub));
            tasks
        });
    }
}

/// The current task panics. Where it is async-nats's, its connection is over, and nothing else would say so.
pub fn panicked(text: &str, upstream: bool) {
    let Some(hub) = tokio::task::try_id().and_then(|id| TASKS.load().get(&id).and_then(Weak::upgrade)) else { return };
    let error = if upstream {
        let what = format!("the connection to {}", hub.servers);
        JetError::Protocol { what, answer: format!("what async-nats cannot read ({text})") }
    } else {
        JetError::Internal(format!("the connection's task: {text}"))
    };
    hub.doomed(error.clone());
    // The rest later, and elsewhere: the panic may have come while one of the hub's locks was held.
    let _ending = spawn(async move { hub.failed_within(error) }, |_| ());
}

struct Tap;

/// None: its text decides.
fn meaning(meta: &Metadata<'_>) -> Option<Line> {
    let has = |name: &str| meta.fields().field(name).is_some();
    let fields = meta.fields().len();
    match (meta.target(), *meta.level()) {
        ("async_nats::connection", Level::TRACE) => match fields {
            1 if has("message") => SEEN.load().get(&meta.callsite()).copied(),
            2 if has("message") && has("bytes") => Some(Line::Read),
            2 if has("message") && has("info") => Some(Line::Info),
            2 if has("message") && has("error") => SEEN.load().get(&meta.callsite()).copied(),
            _ => Some(Line::Other),
        },
        ("async_nats", Level::DEBUG) if has("message") => match fields {
            2 if has("error") => Some(Line::Disconnected),
            3 if has("pending_pings") => Some(Line::Stale),
            _ => Some(Line::Other),
        },
        _ => Some(Line::Other),
    }
}

/// The fields of a line that we read.
#[derive(Default)]
struct Text {
    message: String,
    value: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = match field.name() {
            "message" => &mut self.message,
            "info" | "error" => &mut self.value,
            _ => return,
        };
        let _cannot_fail = write!(text, "{value:?}");
    }
}

impl Subscriber for Tap {
    fn register_callsite(&self, meta: &'static Metadata<'static>) -> Interest {
        match meaning(meta) {
            Some(Line::Other) => Interest::never(),
            _ => Interest::always(),
        }
    }

    fn enabled(&self, meta: &Metadata<'_>) -> bool {
        meaning(meta) != Some(Line::Other)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        let line = meaning(event.metadata()).unwrap_or_else(|| {
            event.record(&mut text);
            let line = match text.message.as_str() {
                "read operation: PONG" => Line::Pong,
                "write operation: PING" => Line::PingWritten,
                "read operation: ERR" => Line::Error,
                _ => Line::Other,
            };
            let callsite = event.metadata().callsite();
            SEEN.rcu(|seen| {
                let mut seen = HashMap::clone(seen);
                seen.insert(callsite.clone(), line);
                seen
            });
            // Switches the line off where it means nothing.
            rebuild_interest_cache();
            line
        });
        let Some(hub) = tokio::task::try_id().and_then(|id| TASKS.load().get(&id).and_then(Weak::upgrade)) else {
            return;
        };
        if text.message.is_empty() && line != Line::Read {
            event.record(&mut text);
        }
        match line {
            Line::Pong => hub.ponged(),
            Line::PingWritten => hub.pinged(),
            Line::Error => hub.server_error(&text.value),
            Line::Info => hub.informed(&Info::read(&text.value)),
            Line::Disconnected => hub.broke(&text.value),
            Line::Stale => hub.stale(),
            Line::Read => hub.has_read(),
            Line::Other => {}
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

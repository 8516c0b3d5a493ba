"""Key-value buckets, under nats-py's module path."""

from __future__ import annotations

from jetarrow.jetstream.kv.entry import Entry
from jetarrow.jetstream.kv.key_value import BucketStatus, KeyValue
from jetarrow.jetstream.kv.names import KV_DEL, KV_MARKER_REASON, KV_OP, KV_PURGE, MSG_ROLLUP_SUBJECT, VALID_KEY_RE
from jetarrow.jetstream.kv.watcher import KeyWatcher, StopIterSentinel
from jetarrow.js import api as api

__all__ = [
    "KV_DEL",
    "KV_MARKER_REASON",
    "KV_OP",
    "KV_PURGE",
    "MSG_ROLLUP_SUBJECT",
    "VALID_KEY_RE",
    "BucketStatus",
    "Entry",
    "KeyValue",
    "KeyWatcher",
    "StopIterSentinel",
]

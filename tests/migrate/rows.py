"""Rows of MIGRATION.md's tables of differences: the rules that recognise them, or the reason why no source shows them.

Keys are the beginnings of rows. `test_rows.py` compares them with the page in both directions.
"""

from __future__ import annotations

GAIN = "a program that works with nats-py needs no change"
SERVER = "it depends on the state of the server"
RUN = "it depends on values, or on the order of events, of a run"

ROWS: dict[str, tuple[str, ...] | str] = {
    # Frameworks on nats-py
    "`type(msg) is Msg`": ("type-of-message",),
    "Two concurrent acks of one message": RUN,
    "`print(msg)` and `MsgAlreadyAckdError`": ("message-text",),
    # Methods: rows that begin with "same" need no rule. These have a difference as well.
    "`nc.stats`, `nc.max_payload`": ("pending-size", "pending-data-size"),
    "`js.pull_subscribe(subject, durable, stream, config, ...)`": ("pull-inbox",),
    # Errors and lost messages
    "The future of a `publish_async` that the stream rejects": GAIN,
    "The future of a `publish_async` without an answer": GAIN,
    "A cancelled `publish_async` raises": ("cancelled-publish",),
    "`flush` may return before messages": GAIN,
    "A message that exceeds `max_payload`": RUN,
    "The server closes the connection during a large `fetch`": GAIN,
    "A `fetch` waits for its timeout if it requests more": GAIN,
    "`pull_subscribe` binds an existing durable": SERVER,
    "Disconnects and reconnects are not logged.": GAIN,
    "A `fetch` waits for its timeout when its consumer is deleted.": SERVER,
    "A `fetch` whose heartbeats stop": SERVER,
    "A publish or request without permission times out.": SERVER,
    "At the server's `max_subscriptions`": SERVER,
    "`unsubscribe` and `close` cancel the running callback": RUN,
    "After `close`, `next_msg` raises": RUN,
    "`fetch` after `unsubscribe`": RUN,
    "`connect` on a connected client": RUN,
    "The methods of a client that never connected": RUN,
    "The error callback is called for every message": ("slow-consumer",),
    # Arguments are not modified
    "`stream=` and `msg_ttl=` are written": RUN,
    "`config=` of a subscription is modified": RUN,
    # Security and connecting
    "An address `tls://` falls back": ("tls-address",),
    "`tls=` with an `ssl.SSLContext`": ("tls-client-certificate",),
    "`tls=` is ignored if the server has no TLS.": ("tls-required",),
    "A rejected certificate raises": GAIN,
    "`close` calls `disconnected_cb` again": RUN,
    "`connect` to an unreachable server": ("connect-attempts",),
    "Wrong credentials raise a plain `Error`": SERVER,
    "`nc.connected_url`, `nc.servers`, `nc.server_pool`": ("secrets",),
    "`publish` sends subjects with empty tokens": ("subject",),
    "`prefix=`, `domain=` and `inbox_prefix=`": ("prefix",),
    "An older server silently drops a setting": SERVER,
    # Key-value
    "An expired key is an entry with the value None": ("value-none",),
    "`delete(last=)` with a wrong revision": GAIN,
    "`a..b` is accepted as a key": ("key",),
    "`get` returns None for an empty value": ("value-none",),
    "`created` and `delta` are None after `get`.": ("entry-time",),
    "`placement` of a bucket is ignored.": ("bucket-placement",),
    "`keys(filters)` matches keys that contain the text.": ("key-filters",),
    "`watch(headers_only=True)` has no effect.": ("headers-only",),
    "`purge_deletes` also removes values": GAIN,
    "A watch waits for ever if its bucket is deleted.": SERVER,
    "Consumers of `keys`, `history` and stopped watches": GAIN,
    # Object stores
    "`update_meta` with a new name": GAIN,
    "`put` awaits the ack of each chunk.": GAIN,
    "`put` of an asynchronous file": GAIN,
    "`put(None, data, meta)` is a `TypeError`": GAIN,
    "`get` copies all bytes again": GAIN,
    "`mtime` is the writer's clock.": ("object-time",),
    '`headers={"A": "1"}` are stored unchanged': ("object-headers",),
    "`delete` writes an empty `mtime`": GAIN,
    "A put whose last answer is lost": GAIN,
    "Concurrent puts of one name": GAIN,
    "`get` waits for ever if the chunks": SERVER,
    "Links to links are followed": SERVER,
    "`put` writes the name into the caller's `meta`.": RUN,
    "`create_object_store(config=...)` ignores": GAIN,
    '`object_store("a\\n")` is accepted': ("store-name",),
    "A stopped watcher waits for ever.": RUN,
    # Services
    "An exception with a text longer than `max_payload`": RUN,
    "`reset` does not reset the counters": GAIN,
    "`respond_error` does not count as an error": ("service-errors",),
    "`stop` discards received requests.": GAIN,
    "`ServiceStats.from_dict` cannot read": GAIN,
    # Arguments and results
    "`fetch` raises `FetchTimeoutError` if heartbeats": ("fetch-timeout",),
    "`fetch` with `heartbeat` and `timeout=None`": GAIN,
    "`fetch` with a `heartbeat` of exactly half": ("negative-heartbeat",),
    "`pending_msgs_limit` and `pending_bytes_limit`": ("pull-limits",),
    "Headers of old-style requests are ignored.": ("old-style-headers",),
    "Headers have the order of the message.": RUN,
    "A header has one value.": GAIN,
    "Headers of `get_msg` with non-ASCII text": RUN,
    "The configuration of an unnamed consumer": RUN,
    '`reply=None` is the subject "None".': ("reply-none",),
    "`nats.aio.transport` and `nats.protocol`": ("missing",),
    "Payloads are bytes.": GAIN,
    "A queue subscription on a durable of another name": GAIN,
    "A `filter_subject` in the configuration": ("filter-subject",),
    "`subscribe` on a durable that delivers other subjects": SERVER,
    "`purge_stream` returns True.": ("purge-result",),
    "`PubAck.duplicate` is None": ("duplicate",),
    "`account_info` is one request.": ("account-info",),
    "Callbacks of `js.subscribe` must be coroutine functions.": GAIN,
    "A `datetime` without a time zone is UTC.": ("naive-time",),
    "Durations are seconds, whatever the number.": ("duration",),
    'A missing stream or consumer raises "not found".': GAIN,
    "Unknown words in a configuration are sent.": ("word",),
    "Settings of a newer server are dropped": GAIN,
    "`pull_subscribe_bind` takes consumer and stream.": ("bind-order",),
    # Defaults
    "`ping_interval` 120 s": ("ping-interval",),
    "`pull_subscribe` creates consumers": ("max-ack-pending",),
    "`publish_async_max_pending` 4000": ("async-pending",),
}
# Rules of the section of names that jetarrow does not have.
NAMES = {"missing", "constructor", "keywords-of-keys", "private"}

"""Intended differences from the successors of nats-py.

The reasons are in MIGRATION.md's section "Successors of nats-py" as well, word for word.
"""

from __future__ import annotations

# Reasons that several records share.
_CODES = "A direct get raises the same error as the other way of reading."
_PREFIX = "A direct get has the prefix of the context, as the reference's other requests have."
_JSON = "The reference passes the object on, and JSON rejects it."
_SUBJECTS = "Such a message is lost, reaches another subject, or ends the connection."
_BURST = "One error per burst; `dropped` is exact."
_CALLBACKS = "As the reference does above the limit of messages."
_CLOSED = "`CancelledError` looks like a cancelled task."
_CERTIFICATES = "As its documentation has it: `ConnectionError` if the connection fails."
_SEED = "nkeys is not needed."
_AT_HAND = "Messages that the server has are requested without heartbeats."
_LANDED = "Errors of a fetch are in `batch.error`."
_KEYS = "Otherwise the subject is not valid, or a line break in it ends the command."
_EXPIRED = "`get` raises `KeyNotFoundError` for such a key."
_PURGED = "Otherwise a value that was stored after a deletion is lost."
_DELETIONS = "`ignore_deletes` leaves deletions out; it does not end a watch."
_STOPPED = "As the iteration of a stopped watch does."
_CONSUMERS = "Otherwise each list leaves a consumer on the server for 5 minutes."
_HISTORY = "As in nats.go."
_DOMAINS = "The buckets of another domain keep their own values."
_MIRRORS = "Without this such a bucket has no keys, or cannot be created."

# By scenario and key of its record.
DIFFERENCES: dict[tuple[str, str], str] = {
    ("client_connect.nkeys", "no seed"): _SEED,
    ("client_connect.tls", "unknown authority"): _CERTIFICATES,
    ("client_connect.tls", "unknown authority, plain scheme"): _CERTIFICATES,
    ("client_connect.tls", "wrong hostname"): _CERTIFICATES,
    ("client_end.bad_subjects", "publish ''"): _SUBJECTS,
    ("client_end.bad_subjects", "publish 'a b'"): _SUBJECTS,
    ("client_end.bad_subjects", "publish 'a..b'"): _SUBJECTS,
    ("client_end.bad_subjects", "publish '.a'"): _SUBJECTS,
    ("client_end.bad_subjects", "publish 'a.'"): _SUBJECTS,
    ("client_limits.byte_limit_drops_new_messages", "errors"): _BURST,
    ("client_limits.byte_limit_drops_new_messages", "pending at the error"): _BURST,
    ("client_limits.byte_limit_drops_new_messages", "after a message was taken"): _BURST,
    ("client_limits.callbacks_of_dropped_messages", "bytes"): _CALLBACKS,
    ("client_limits.message_above_max_payload", "publish"): "One message must not end the connection of all callers.",
    ("client_requests.close_ends_pending_requests", "request"): _CLOSED,
    ("jetstream_stored.messages_by_direct_get", "no such sequence"): _CODES,
    ("jetstream_stored.messages_by_direct_get", "no such subject"): _CODES,
    ("jetstream_stored.direct_get_of_wildcards", "none"): _CODES,
    ("jetstream_stored.direct_get_below_a_prefix", "sequence"): _PREFIX,
    ("jetstream_stored.direct_get_below_a_prefix", "subject"): _PREFIX,
    ("jetstream_streams.create_returns_the_stream", "empty name"): "Subjects with an empty token are rejected.",
    ("jetstream_streams.update_accepts_values_of_configurations", "timedelta"): _JSON,
    ("jetstream_streams.update_accepts_values_of_configurations", "dataclass"): _JSON,
    ("jetstream_values.microseconds_become_nanoseconds", "1001 us"): "Durations are converted without a float.",
    ("jetstream_values.values_that_become_json_by_themselves", "time of a source"): _JSON,
    ("jetstream_values.values_that_become_json_by_themselves", "transforms"): _JSON,
    ("jetstream_values.values_that_become_json_by_themselves", "priority timeout"): _JSON,
    ("jetstream_values.responses_are_not_changed", "response"): "The caller's dict is not emptied.",
    ("jetstream_acks.acknowledgements_of_a_deleted_consumer", "double ack"): "A 503 is no confirmation.",
    ("jetstream_pull.a_consumer_that_is_deleted", "next"): "The class names the cause, as during a fetch.",
    ("jetstream_pull.arguments", "heartbeat too long"): _AT_HAND,
    ("jetstream_pull.after_the_end", "batch"): _LANDED,
    ("jetstream_pull.after_the_end", "error"): _LANDED,
    ("key_value_entries.put_and_get", "text"): "Text is sent as UTF-8.",
    ("key_value_entries.keys_with_empty_tokens", "put"): _KEYS,
    ("key_value_entries.keys_with_empty_tokens", "get"): _KEYS,
    ("key_value_entries.keys_with_a_line_break", "get"): _KEYS,
    ("key_value_entries.keys_with_a_line_break", "keys"): _KEYS,
    ("key_value_entries.keys_with_a_line_break", "bucket"): _KEYS,
    ("key_value_entries.keys_after_a_limit_marker", "keys"): _EXPIRED,
    ("key_value_entries.purge_of_markers_keeps_a_value_that_follows_a_deletion", "value"): _PURGED,
    ("key_value_watches.ignored_deletion_at_the_end_of_the_values", "values"): _DELETIONS,
    ("key_value_watches.ignored_deletion_among_the_updates", "update"): _DELETIONS,
    ("key_value_ends.values_of_a_stopped_watch", "values"): _STOPPED,
    ("key_value_ends.consumers_of_lists", "consumers after keys"): _CONSUMERS,
    ("key_value_ends.consumers_of_lists", "consumers after history"): _CONSUMERS,
    ("key_value_ends.consumers_of_lists", "consumers after purge_deletes"): _CONSUMERS,
    ("key_value_buckets.history_below_one", "bind"): _HISTORY,
    ("key_value_buckets.sources_by_the_name_of_a_bucket", "value"): _MIRRORS,
    ("key_value_buckets.sources_by_the_name_of_a_bucket", "keys"): _MIRRORS,
    ("key_value_buckets.buckets_of_one_name_in_two_domains", "get of the leaf"): _DOMAINS,
    ("key_value_buckets.mirror", "create"): _MIRRORS,
    ("key_value_buckets.mirror", "value"): _MIRRORS,
    ("key_value_buckets.mirror", "put"): _MIRRORS,
    ("key_value_buckets.mirror", "value of the origin"): _MIRRORS,
    ("key_value_buckets.mirror", "keys"): _MIRRORS,
    ("key_value_buckets.mirror", "watched"): _MIRRORS,
}

# Public names of the reference that ours does not have, or has otherwise, by path below `nats`.
LEFT_OUT: dict[str, str] = {
    "client.connection": "The transport of the reference; ours is native.",
    "client.protocol": "The parser of the reference; ours is native.",
    "client.Client.__init__": "Clients are made by `connect`.",
    "jetstream.consumer.pull.PullMessageBatch.__init__": "Made by `fetch` and `messages`.",
    "jetstream.consumer.pull.PullMessageStream.__init__": "Made by `fetch` and `messages`.",
    "client.ParseError": "The parser of the reference; ours is native.",
    "jetstream.api.types.StreamNamesResponse": "The server sends `streams`; the reference's schema has `consumers`.",
    "jetstream.stream.StreamManager.list_streams": "An asynchronous iterator is not awaited.",
    "jetstream.stream.StreamManager.stream_names": "An asynchronous iterator is not awaited.",
}

"""Intended differences from the successors of nats-py, by scenario and key of its record.

The reasons are in MIGRATION.md's section "Successors of nats-py" as well, word for word.
"""

from __future__ import annotations

# Reasons that several records share.
_CODES = "A direct get raises the same error as the other way of reading."
_PREFIX = "A direct get has the prefix of the context, as the reference's other requests have."
_JSON = "The reference passes the object on, and JSON rejects it."

DIFFERENCES: dict[tuple[str, str], str] = {
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
}

# Public names of the reference that ours does not have, or has otherwise, by path below `nats`.
LEFT_OUT: dict[str, str] = {
    "client.connection": "The transport of the reference; ours is native.",
    "client.protocol": "The parser of the reference; ours is native.",
    "client.Client.__init__": "Clients are made by `connect`.",
    "client.ParseError": "The parser of the reference; ours is native.",
    "jetstream.api.types.StreamNamesResponse": "The server sends `streams`; the reference's schema has `consumers`.",
    "jetstream.stream.StreamManager.list_streams": "An asynchronous iterator is not awaited.",
    "jetstream.stream.StreamManager.stream_names": "An asynchronous iterator is not awaited.",
}

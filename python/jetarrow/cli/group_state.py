"""State of consumer groups: their members, the partitions of each, and who reads them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream.errors import (
    BucketNotFoundError,
    GroupConfigError,
    GroupNotFoundError,
    NoKeysError,
    NotFoundError,
)
from jetarrow.jetstream.groups.config import BUCKETS, PRIORITY_GROUP, GroupConfig
from jetarrow.jetstream.groups.partitions import shared
from jetarrow.jetstream.literals import GroupKind

if TYPE_CHECKING:
    from jetarrow.js.api import ConsumerInfo
    from jetarrow.sync import ConsumerGroup, JetStream

# Keys of a group, and of each of its members.
KEYS = "stream name kind partitions filters[].filter filters[].wildcards max_buffered_msgs max_buffered_bytes"
MEMBER = "member state partitions pinned pinned_since pending ack_pending redelivered waiting"


def find_groups(js: JetStream, stream: str | None) -> list[ConsumerGroup]:
    """Return the groups of a stream, or of all streams, sorted by stream and name.

    Args:
        js: A blocking context.
        stream: The stream; None for all.
    """
    streams = [stream] if stream is not None else sorted(_streams_with_groups(js))
    return [group for one in streams for group in js.consumer_groups(one)]


def _streams_with_groups(js: JetStream) -> set[str]:
    found: set[str] = set()
    for bucket in BUCKETS.values():
        with suppress(BucketNotFoundError, NoKeysError):
            found |= {key.partition(".")[0] for key in js.key_value(bucket).keys()}  # noqa: SIM118
    return found


def open_group(js: JetStream, stream: str, name: str, kind: GroupKind | None = None) -> ConsumerGroup:
    """Return a group that exists; its errors name the command's options.

    Args:
        js: A blocking context.
        stream: Its stream.
        name: Its name.
        kind: Its kind; None finds it.
    """
    try:
        return js.open_consumer_group(stream, name, kind=kind)
    except GroupConfigError as error:
        raise GroupConfigError(str(error).replace("give kind=", "give --kind")) from error
    except GroupNotFoundError as error:
        what = f"{kind} consumer group" if kind else "consumer group"
        raise GroupNotFoundError(
            f"stream {stream!r} has no {what} {name!r}; list the groups: jetarrow group ls {stream}"
        ) from error


def summary(group: ConsumerGroup, config: GroupConfig) -> dict[str, Any]:
    """Return the settings of a group by `KEYS`."""
    return {
        "stream": group.stream,
        "name": group.name,
        "kind": group.kind,
        "partitions": config.partitions,
        "filters": [{"filter": one.filter, "wildcards": list(one.wildcards)} for one in config.filters],
        "max_buffered_msgs": config.max_buffered_msgs or None,
        "max_buffered_bytes": config.max_buffered_bytes or None,
    }


def partitions_of(config: GroupConfig) -> dict[str, list[int]]:
    """Return the partitions of each member, by name; empty lists for members without a partition."""
    if config.mappings:
        return {name: sorted(config.mappings[name]) for name in sorted(config.mappings)}
    own = shared(config.members, config.partitions)
    return {name: own.get(name, []) for name in sorted(set(config.members), key=str.encode)}


def read_members(js: JetStream, group: ConsumerGroup) -> tuple[GroupConfig, list[dict[str, Any]]]:
    """Return the configuration of a group, and a row by `MEMBER` for each member, sorted by name.

    Args:
        js: A blocking context.
        group: The group.
    """
    config = group.info()
    while True:
        rows = [_member(js, group, name, own) for name, own in partitions_of(config).items()]
        # A member that was removed meanwhile may have no consumer already.
        before, config = config, group.info()
        if config == before:
            return config, rows


def _member(js: JetStream, group: ConsumerGroup, name: str, partitions: list[int]) -> dict[str, Any]:
    row: dict[str, Any] = {**dict.fromkeys(MEMBER.split()), "member": name, "partitions": partitions}
    try:
        info = js.consumer_info(group.work_queue, group.consumer_of(name))
    except NotFoundError:
        return {**row, "state": "absent" if partitions else "spare"}
    return row | _consumer_state(info, bool(partitions))


def _consumer_state(info: ConsumerInfo, has_partitions: bool) -> dict[str, Any]:
    state = next((one for one in info.priority_groups or () if one.group == PRIORITY_GROUP), None)
    pinned = (state and state.pinned_client_id) or None
    # Without messages to deliver no client is pinned yet.
    without = "waiting" if info.num_waiting else "absent" if has_partitions else "spare"
    return {
        "state": "pinned" if pinned else without,
        "pinned": pinned,
        "pinned_since": state.pinned_ts if state and pinned else None,
        "pending": info.num_pending,
        "ack_pending": info.num_ack_pending,
        "redelivered": info.num_redelivered,
        "waiting": info.num_waiting,
    }


def queue_state(js: JetStream, group: ConsumerGroup, members: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the state of the stream that members read, by name; None for numbers that only elastic groups have.

    Args:
        js: A blocking context.
        group: The group.
        members: Rows of its members.
    """
    state: dict[str, Any] = {"work_queue": group.work_queue, "messages": None, "source_lag": None, "unassigned": None}
    if group.kind == "static":
        return state
    try:
        info = js.stream_info(group.work_queue)
    except NotFoundError:
        return state
    held = sum((one["pending"] or 0) + (one["ack_pending"] or 0) for one in members)
    state["messages"] = info.state.messages
    # Both counts are of different moments.
    state["unassigned"] = max(0, info.state.messages - held)
    state["source_lag"] = next((source.lag for source in info.sources or ()), None)
    return state


def show_partitions(numbers: list[int]) -> str:
    """As `0-3, 7`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)

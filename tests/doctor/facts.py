"""Facts for the unit tests of the rules: a healthy stream and consumer, with changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from jetarrow.jetstream.doctor.finding import Finding
from jetarrow.jetstream.doctor.rules import diagnose
from jetarrow.jetstream.doctor.snapshot import AckTimes, ConsumerFacts, ServerFacts, Snapshot, StreamFacts
from jetarrow.jetstream.doctor.thresholds import Thresholds
from jetarrow.js.api import AccountInfo, ConsumerInfo, StreamInfo

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
CREATED = "2026-11-26T00:00:00Z"


def ago(seconds: float) -> str:
    """An RFC 3339 time before `NOW`."""
    return (NOW - timedelta(seconds=seconds)).isoformat()


def stream(*, config: dict[str, Any] | None = None, state: dict[str, Any] | None = None, **more: Any) -> StreamInfo:
    """A stream with one replica in files, without limits, on a single server."""
    settings = {"name": "S", "subjects": ["s.>"], "retention": "limits", "storage": "file", "num_replicas": 1}
    settings |= {"duplicate_window": 120 * 10**9, "discard": "old", "max_msgs": -1, "max_bytes": -1, **(config or {})}
    held = {"messages": 0, "bytes": 0, "first_seq": 1, "last_seq": 0, "consumer_count": 0, **(state or {})}
    return StreamInfo.from_response({"config": settings, "state": held, "created": CREATED, "ts": ago(0), **more})


def consumer(*, config: dict[str, Any] | None = None, **more: Any) -> ConsumerInfo:
    """A durable pull consumer with a waiting request, which was active a second ago."""
    settings = {"name": "C", "durable_name": "C", "ack_policy": "explicit", "ack_wait": 30 * 10**9}
    settings |= {"max_ack_pending": 1000, "max_waiting": 512, **(config or {})}
    position = {"consumer_seq": 10, "stream_seq": 10, "last_active": ago(1)}
    state = {"name": "C", "stream_name": "S", "created": CREATED, "ts": ago(0), "num_waiting": 1, "num_pending": 0}
    state |= {"num_ack_pending": 0, "num_redelivered": 0, "delivered": position, "ack_floor": position}
    return ConsumerInfo.from_response({**state, "config": settings, **more})


def measured(
    first: ConsumerInfo, *, delivered: int, unacked: int, elapsed: float = 1.0, **samples: Any
) -> ConsumerFacts:
    """A consumer with a measurement, at the end of which it has these counts."""
    position = {"consumer_seq": 10 + delivered, "stream_seq": 10 + delivered, "last_active": ago(0)}
    later = consumer(delivered=position, num_ack_pending=unacked)
    return ConsumerFacts(first, acks=AckTimes(later, elapsed, **samples))


def account(**limits: int) -> AccountInfo:
    """An account that uses 8 of everything, with these limits."""
    every = ("max_memory", "max_storage", "max_streams", "max_consumers", "max_ack_pending", "memory_max_stream_bytes")
    values: dict[str, Any] = {**dict.fromkeys((*every, "storage_max_stream_bytes"), -1), "max_bytes_required": False}
    used = dict.fromkeys(("memory", "storage", "streams", "consumers"), 8)
    return AccountInfo.from_response(
        {**used, "limits": {**values, **limits}, "api": {"total": 1, "errors": 0, "level": 5}}
    )


def snapshot(*streams: StreamInfo | StreamFacts, **facts: Any) -> Snapshot:
    """Facts of these streams on a server of version 2.15."""
    found = tuple(one if isinstance(one, StreamFacts) else StreamFacts(one) for one in streams)
    return Snapshot(NOW, **{"server": "n0", "version": "2.15.1", "streams": found, **facts})


def of_consumer(one: ConsumerInfo | ConsumerFacts, info: StreamInfo | None = None, **facts: Any) -> Snapshot:
    """Facts of a stream with one consumer."""
    return snapshot(
        StreamFacts(info or stream(), (one if isinstance(one, ConsumerFacts) else ConsumerFacts(one),)), **facts
    )


def of_servers(*servers: ServerFacts, **facts: Any) -> Snapshot:
    """Facts of these servers."""
    return snapshot(servers=servers, **facts)


def found(facts: Snapshot, **thresholds: Any) -> list[tuple[str, str]]:
    """Severity and object of the findings."""
    return [(str(one.severity), one.object) for one in all_of(facts, **thresholds)]


def all_of(facts: Snapshot, **thresholds: Any) -> list[Finding]:
    """The findings."""
    return diagnose(facts, Thresholds(**thresholds))

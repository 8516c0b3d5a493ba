"""Usage and limits of accounts. Public as `jetarrow.nats.jetstream`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jetarrow.nats.jetstream.wire import Response


@dataclass
class APIStats(Response):
    """Counts of an account's API requests.

    Attributes:
        total: Number of requests.
        errors: Number of requests that failed.
        level: The server's API level.
    """

    total: int
    errors: int
    level: int | None = None


@dataclass
class AccountLimits(Response):
    """Limits of an account; -1 is no limit. Sizes in bytes.

    Attributes:
        max_memory: Size of messages in memory.
        max_storage: Size of messages in files.
        max_streams: Number of streams.
        max_consumers: Number of consumers.
        max_ack_pending: Number of unacknowledged messages of a consumer.
        memory_max_stream_bytes: Size of a stream in memory.
        storage_max_stream_bytes: Size of a stream in files.
        max_bytes_required: Whether streams must set `max_bytes`.
    """

    max_memory: int
    max_storage: int
    max_streams: int
    max_consumers: int
    max_ack_pending: int
    memory_max_stream_bytes: int
    storage_max_stream_bytes: int
    max_bytes_required: bool


@dataclass
class Tier(Response):
    """Usage and limits of an account at one replication level. Sizes in bytes."""

    memory: int
    storage: int
    streams: int
    consumers: int
    limits: AccountLimits


@dataclass
class AccountInfo(Response):
    """Usage and limits of an account. Sizes in bytes.

    Attributes:
        memory: Size of messages in memory.
        storage: Size of messages in files.
        streams: Number of streams.
        consumers: Number of consumers.
        limits: The account's limits.
        api: Counts of its API requests.
        domain: The JetStream domain.
        tiers: Usage and limits by replication level.
        reserved_memory: Reserved size in memory.
        reserved_storage: Reserved size in files.
    """

    _envelope: ClassVar[frozenset[str]] = frozenset({"type"})

    memory: int
    storage: int
    streams: int
    consumers: int
    limits: AccountLimits
    api: APIStats
    domain: str | None
    tiers: dict[str, Tier] | None
    reserved_memory: int | None = None
    reserved_storage: int | None = None

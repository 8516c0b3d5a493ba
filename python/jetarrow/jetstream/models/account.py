"""Usage and limits of an account."""

# Choice, Duration and the like are descriptors, not shared mutable defaults

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jetarrow.jetstream.models.base import Base, Codec, Nested, NestedDict


@dataclass
class AccountLimits(Base):
    """Limits of an account; -1 is no limit. Sizes in bytes."""

    max_memory: int
    max_storage: int
    max_streams: int
    max_consumers: int
    max_ack_pending: int
    memory_max_stream_bytes: int
    storage_max_stream_bytes: int
    max_bytes_required: bool


@dataclass
class Tier(Base):
    """Usage and limits of an account at one replication level. Sizes in bytes."""

    _codecs: ClassVar[dict[str, Codec]] = {"limits": Nested(AccountLimits)}

    memory: int
    storage: int
    streams: int
    consumers: int
    limits: AccountLimits
    reserved_memory: int | None = None
    reserved_storage: int | None = None


@dataclass
class APIStats(Base):
    """An account's API requests: total, failed, in flight; and the server's API level (2.11 or later)."""

    total: int
    errors: int
    level: int | None = None
    inflight: int | None = None


@dataclass
class AccountInfo(Base):
    """Usage and limits of an account. Sizes in bytes.

    Attributes:
        memory: Used bytes of memory.
        storage: Used bytes of files.
        streams: Number of streams.
        consumers: Number of consumers.
        limits: Its limits.
        api: Counters of its API requests.
        domain: The JetStream domain, if it is in one.
        tiers: Usage and limits by replication level (`R1`, `R3`), if the account has such limits.
        reserved_memory: Bytes of memory reserved by the `max_bytes` of streams.
        reserved_storage: Bytes of files reserved by the `max_bytes` of streams.
        messages: Number of messages in all streams; None if it was not requested or is not permitted.
        bytes: Bytes of these messages; None as `messages`.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "limits": Nested(AccountLimits),
        "api": Nested(APIStats),
        "tiers": NestedDict(Tier),
    }

    memory: int
    storage: int
    streams: int
    consumers: int
    limits: AccountLimits
    api: APIStats
    domain: str | None = None
    tiers: dict[str, Tier] | None = None
    reserved_memory: int | None = None
    reserved_storage: int | None = None
    messages: int | None = None
    bytes: int | None = None

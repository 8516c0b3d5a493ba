"""What an account uses and may use."""

# Choice, Duration and the like are descriptors, not shared mutable defaults

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jetarrow.jetstream.models.base import Base, Codec, Nested, NestedDict


@dataclass
class AccountLimits(Base):
    """What an account may use; -1 is no limit. Sizes in bytes."""

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
    """What an account uses and may use at one replication level. Sizes in bytes."""

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
    """An account's API requests: in all, failed, in work now; and the server's API level (2.11 or later)."""

    total: int
    errors: int
    level: int | None = None
    inflight: int | None = None


@dataclass
class AccountInfo(Base):
    """What an account uses and may use. Sizes in bytes.

    Attributes:
        memory: Bytes of memory that it uses.
        storage: Bytes of files that it uses.
        streams: How many streams it has.
        consumers: How many consumers it has.
        limits: What it may use.
        api: Its requests so far.
        domain: The JetStream domain, if there is one.
        tiers: The same by replication level (`R1`, `R3`), where the account has such limits.
        reserved_memory: Bytes of memory that streams with `max_bytes` have set aside.
        reserved_storage: Bytes of files that streams with `max_bytes` have set aside.
        messages: Messages in all its streams; None where it was not asked for, or may not be.
        bytes: Bytes of them; None as `messages`.
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

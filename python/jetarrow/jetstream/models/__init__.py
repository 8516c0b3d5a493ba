"""Types of the JetStream API, as nats-py's ``nats.js.api`` has them, and a few more.

Every field that is a duration takes seconds or a ``timedelta``; every field that is an enum takes the enum or
its string; what a newer server sends is kept and sent back.
"""

# ruff: noqa: RUF009  # Choice, Duration and the like are descriptors, not shared mutable defaults

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from jetarrow.jetstream.models.base import Base, Choice, Choices, Codec, Moment, Nested, NestedDict, epoch_ns
from jetarrow.jetstream.models.consumers import (
    AckPolicy,
    ConsumerConfig,
    ConsumerInfo,
    ConsumerPause,
    ConsumerReset,
    DeliverPolicy,
    PriorityGroupState,
    PriorityPolicy,
    ReplayPolicy,
    SequenceInfo,
)
from jetarrow.jetstream.models.stores import (
    KeyValueConfig,
    ObjectInfo,
    ObjectLink,
    ObjectMeta,
    ObjectMetaOptions,
    ObjectStoreConfig,
)
from jetarrow.jetstream.models.stream_info import (
    ClusterInfo,
    LostStreamData,
    PeerInfo,
    StreamAlternate,
    StreamInfo,
    StreamsListIterator,
    StreamSourceInfo,
    StreamState,
)
from jetarrow.jetstream.models.streams import (
    DiscardPolicy,
    External,
    ExternalStream,
    PersistMode,
    Placement,
    RePublish,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamConsumerLimits,
    StreamConsumerSource,
    StreamSource,
    SubjectTransform,
)

__all__ = [
    "ACK_ALL",
    "ACK_EXPLICIT",
    "ACK_NONE",
    "DEFAULT_JS_SUB_PENDING_BYTES_LIMIT",
    "DEFAULT_JS_SUB_PENDING_MSGS_LIMIT",
    "DEFAULT_PREFIX",
    "DELIVER_ALL",
    "DELIVER_BY_START_SEQUENCE",
    "DELIVER_BY_START_TIME",
    "DELIVER_LAST",
    "DELIVER_LAST_PER_SUBJECT",
    "DELIVER_NEW",
    "INBOX_PREFIX",
    "REPLAY_INSTANT",
    "REPLAY_ORIGINAL",
    "SCHEDULE_DAILY",
    "SCHEDULE_HOURLY",
    "SCHEDULE_MONTHLY",
    "SCHEDULE_WEEKLY",
    "SCHEDULE_YEARLY",
    "APIStats",
    "AccountInfo",
    "AccountLimits",
    "AckKind",
    "AckPolicy",
    "Advisory",
    "AdvisoryKind",
    "Base",
    "ClusterInfo",
    "ConsumerConfig",
    "ConsumerInfo",
    "ConsumerPause",
    "ConsumerReset",
    "DeliverPolicy",
    "DiscardPolicy",
    "External",
    "ExternalStream",
    "Header",
    "KeyValueConfig",
    "LostStreamData",
    "ObjectInfo",
    "ObjectLink",
    "ObjectMeta",
    "ObjectMetaOptions",
    "ObjectStoreConfig",
    "PeerInfo",
    "PersistMode",
    "Placement",
    "PriorityGroupState",
    "PriorityPolicy",
    "PubAck",
    "RawStreamMsg",
    "RePublish",
    "ReplayPolicy",
    "RetentionPolicy",
    "SequenceInfo",
    "StatusCode",
    "StorageType",
    "StoreCompression",
    "StreamAlternate",
    "StreamConfig",
    "StreamConsumerLimits",
    "StreamConsumerSource",
    "StreamInfo",
    "StreamPurgeRequest",
    "StreamSource",
    "StreamSourceInfo",
    "StreamState",
    "StreamsListIterator",
    "SubjectTransform",
    "Tier",
]

DEFAULT_PREFIX = "$JS.API"
INBOX_PREFIX = b"_INBOX."

# What a push subscription may hold unread: messages, and bytes.
DEFAULT_JS_SUB_PENDING_MSGS_LIMIT = 512 * 1024
DEFAULT_JS_SUB_PENDING_BYTES_LIMIT = 256 * 1024 * 1024

DELIVER_ALL = "all"
DELIVER_LAST = "last"
DELIVER_NEW = "new"
DELIVER_BY_START_SEQUENCE = "by_start_sequence"
DELIVER_BY_START_TIME = "by_start_time"
DELIVER_LAST_PER_SUBJECT = "last_per_subject"

ACK_NONE = "none"
ACK_ALL = "all"
ACK_EXPLICIT = "explicit"

REPLAY_INSTANT = "instant"
REPLAY_ORIGINAL = "original"

# Values for Header.SCHEDULE, beside cron expressions, "@every 5m" and "@at <time>".
SCHEDULE_YEARLY = "@yearly"
SCHEDULE_MONTHLY = "@monthly"
SCHEDULE_WEEKLY = "@weekly"
SCHEDULE_DAILY = "@daily"
SCHEDULE_HOURLY = "@hourly"


class Header(StrEnum):
    """Names of the headers that JetStream reads or writes."""

    BATCH_COMMIT = "Nats-Batch-Commit"
    BATCH_ID = "Nats-Batch-Id"
    BATCH_SEQUENCE = "Nats-Batch-Sequence"
    CONSUMER_STALLED = "Nats-Consumer-Stalled"
    COUNTER_SOURCES = "Nats-Counter-Sources"
    DESCRIPTION = "Description"
    EXPECTED_LAST_MSG_ID = "Nats-Expected-Last-Msg-Id"
    EXPECTED_LAST_SEQUENCE = "Nats-Expected-Last-Sequence"
    EXPECTED_LAST_SUBJECT_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
    EXPECTED_STREAM = "Nats-Expected-Stream"
    INCR = "Nats-Incr"
    LAST_CONSUMER = "Nats-Last-Consumer"
    LAST_SEQUENCE = "Nats-Last-Sequence"
    LAST_STREAM = "Nats-Last-Stream"
    MARKER_REASON = "Nats-Marker-Reason"
    MSG_ID = "Nats-Msg-Id"
    MSG_SIZE = "Nats-Msg-Size"
    MSG_TTL = "Nats-TTL"
    NUM_PENDING = "Nats-Num-Pending"
    PENDING_BYTES = "Nats-Pending-Bytes"
    PENDING_MESSAGES = "Nats-Pending-Messages"
    PIN_ID = "Nats-Pin-Id"
    REQUIRED_API_LEVEL = "Nats-Required-Api-Level"
    ROLLUP = "Nats-Rollup"
    SCHEDULE = "Nats-Schedule"
    SCHEDULE_NEXT = "Nats-Schedule-Next"
    SCHEDULE_ROLLUP = "Nats-Schedule-Rollup"
    SCHEDULE_SOURCE = "Nats-Schedule-Source"
    SCHEDULE_TARGET = "Nats-Schedule-Target"
    SCHEDULE_TIME_ZONE = "Nats-Schedule-Time-Zone"
    SCHEDULE_TTL = "Nats-Schedule-TTL"
    SCHEDULER = "Nats-Scheduler"
    SEQUENCE = "Nats-Sequence"
    STATUS = "Status"
    STREAM = "Nats-Stream"
    STREAM_SOURCE = "Nats-Stream-Source"
    SUBJECT = "Nats-Subject"
    TIME_STAMP = "Nats-Time-Stamp"
    UP_TO_SEQUENCE = "Nats-UpTo-Sequence"


class StatusCode(StrEnum):
    """Values of the ``Status`` header."""

    SERVICE_UNAVAILABLE = "503"
    NO_MESSAGES = "404"
    REQUEST_TIMEOUT = "408"
    CONFLICT = "409"
    CONTROL_MESSAGE = "100"


class AckKind(Choices):
    """The ways to answer a message; the values are what goes to the server."""

    ACK = "+ACK"
    NAK = "-NAK"
    PROGRESS = "+WPI"
    TERM = "+TERM"


class AdvisoryKind(Choices):
    """The kinds of events that JetStream reports about itself."""

    API = "api_audit"
    STREAM_ACTION = "stream_action"
    CONSUMER_ACTION = "consumer_action"
    SNAPSHOT_CREATE = "snapshot_create"
    SNAPSHOT_COMPLETE = "snapshot_complete"
    RESTORE_CREATE = "restore_create"
    RESTORE_COMPLETE = "restore_complete"
    MAX_DELIVER = "max_deliver"
    TERMINATED = "terminated"
    ACK = "consumer_ack"
    STREAM_LEADER_ELECTED = "stream_leader_elected"
    STREAM_QUORUM_LOST = "stream_quorum_lost"
    CONSUMER_LEADER_ELECTED = "consumer_leader_elected"
    CONSUMER_QUORUM_LOST = "consumer_quorum_lost"
    MISSED_HEARTBEAT = "missed_heartbeat"
    # Second names of the same events.
    DELIVERY_EXCEEDED = "max_deliver"
    DELIVERY_TERMINATED = "terminated"

    @classmethod
    def _missing_(cls, value: object) -> Any:
        # Some descriptions of nats.js name the kinds by the subjects they come on.
        if isinstance(value, str) and value.startswith("$JS.EVENT."):
            last = value.rpartition(".")[2].lower()
            if last == "action":
                value = "_".join(value.lower().split(".")[-2:])
            else:
                value = {"max_deliveries": "max_deliver", "msg_terminated": "terminated"}.get(last, last)
        return super()._missing_(value)


@dataclass
class PubAck(Base):
    """The server's word that a message is stored.

    Parameters
    ----------
    stream, seq:
        Where it is stored.
    domain:
        The JetStream domain, if there is one.
    duplicate:
        True when this message id was stored before; ``seq`` is then the earlier one's.
    batch_id, batch_size:
        Id and size of the batch that it ended.
    val:
        The counter's value after it, as text, in counter streams.
    """

    _wire: ClassVar[dict[str, str]] = {"batch_id": "batch", "batch_size": "count"}

    stream: str
    seq: int
    domain: str | None = None
    duplicate: bool | None = None
    batch_id: str | None = None
    batch_size: int | None = None
    val: str | None = None


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

    Parameters
    ----------
    memory, storage, streams, consumers:
        What it uses.
    limits:
        What it may use.
    api:
        Its requests so far.
    domain:
        The JetStream domain, if there is one.
    tiers:
        The same by replication level (``R1``, ``R3``), where the account has such limits.
    reserved_memory, reserved_storage:
        What streams with ``max_bytes`` have set aside.
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


@dataclass
class RawStreamMsg(Base):
    """A message read from its stream without a consumer.

    Parameters
    ----------
    subject, seq, stream:
        Where it is stored.
    data:
        Its payload; None if it is empty.
    hdrs, headers, headers_all:
        Its headers: as they came (base64, not from a direct get), name to the last value, name to all values.
        None without headers.
    time:
        When it was stored, UTC, in microseconds; ``time_ns`` has all digits.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"time": Moment()}

    subject: str | None = None
    seq: int | None = None
    data: bytes | None = None
    hdrs: str | None = None
    headers: dict[str, Any] | None = None
    stream: str | None = None
    time: datetime | None = None
    headers_all: dict[str, list[str]] | None = None

    @property
    def sequence(self) -> int | None:
        """The same as ``seq``."""
        return self.seq

    @property
    def header(self) -> dict[str, Any] | None:
        """The same as ``headers``."""
        return self.headers

    @property
    def time_ns(self) -> int | None:
        """When it was stored, in nanoseconds since 1970."""
        raw = self._raw_time("time")
        return None if raw is None else epoch_ns(raw)


@dataclass
class StreamPurgeRequest(Base):
    """What to remove from a stream; ``seq`` and ``keep`` exclude each other.

    Parameters
    ----------
    seq:
        Remove what is before this sequence. Default: everything.
    filter:
        Only these subjects. Default: all.
    keep:
        Keep so many of the newest. Default: none.
    """

    seq: int | None = None
    filter: str | None = None
    keep: int | None = None


@dataclass
class Advisory(Base):
    """An event that JetStream reports about itself.

    Parameters
    ----------
    kind:
        What it is; a plain string where this version does not know the kind.
    type:
        The server's full name of it, for example ``io.nats.jetstream.advisory.v1.max_deliver``.
    id:
        The event's own id.
    timestamp:
        When it happened, UTC.
    stream, consumer:
        What it is about, where it is about one.
    data:
        All of it, as the server sent it.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"timestamp": Moment()}

    kind: Choice[AdvisoryKind] = Choice(AdvisoryKind)
    type: str = ""
    id: str = ""
    timestamp: datetime | None = None
    stream: str | None = None
    consumer: str | None = None
    data: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_response(cls, resp: Mapping[str, Any]) -> Advisory:
        """Read an event; its kind is the last part of its ``type``."""
        names = ("type", "id", "timestamp", "stream", "consumer")
        picked = {name: resp[name] for name in names if name in resp}
        return super().from_response(
            {**picked, "kind": str(resp.get("type", "")).rpartition(".")[2], "data": dict(resp)}
        )

"""Consumers: configuration and information. Public as ``jetarrow.js.api``."""

# ruff: noqa: RUF009  # Choice, Duration and the like are descriptors, not shared mutable defaults

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from jetarrow.jetstream.models.base import (
    Base,
    Choice,
    Choices,
    Codec,
    Duration,
    Durations,
    Moment,
    Nested,
    TimeText,
    epoch_ns,
)
from jetarrow.jetstream.models.stream_info import ClusterInfo


class AckPolicy(Choices):
    """What must be acknowledged: nothing, all up to a message at once, or every message.

    ``flow_control`` is for consumers through which another stream copies (ADR-60).
    """

    NONE = "none"
    ALL = "all"
    EXPLICIT = "explicit"
    FLOW_CONTROL = "flow_control"


class DeliverPolicy(Choices):
    """Where in the stream a new consumer starts."""

    ALL = "all"
    LAST = "last"
    NEW = "new"
    BY_START_SEQUENCE = "by_start_sequence"
    BY_START_TIME = "by_start_time"
    LAST_PER_SUBJECT = "last_per_subject"


class ReplayPolicy(Choices):
    """How fast stored messages come: as fast as possible, or at the pace they were published."""

    INSTANT = "instant"
    ORIGINAL = "original"


class PriorityPolicy(Choices):
    """How the clients of a priority group share a pull consumer. Server 2.11 or later; the last one 2.12."""

    NONE = "none"
    OVERFLOW = "overflow"
    PINNED_CLIENT = "pinned_client"
    PRIORITIZED = "prioritized"


@dataclass
class ConsumerConfig(Base):
    """How a consumer works. Durations are seconds or a timedelta; a number of 1e9 or more means nanoseconds.

    Parameters
    ----------
    name, durable_name, description:
        Its name; the same, for a consumer that stays when nobody uses it; a text for people. Default: the
        server makes up a name, and the consumer goes after ``inactive_threshold``.
    deliver_policy, opt_start_seq, opt_start_time:
        Where it starts; the sequence, or time, for the ``by_start_`` policies. The time is a datetime (naive:
        local time) or an RFC 3339 string. Default: at the stream's beginning.
    ack_policy, ack_wait, max_deliver, backoff, max_ack_pending:
        What is acknowledged, default ``explicit``; seconds until a message comes again, default 30; how often
        it comes, default without end; instead of ``ack_wait`` the seconds before each delivery; how many
        messages may be unacknowledged, default 1000, -1 for no limit.
    filter_subject, filter_subjects:
        One subject, or several that do not overlap; wildcards allowed. Default: all.
    replay_policy, rate_limit_bps:
        How fast messages come; bits per second, push only. Default: at once, without limit.
    sample_freq:
        How many of the acks are reported as events, for example ``"100%"``. Default: none.
    max_waiting:
        Pull: most requests that may wait at once. Default: 512.
    flow_control, idle_heartbeat:
        Push: whether the server waits for the client; seconds between signs of life. Default: no, none.
    headers_only:
        Leave the data out. Default: no.
    deliver_subject, deliver_group:
        Push: where messages go, and the queue group there. Default: a pull consumer.
    inactive_threshold:
        Seconds without use after which it is removed. Default: 5 for an ephemeral one, else never.
    num_replicas, mem_storage:
        Replicas of its state, and whether to hold it in memory. Default: as the stream.
    metadata:
        Texts by name, for your own use. Default: none.
    pause_until:
        Deliver nothing before this time; datetime or RFC 3339 string, kept as a string. Server 2.11 or later.
    max_request_batch, max_request_expires, max_request_max_bytes:
        Pull: most messages, seconds and bytes that one request may ask for. Default: no limit.
    priority_groups, priority_policy, priority_timeout:
        Pull: the group's name, how its clients share, and after how many idle seconds a pinned client is
        replaced. Server 2.11 or later. Default: none.
    """

    _wire: ClassVar[dict[str, str]] = {
        "max_request_batch": "max_batch",
        "max_request_expires": "max_expires",
        "max_request_max_bytes": "max_bytes",
    }

    name: str | None = None
    durable_name: str | None = None
    description: str | None = None
    deliver_policy: Choice[DeliverPolicy] = Choice(DeliverPolicy, DeliverPolicy.ALL)
    opt_start_seq: int | None = None
    opt_start_time: Moment = Moment()
    ack_policy: Choice[AckPolicy] = Choice(AckPolicy, AckPolicy.EXPLICIT)
    ack_wait: Duration = Duration()
    max_deliver: int | None = None
    backoff: Durations = Durations()
    filter_subject: str | None = None
    filter_subjects: list[str] | None = None
    replay_policy: Choice[ReplayPolicy] = Choice(ReplayPolicy, ReplayPolicy.INSTANT)
    rate_limit_bps: int | None = None
    sample_freq: str | None = None
    max_waiting: int | None = None
    max_ack_pending: int | None = None
    flow_control: bool | None = None
    idle_heartbeat: Duration = Duration()
    headers_only: bool | None = None
    deliver_subject: str | None = None
    deliver_group: str | None = None
    inactive_threshold: Duration = Duration()
    num_replicas: int | None = None
    mem_storage: bool | None = None
    metadata: dict[str, str] | None = None
    pause_until: TimeText = TimeText()
    max_request_batch: int | None = None
    max_request_expires: Duration = Duration()
    max_request_max_bytes: int | None = None
    priority_groups: list[str] | None = None
    priority_policy: Choice[PriorityPolicy] = Choice(PriorityPolicy)
    priority_timeout: Duration = Duration()

    def as_dict(self) -> dict[str, object]:
        """Convert to what the server's API takes; see ``Base.as_dict``."""
        result = super().as_dict()
        # Unset durations go as 0, so that an update can take them back.
        for name in ("ack_wait", "idle_heartbeat", "inactive_threshold"):
            result.setdefault(name, 0)
        return result


@dataclass
class SequenceInfo(Base):
    """A position: the consumer's own count, the stream's sequence, and when it last moved."""

    _codecs: ClassVar[dict[str, Codec]] = {"last_active": Moment()}

    consumer_seq: int
    stream_seq: int
    last_active: datetime | None = None


@dataclass
class PriorityGroupState(Base):
    """A priority group: its name, the id of the client pinned to it, and since when."""

    _codecs: ClassVar[dict[str, Codec]] = {"pinned_ts": Moment()}

    group: str
    pinned_client_id: str | None = None
    pinned_ts: datetime | None = None


@dataclass
class ConsumerInfo(Base):
    """A consumer as the server has it now.

    Parameters
    ----------
    name, stream_name, config:
        Its name, its stream, and how it is configured.
    created:
        When it was made, UTC, in microseconds; ``created_raw`` and ``created_ns`` have all digits.
    delivered, ack_floor:
        The last message delivered, and the last before which everything is acknowledged.
    num_ack_pending, num_redelivered, num_waiting, num_pending:
        Messages delivered and not acknowledged; delivered again; pull requests waiting; messages to come.
    cluster:
        Leader and replicas.
    push_bound:
        Push: whether somebody listens.
    paused, pause_remaining:
        Whether it is paused, and for how many nanoseconds more.
    ts:
        The server's time of this answer.
    priority_groups:
        State of its priority groups.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "config": Nested(ConsumerConfig),
        "created": Moment(),
        "delivered": Nested(SequenceInfo),
        "ack_floor": Nested(SequenceInfo),
        "cluster": Nested(ClusterInfo),
        "ts": Moment(),
        "priority_groups": Nested(PriorityGroupState),
    }

    name: str
    stream_name: str
    config: ConsumerConfig
    created: datetime
    delivered: SequenceInfo | None = None
    ack_floor: SequenceInfo | None = None
    num_ack_pending: int | None = None
    num_redelivered: int | None = None
    num_waiting: int | None = None
    num_pending: int | None = None
    cluster: ClusterInfo | None = None
    push_bound: bool | None = None
    paused: bool | None = None
    pause_remaining: int | None = None
    ts: datetime | None = None
    priority_groups: list[PriorityGroupState] | None = None

    @property
    def created_raw(self) -> str | None:
        """When the consumer was made, as RFC 3339 text with all its digits."""
        return self._raw_time("created")

    @property
    def created_ns(self) -> int | None:
        """When the consumer was made, in nanoseconds since 1970."""
        raw = self.created_raw
        return None if raw is None else epoch_ns(raw)


@dataclass
class ConsumerPause(Base):
    """The answer to a pause or resume: whether it is paused, until when (RFC 3339), nanoseconds left."""

    paused: bool
    pause_until: str | None = None
    pause_remaining: int | None = None


@dataclass
class ConsumerReset(Base):
    """The answer to a reset (ADR-60, server 2.14 or later).

    Parameters
    ----------
    info:
        The consumer after it.
    reset_seq:
        The stream sequence at which it goes on.
    """

    info: ConsumerInfo
    reset_seq: int

    @classmethod
    def from_response(cls, resp: Mapping[str, Any]) -> ConsumerReset:
        """Read it out of the server's answer: the consumer's information with ``reset_seq`` added."""
        rest = dict(resp)
        return cls(reset_seq=rest.pop("reset_seq"), info=ConsumerInfo.from_response(rest))

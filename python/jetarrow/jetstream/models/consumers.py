"""Consumers: configuration and information. Public as `jetarrow.js.api`."""

# ruff: noqa: RUF009  # Choice, Duration and the like are descriptors, not shared mutable defaults

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from jetarrow.jetstream import html
from jetarrow.jetstream.models.aliases import aliased
from jetarrow.jetstream.models.base import Base, Choice, Codec, Duration, Durations, Moment, Nested, Texts, TimeText
from jetarrow.jetstream.models.stream_info import ClusterInfo
from jetarrow.jetstream.models.values import Choices, epoch_ns


class AckPolicy(Choices):
    """What must be acknowledged: nothing, all up to a message at once, or every message.

    `flow_control` is for consumers through which another stream copies (ADR-60).
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


@aliased(opt_start_sequence="opt_start_seq", rate_limit="rate_limit_bps", max_pull_waiting="max_waiting")
@dataclass
class ConsumerConfig(Base):
    """How a consumer works. Durations are seconds or a timedelta; a number of 1e9 or more means nanoseconds.

    `opt_start_sequence`, `rate_limit` and `max_pull_waiting` are other names of `opt_start_seq`, `rate_limit_bps` and
    `max_waiting`.

    Attributes:
        name: Its name. Default: the server makes one up.
        durable_name: Its name, for a consumer that stays while it is not used. Default: none, the consumer goes after
            `inactive_threshold`.
        description: A text for people. Default: none.
        deliver_policy: Where it starts. Default: at the stream's beginning.
        opt_start_seq: The sequence for `by_start_sequence`.
        opt_start_time: The time for `by_start_time`: a datetime (naive: local time) or an RFC 3339 string.
        ack_policy: What is acknowledged. Default: `explicit`.
        ack_wait: Seconds (or a timedelta) until a message that is not acknowledged comes again. Default: 30.
        max_deliver: How often a message comes. Default: without end.
        backoff: Seconds (or timedeltas) before each further delivery, instead of `ack_wait`. Default: none.
        max_ack_pending: Most messages that may be unacknowledged; -1 is no limit. Default: 1000.
        filter_subject: The subject that it delivers; wildcards allowed. Default: all.
        filter_subjects: Several subjects instead, which do not overlap; wildcards allowed. Default: all.
        replay_policy: How fast messages come. Default: at once.
        rate_limit_bps: Push: most bits per second. Default: no limit.
        sample_freq: How many of the acks are reported as events, for example `"100%"`. Default: none.
        max_waiting: Pull: most requests that may wait at once. Default: 512.
        flow_control: Push: whether the server waits for the client. Default: no.
        idle_heartbeat: Push: seconds (or a timedelta) between signs of life while there is nothing. Default: none.
        headers_only: Leave the data out. Default: no.
        deliver_subject: Push: the subject that messages go to. Default: none, a pull consumer.
        deliver_group: Push: the queue group there. Default: none.
        inactive_threshold: Seconds without use after which it is removed. Default: 5 for an ephemeral one, else never.
        num_replicas: How many servers keep its state. Default: as the stream.
        mem_storage: Whether its state is kept in memory. Default: as the stream.
        metadata: Texts by name, for your own use. Default: none.
        pause_until: Deliver nothing before this time; datetime or RFC 3339 string, kept as a string. Server 2.11 or
            later.
        max_request_batch: Pull: most messages that one request may ask for. Default: no limit.
        max_request_expires: Pull: most seconds (or a timedelta) that one request may wait. Default: no limit.
        max_request_max_bytes: Pull: most bytes that one request may ask for. Default: no limit.
        priority_groups: Pull: the name of its priority group, in a list. Server 2.11 or later. Default: none.
        priority_policy: Pull: how the clients of the group share. Server 2.11 or later. Default: none.
        priority_timeout: Pull: seconds (or a timedelta) of idleness after which a pinned client is replaced. Server
            2.11 or later. Default: the server's.
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
    filter_subjects: Texts = Texts()
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
    if TYPE_CHECKING:  # what `aliased` adds, for type checkers
        opt_start_sequence: int | None = None
        rate_limit: int | None = None
        max_pull_waiting: int | None = None

    def as_dict(self) -> dict[str, object]:
        """Convert to what the server's API takes; see `Base.as_dict`."""
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

    Attributes:
        name: Its name.
        stream_name: Its stream's name.
        config: How it is configured.
        created: When it was made, UTC, in microseconds; `created_raw` and `created_ns` have all digits.
        delivered: The last message delivered.
        ack_floor: The last message up to which everything is acknowledged.
        num_ack_pending: Messages that were delivered and are not acknowledged.
        num_redelivered: Messages that were delivered again.
        num_waiting: Pull requests that wait.
        num_pending: Messages that are still to come.
        cluster: Leader and replicas.
        push_bound: Push: whether somebody listens.
        paused: Whether it is paused.
        pause_remaining: For how many nanoseconds more.
        ts: The server's time of this answer.
        priority_groups: State of its priority groups.
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
    # Two answers that tell the same are equal.
    ts: datetime | None = field(default=None, compare=False)
    priority_groups: list[PriorityGroupState] | None = None

    @classmethod
    def from_response(cls, resp: Mapping[str, Any]) -> ConsumerInfo:
        """Read the information out of a server's answer; see `Base.from_response`.

        Args:
            resp: The decoded JSON.

        Returns:
            The information. The name that the server gave to a consumer is in its configuration, too.
        """
        info = super().from_response(resp)
        if info.config is not None and info.config.name is None:
            info.config.name = info.name
        return info

    @property
    def created_raw(self) -> str | None:
        """When the consumer was made, as RFC 3339 text with all its digits."""
        return self._raw_time("created")

    @property
    def created_ns(self) -> int | None:
        """When the consumer was made, in nanoseconds since 1970."""
        raw = self.created_raw
        return None if raw is None else epoch_ns(raw)

    def _repr_html_(self) -> str:
        config = self.config
        filters = config.filter_subjects or ([config.filter_subject] if config.filter_subject else [])
        said = {
            "kind": "push" if config.deliver_subject else "pull",
            "filters": ", ".join(filters) or None,
            "still to come": self.num_pending,
            "not acknowledged": self.num_ack_pending,
            "delivered again": self.num_redelivered,
            "acknowledged up to": self.ack_floor.stream_seq if self.ack_floor else None,
            "paused": self.paused,
            "created": self.created,
        }
        return html.facts(f"Consumer {self.name} of stream {self.stream_name}", said)


@dataclass
class ConsumerPause(Base):
    """The answer to a pause or resume: whether it is paused, until when (RFC 3339), nanoseconds left."""

    paused: bool
    pause_until: str | None = None
    pause_remaining: int | None = None


@dataclass
class ConsumerReset(Base):
    """The answer to a reset (ADR-60, server 2.14 or later).

    Attributes:
        info: The consumer after it.
        reset_seq: The stream sequence at which it goes on.
    """

    info: ConsumerInfo
    reset_seq: int

    @classmethod
    def from_response(cls, resp: Mapping[str, Any]) -> ConsumerReset:
        """Read it out of the server's answer: the consumer's information with `reset_seq` added."""
        rest = dict(resp)
        return cls(reset_seq=rest.pop("reset_seq"), info=ConsumerInfo.from_response(rest))

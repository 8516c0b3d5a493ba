"""Configuration and state of consumers. Public as `jetarrow.nats.jetstream.consumer`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Self, TypeAlias

from jetarrow.nats.jetstream.wire import Request, Response, construct, decode

AckPolicy: TypeAlias = Literal["none", "all", "explicit", "flow_control"]
DeliverPolicy: TypeAlias = Literal["all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"]
ReplayPolicy: TypeAlias = Literal["instant", "original"]


@dataclass
class ConsumerConfig(Request):
    """Configuration of a consumer. None is the server's default.

    Attributes:
        ack_policy: "none", "all", "explicit" or "flow_control".
        deliver_policy: The first message: "all", "last", "new", "by_start_sequence", "by_start_time" or
            "last_per_subject".
        replay_policy: "instant", or "original" for the rate at which messages were published.
        ack_wait: Time after which an unacknowledged message is delivered again.
        backoff: Nanoseconds before each redelivery, in place of `ack_wait`.
        deliver_group: Queue group of a push consumer.
        deliver_subject: Subject of a push consumer.
        description: Free text.
        direct: For the server's own use.
        durable_name: Name of a durable consumer; `name` without `inactive_threshold` is durable too.
        filter_subject: Subject that is delivered, wildcards allowed. Default: all.
        filter_subjects: Subjects that are delivered.
        flow_control: The server limits the rate of a push consumer.
        headers_only: Delivers no payloads; the header `Nats-Msg-Size` has their size.
        idle_heartbeat: Interval of the heartbeats of a push consumer.
        inactive_threshold: Time after which an inactive consumer is removed.
        max_ack_pending: Maximum number of unacknowledged messages.
        max_batch: Maximum number of messages of a pull request.
        max_bytes: Maximum size in bytes of a pull request.
        max_deliver: Maximum number of deliveries of a message.
        max_expires: Maximum time of a pull request.
        max_waiting: Maximum number of pull requests.
        mem_storage: Keeps the state in memory.
        metadata: Free texts by name.
        name: The consumer's name.
        num_replicas: Number of servers that store the state. Default: as the stream.
        opt_start_seq: Sequence of the first message, with "by_start_sequence".
        opt_start_time: Time of the first message, with "by_start_time".
        pause_until: Time until which nothing is delivered.
        priority_groups: Names of the priority groups.
        priority_policy: "none", "overflow", "pinned_client" or "prioritized".
        priority_timeout: Nanoseconds, or a timedelta, after which an inactive pinned client is unpinned.
        rate_limit_bps: Maximum rate of a push consumer in bits per second.
        sample_freq: Percentage of acknowledgements that are published as advisories.
    """

    _implied: ClassVar[Mapping[str, str]] = {
        "ack_policy": "none",
        "deliver_policy": "all",
        "replay_policy": "instant",
    }

    ack_policy: AckPolicy = "none"
    deliver_policy: DeliverPolicy = "all"
    replay_policy: ReplayPolicy = "instant"
    ack_wait: timedelta | None = None
    backoff: list[int] | None = None
    deliver_group: str | None = None
    deliver_subject: str | None = None
    description: str | None = None
    direct: bool | None = None
    durable_name: str | None = None
    filter_subject: str | None = None
    filter_subjects: list[str] | None = None
    flow_control: bool | None = None
    headers_only: bool | None = None
    idle_heartbeat: timedelta | None = None
    inactive_threshold: timedelta | None = None
    max_ack_pending: int | None = None
    max_batch: int | None = None
    max_bytes: int | None = None
    max_deliver: int | None = None
    max_expires: timedelta | None = None
    max_waiting: int | None = None
    mem_storage: bool | None = None
    metadata: dict[str, str] | None = None
    name: str | None = None
    num_replicas: int | None = None
    opt_start_seq: int | None = None
    opt_start_time: datetime | None = None
    pause_until: datetime | None = None
    priority_groups: list[str] | None = None
    priority_policy: str | None = None
    priority_timeout: Any | None = None
    rate_limit_bps: int | None = None
    sample_freq: str | None = None

    @classmethod
    def from_response(cls, config: Mapping[str, Any], *, strict: bool = False) -> Self:
        """Decodes a configuration of a response.

        Args:
            config: The decoded JSON; it is not changed.
            strict: Raises for keys that are not fields. Default: False, which ignores them.

        Raises:
            ValueError: `strict`, and a key is unknown.
        """
        return decode(cls, config, strict)

    @classmethod
    def from_kwargs(cls, **kwargs: Any) -> Self:
        """Makes a configuration of keyword arguments.

        Args:
            **kwargs: The fields.

        Raises:
            TypeError: An unknown field.
        """
        return construct(cls, kwargs)


@dataclass
class ConsumerInfo(Response):
    """Configuration and state of a consumer.

    Attributes:
        stream_name: The stream's name.
        name: The consumer's name.
        config: Its configuration.
        created: Time of its creation.
        delivered: Sequences of the last delivered message: `consumer_seq`, `stream_seq`.
        ack_floor: Sequences up to which every message is acknowledged.
        num_ack_pending: Number of unacknowledged messages.
        num_redelivered: Number of unacknowledged messages that were delivered more than once.
        num_waiting: Number of pull requests.
        num_pending: Number of messages that are not delivered yet.
        cluster: Its replicas, as the server sends them.
        push_bound: Whether a client is subscribed to the subject of a push consumer.
        timestamp: Time of the response.
        priority_groups: States of the priority groups, as the server sends them.
        paused: Whether it is paused.
        pause_remaining: Time until the end of the pause.
    """

    _keys: ClassVar[Mapping[str, str]] = {"timestamp": "ts"}
    _envelope: ClassVar[frozenset[str]] = frozenset({"type"})

    stream_name: str
    name: str
    config: ConsumerConfig
    created: datetime
    delivered: dict[str, int]
    ack_floor: dict[str, int]
    num_ack_pending: int
    num_redelivered: int
    num_waiting: int
    num_pending: int
    cluster: dict[str, Any] | None = None
    push_bound: bool | None = None
    timestamp: datetime | None = None
    priority_groups: list[dict[str, Any]] | None = None
    paused: bool | None = None
    pause_remaining: timedelta | None = None


@dataclass
class ConsumerReset(Response):
    """A consumer after a reset (ADR-60).

    Attributes:
        info: Its state.
        reset_seq: Sequence of the stream at or above which the next message is.
    """

    info: ConsumerInfo
    reset_seq: int

    @classmethod
    def from_response(cls, data: Mapping[str, Any], *, strict: bool = False) -> Self:
        """Decodes the response to a reset.

        Args:
            data: The decoded JSON; it is not changed.
            strict: Raises for keys that are not fields. Default: False, which ignores them.

        Raises:
            KeyError: A required key is missing.
            ValueError: `strict`, and a key is unknown.
        """
        info = {key: value for key, value in data.items() if key != "reset_seq"}
        return cls(reset_seq=data["reset_seq"], info=ConsumerInfo.from_response(info, strict=strict))


@dataclass
class OrderedConsumerConfig:
    """Configuration of an ordered consumer. None is the server's default.

    Attributes:
        filter_subjects: Subjects that are delivered, wildcards allowed. Default: all.
        deliver_policy: The first message, as in `ConsumerConfig`.
        opt_start_seq: Sequence of the first message, with "by_start_sequence".
        opt_start_time: Time of the first message, with "by_start_time".
        replay_policy: "instant" or "original".
        inactive_threshold: Time after which the server removes the consumer if it is inactive. Default: 5 minutes.
        headers_only: Delivers no payloads.
        max_reset_attempts: Attempts to create the consumer again after a failure. Default: no limit.
        metadata: Free texts by name.
        name_prefix: Prefix of the consumers' names. Default: a random one.
    """

    filter_subjects: list[str] | None = None
    deliver_policy: DeliverPolicy = "all"
    opt_start_seq: int | None = None
    opt_start_time: datetime | None = None
    replay_policy: ReplayPolicy = "instant"
    inactive_threshold: timedelta | None = None
    headers_only: bool | None = None
    max_reset_attempts: int | None = None
    metadata: dict[str, str] | None = None
    name_prefix: str | None = None

    @classmethod
    def from_kwargs(cls, **kwargs: Any) -> Self:
        """Makes a configuration of keyword arguments.

        Args:
            **kwargs: The fields.

        Raises:
            TypeError: An unknown field.
        """
        return cls(**kwargs)

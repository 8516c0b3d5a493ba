"""Streams: configuration. Public as `jetarrow.js.api`."""

# ruff: noqa: RUF009  # Choice, Duration and the like are descriptors, not shared mutable defaults

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from jetarrow.core.suggestions import suggests_fields
from jetarrow.jetstream.models.aliases import Short, aliased
from jetarrow.jetstream.models.base import Base, Choice, Codec, Duration, Moment, Nested, Texts
from jetarrow.jetstream.models.values import Choices, checked_name

# The API prefix of a domain.
_DOMAIN = re.compile(r"\$JS\.([^.]+)\.API")


class RetentionPolicy(Choices):
    """When a stream deletes messages: at its limits, when no consumer is interested, or when acknowledged."""

    LIMITS = "limits"
    INTEREST = "interest"
    WORK_QUEUE = "workqueue"


class StorageType(Choices):
    """Storage of a stream's messages; `memory` is lost when the server stops."""

    FILE = "file"
    MEMORY = "memory"


class DiscardPolicy(Choices):
    """Action of a full stream: delete its oldest messages, or reject new ones."""

    OLD = "old"
    NEW = "new"


class StoreCompression(Choices):
    """Compression of a file stream on disk. Server 2.10 or later."""

    NONE = "none"
    S2 = "s2"

    @classmethod
    def _refusal(cls, value: object) -> str:
        return f"invalid store compression type: {value}"


class PersistMode(Choices):
    """When a stream acknowledges: after writing, or (`async`, one replica only) before. Server 2.12.

    With `async` an acknowledged message can be lost in a crash, and batches are rejected.
    """

    DEFAULT = "default"
    ASYNC = "async"


@suggests_fields
@dataclass
class Placement(Base):
    """Constraints on the servers that store a stream.

    Attributes:
        cluster: Name of the cluster. Default: any.
        tags: Tags that a server must have, all of them. Default: none.
        preferred: Name of the preferred leader, used by leader step-down requests. Default: any.
    """

    cluster: str | None = None
    tags: list[str] | None = None
    preferred: str | None = None


@suggests_fields
@dataclass
class ExternalStream(Base):
    """A stream of another account or domain.

    Attributes:
        api: API prefix of the other side, for example `$JS.hub.API`.
        deliver: Prefix of the subjects that deliver here. Default: none.
    """

    api: str
    deliver: str | None = None

    @classmethod
    def of_domain(cls, name: str) -> ExternalStream:
        """The location of the streams of a JetStream domain.

        Args:
            name: The domain.

        Raises:
            ValueError: It is not one token.
        """
        return cls(api=f"$JS.{checked_name('domain', name)}.API")

    @property
    def domain(self) -> str | None:
        """The JetStream domain, if `api` is the prefix of one."""
        match = _DOMAIN.fullmatch(self.api or "")
        return match and match[1]


External = ExternalStream


@suggests_fields
@dataclass
class SubjectTransform(Base):
    """A rewrite of the subjects of messages.

    Attributes:
        src: Pattern of the subjects to rewrite, for example `orders.*`.
        dest: The new subject, for example `archive.{{wildcard(1)}}`.
    """

    src: str
    dest: str


@suggests_fields
@dataclass
class StreamConsumerSource(Base):
    """An existing push consumer, through which a work-queue or interest stream is sourced (ADR-60).

    Attributes:
        name: The consumer's name.
        deliver_subject: The subject it delivers to.
    """

    name: str
    deliver_subject: str


@aliased(
    domain=Short("external", ExternalStream.of_domain, lambda external: external.domain),
    opt_start_sequence="opt_start_seq",
)
@suggests_fields
@dataclass
class StreamSource(Base):
    """A stream to copy messages from.

    Attributes:
        name: The name of the stream to copy.
        opt_start_seq: First sequence to copy. Default: all.
        opt_start_time: Time of the first message to copy; datetime (naive: local time) or RFC 3339 string. Default:
            all.
        filter_subject: Copy only these subjects. Default: all.
        external: The location of the stream, if it is in another account or domain. Default: this one.
        domain: The JetStream domain of the stream, a short form of `external`. Default: this one.
        subject_transforms: Rewrites of the subjects of copied messages. Default: none.
        consumer: The consumer to use, for work-queue and interest streams. Default: one that the server creates.
        opt_start_sequence: Another name for `opt_start_seq`.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "external": Nested(ExternalStream),
        "subject_transforms": Nested(SubjectTransform),
        "consumer": Nested(StreamConsumerSource),
    }

    name: str
    opt_start_seq: int | None = None
    opt_start_time: Moment = Moment()
    filter_subject: str | None = None
    external: ExternalStream | None = None
    subject_transforms: list[SubjectTransform] | None = None
    consumer: StreamConsumerSource | None = None
    if TYPE_CHECKING:  # the attributes that `aliased` adds, for type checkers
        domain: str | None = None
        opt_start_sequence: int | None = None


@suggests_fields
@dataclass
class RePublish(Base):
    """Publishing of stored messages on another subject.

    Attributes:
        src: Subjects of the messages to publish. Default: all.
        dest: The subject to publish on; may use the wildcards of `src`.
        headers_only: Publish messages without their payloads. Default: no.
    """

    src: str | None = None
    dest: str | None = None
    headers_only: bool | None = None


@suggests_fields
@dataclass
class StreamConsumerLimits(Base):
    """Limits and defaults for the consumers of a stream. Server 2.10 or later.

    Attributes:
        inactive_threshold: Seconds (or a timedelta) after which an unused consumer is removed. Default: no limit.
        max_ack_pending: Most messages that one consumer may have unacknowledged. Default: no limit.
    """

    inactive_threshold: Duration = Duration()
    max_ack_pending: int | None = None


@aliased(
    max_messages="max_msgs",
    max_messages_per_stream="max_msgs",
    max_messages_per_subject="max_msgs_per_subject",
    first_sequence="first_seq",
)
@suggests_fields
@dataclass
class StreamConfig(Base):
    """Configuration of a stream. Durations are seconds or a timedelta; a number of 1e9 or more means nanoseconds.

    `max_messages` (and `max_messages_per_stream`), `max_messages_per_subject` and `first_sequence` are other names of
    `max_msgs`, `max_msgs_per_subject` and `first_seq`.

    Attributes:
        name: Its name: letters, digits, `-` and `_`.
        description: A description for people. Default: none.
        subjects: Subjects that it stores, one or several; wildcards allowed. Default: its name; none for a mirror.
        retention: When the server deletes messages. Default: at the limits.
        max_consumers: Most consumers; -1 is no limit. Default: no limit.
        max_msgs: Most messages; -1 is no limit. Default: no limit.
        max_bytes: Most bytes of all messages; -1 is no limit. Default: no limit.
        max_age: Seconds (or a timedelta) after which a message is deleted; 0 is no limit. Default: no limit.
        max_msgs_per_subject: Most messages of one subject; -1 is no limit. Default: no limit.
        max_msg_size: Most bytes of one message; -1 is no limit. Default: no limit.
        discard: Action at a limit: delete `old` messages, or reject `new` ones. Default: `old`.
        discard_new_per_subject: With `new`: whether `max_msgs_per_subject` rejects too. Default: False.
        storage: Storage of messages. Default: in files.
        num_replicas: Number of replicas. Default: 1.
        placement: Servers that may store it. Default: any.
        compression: Compression of files. Default: none.
        persist_mode: Whether a message is acknowledged after or before it is written. Default: after.
        no_ack: Publishes are not acknowledged. Default: False.
        template_owner: Accepted for compatibility with nats-py; servers ignore it.
        duplicate_window: Seconds for which message ids are remembered. Default: 0, two minutes by the server.
        mirror: The stream that it mirrors. Default: none.
        sources: The streams that it copies from. Default: none.
        sealed: Messages can be neither added nor deleted. Default: False.
        deny_delete: Messages may not be deleted. Default: False.
        deny_purge: It may not be purged. Default: False.
        allow_rollup_hdrs: Whether the header `Nats-Rollup` may replace earlier messages. Default: False.
        first_seq: Sequence of the first message. Default: 1.
        republish: Subjects on which stored messages are published again. Default: none.
        subject_transform: Transform of the subjects of incoming messages. Default: none.
        allow_direct: Whether any replica may answer direct gets. Default: the server decides.
        mirror_direct: Whether a mirror may answer direct gets too. Default: the server decides.
        allow_msg_ttl: Whether messages may have their own time to live. Server 2.11 or later. Default: no.
        subject_delete_marker_ttl: Seconds (or a timedelta) that a marker is kept after the last message of a subject
            expired. Server 2.11 or later. Default: no markers.
        allow_msg_schedules: Whether it accepts scheduled messages. Server 2.12 or later. Default: no.
        allow_atomic: Whether it accepts atomic batches. Server 2.12 or later. Default: no.
        allow_batched: Whether it accepts fast batches. Server 2.14 or later. Default: no.
        allow_msg_counter: Whether its subjects are counters. Server 2.12 or later. Default: no.
        metadata: Key-value pairs for the application. Default: none.
        consumer_limits: Limits for its consumers. Default: none.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "placement": Nested(Placement),
        "mirror": Nested(StreamSource),
        "sources": Nested(StreamSource),
        "republish": Nested(RePublish),
        "subject_transform": Nested(SubjectTransform),
        "consumer_limits": Nested(StreamConsumerLimits),
    }

    name: str | None = None
    description: str | None = None
    subjects: Texts = Texts()
    retention: Choice[RetentionPolicy] = Choice(RetentionPolicy)
    max_consumers: int | None = None
    max_msgs: int | None = None
    max_bytes: int | None = None
    discard: Choice[DiscardPolicy] = Choice(DiscardPolicy, DiscardPolicy.OLD)
    discard_new_per_subject: bool = False
    max_age: Duration = Duration()
    max_msgs_per_subject: int = -1
    max_msg_size: int | None = -1
    storage: Choice[StorageType] = Choice(StorageType)
    num_replicas: int | None = None
    no_ack: bool = False
    template_owner: str | None = None
    duplicate_window: Duration = Duration(0)
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] | None = None
    sealed: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    allow_rollup_hdrs: bool = False
    first_seq: int | None = None
    republish: RePublish | None = None
    subject_transform: SubjectTransform | None = None
    allow_direct: bool | None = None
    mirror_direct: bool | None = None
    compression: Choice[StoreCompression] = Choice(StoreCompression)
    allow_msg_ttl: bool | None = None
    allow_msg_schedules: bool | None = None
    allow_atomic: bool | None = None
    allow_batched: bool | None = None
    allow_msg_counter: bool | None = None
    persist_mode: Choice[PersistMode] = Choice(PersistMode)
    metadata: dict[str, str] | None = None
    consumer_limits: StreamConsumerLimits | None = None
    subject_delete_marker_ttl: Duration = Duration()
    if TYPE_CHECKING:  # the attributes that `aliased` adds, for type checkers
        max_messages: int | None = None
        max_messages_per_stream: int | None = None
        max_messages_per_subject: int = -1
        first_sequence: int | None = None

    def as_dict(self) -> dict[str, object]:
        """Convert to JSON of the server's API; see `Base.as_dict`.

        Raises:
            ValueError: `metadata` is not a dict.
        """
        if self.metadata is not None and not isinstance(self.metadata, dict):
            raise ValueError(f"nats: invalid metadata format: a dict of texts, not {type(self.metadata).__name__}")
        result = super().as_dict()
        # Unset durations are sent as 0, so that an update can reset them ...
        result.setdefault("max_age", 0)
        result.setdefault("duplicate_window", 0)
        # ... but the server rejects 0 for this one.
        if (self.subject_delete_marker_ttl or 0) <= 0:
            result.pop("subject_delete_marker_ttl", None)
        return result

"""Configuration of streams. Public as `jetarrow.nats.jetstream.stream`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Self, TypeAlias

from jetarrow.nats.jetstream.wire import Request, construct, decode

RetentionPolicy: TypeAlias = Literal["limits", "interest", "workqueue"]
StorageType: TypeAlias = Literal["file", "memory"]
DiscardPolicy: TypeAlias = Literal["old", "new"]
CompressionType: TypeAlias = Literal["none", "s2"]
PersistMode: TypeAlias = Literal["default", "async"]


@dataclass
class ExternalStreamSource(Request):
    """Location of a stream in another account or domain.

    Attributes:
        api: Prefix of the subjects under which the other JetStream API is imported.
        deliver: Prefix of the subjects on which the other account delivers messages.
    """

    api: str
    deliver: str | None = None


@dataclass
class SubjectTransform(Request):
    """Rewrite of subjects: those that match `src` become `dest`."""

    src: str
    dest: str


@dataclass
class StreamConsumerSource(Request):
    """A durable push consumer through which a stream is copied (ADR-60); for interest and workqueue streams.

    Attributes:
        name: The consumer's name.
        deliver_subject: The subject on which it delivers.
    """

    name: str
    deliver_subject: str


@dataclass
class StreamSource(Request):
    """Another stream that is copied, as a mirror or as one of several sources.

    Attributes:
        name: The other stream's name.
        opt_start_seq: First sequence that is copied.
        opt_start_time: Time of the first message that is copied; text (RFC 3339) in responses.
        filter_subject: Subjects that are copied. Default: all.
        external: The location of the other stream, in another account or domain.
        subject_transforms: Rewrites of subjects: a list of dicts with `src` and `dest`, or of `SubjectTransform`.
        consumer: The consumer through which it is copied.
    """

    name: str
    opt_start_seq: int | None = None
    opt_start_time: str | datetime | None = None
    filter_subject: str | None = None
    external: ExternalStreamSource | None = None
    subject_transforms: Any | None = None
    consumer: StreamConsumerSource | None = None


@dataclass
class Placement(Request):
    """Servers on which a stream may be placed: a cluster's name, tags that all servers must have."""

    cluster: str | None = None
    tags: list[str] | None = None


@dataclass
class Republish(Request):
    """Publication of stored messages under other subjects.

    Attributes:
        src: Subjects that are republished.
        dest: The subject under which they are published.
        headers_only: Publishes no payloads.
    """

    src: str
    dest: str
    headers_only: bool | None = None


@dataclass
class StreamConsumerLimits(Request):
    """Maxima, and defaults, of the options of a stream's consumers.

    Attributes:
        inactive_threshold: Time after which an inactive consumer is removed.
        max_ack_pending: Number of unacknowledged messages.
    """

    inactive_threshold: timedelta | None = None
    max_ack_pending: int | None = None


@dataclass
class StreamConfig(Request):
    """Configuration of a stream. None is the server's default; of a limit, no limit.

    Attributes:
        num_replicas: Number of servers that store each message.
        retention: "limits", "interest" or "workqueue".
        storage: "file" or "memory".
        max_age: Maximum age of messages.
        max_bytes: Maximum size of all messages in bytes.
        max_consumers: Maximum number of consumers.
        max_msgs: Maximum number of messages.
        allow_atomic: Accepts atomic batches (ADR-50).
        allow_batched: Accepts fast batches (ADR-50).
        allow_direct: Any replica answers requests for single messages.
        allow_msg_counter: Makes the stream a counter (ADR-49); it rejects other messages.
        allow_msg_schedules: Accepts scheduled messages (ADR-51).
        allow_msg_ttl: Messages may have a time to live.
        allow_rollup_hdrs: The header `Nats-Rollup` may replace earlier messages.
        compression: "none" or "s2".
        deny_delete: Rejects deletion of single messages; cannot be unset.
        deny_purge: Rejects purges; cannot be unset.
        description: Free text.
        discard: "old" removes messages at a limit, "new" rejects new ones.
        discard_new_per_subject: `discard="new"` also applies to `max_msgs_per_subject`.
        duplicate_window: Time in which messages with an equal id are duplicates.
        first_seq: Sequence of the first message.
        max_msg_size: Maximum size of a message in bytes.
        max_msgs_per_subject: Maximum number of messages of each subject.
        metadata: Free texts by name.
        mirror: The stream of which this one is a copy; `subjects` and `sources` are None.
        mirror_direct: The mirror also answers requests for single messages of the other stream.
        name: The stream's name.
        no_ack: Does not acknowledge published messages.
        persist_mode: "async" acknowledges messages before they are synced to disk (ADR-56), with one replica.
        placement: Servers on which the stream may be placed.
        republish: Publication of stored messages under other subjects.
        sealed: Rejects every change of messages; set by an update, cannot be unset.
        sources: Streams that are copied into this one.
        subject_delete_marker_ttl: Time to live of the markers of removed subjects.
        subject_transform: Rewrite of the subjects of stored messages.
        subjects: Subjects whose messages are stored, wildcards allowed.
        template_owner: The template that made the stream.
        consumer_limits: Maxima, and defaults, of the options of consumers.
    """

    _unlimited: ClassVar[Mapping[str, int]] = {
        "max_age": 0,
        "max_bytes": -1,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_msg_size": -1,
    }

    num_replicas: int = 1
    retention: RetentionPolicy = "limits"
    storage: StorageType = "file"
    max_age: timedelta | None = None
    max_bytes: int | None = None
    max_consumers: int | None = None
    max_msgs: int | None = None
    allow_atomic: bool | None = None
    allow_batched: bool | None = None
    allow_direct: bool | None = None
    allow_msg_counter: bool | None = None
    allow_msg_schedules: bool | None = None
    allow_msg_ttl: bool | None = None
    allow_rollup_hdrs: bool | None = None
    compression: CompressionType | None = None
    deny_delete: bool | None = None
    deny_purge: bool | None = None
    description: str | None = None
    discard: DiscardPolicy | None = None
    discard_new_per_subject: bool | None = None
    duplicate_window: timedelta | None = None
    first_seq: int | None = None
    max_msg_size: int | None = None
    max_msgs_per_subject: int | None = None
    metadata: dict[str, str] | None = None
    mirror: StreamSource | None = None
    mirror_direct: bool | None = None
    name: str | None = None
    no_ack: bool | None = None
    persist_mode: PersistMode | None = None
    placement: Placement | None = None
    republish: Republish | None = None
    sealed: bool | None = None
    sources: list[StreamSource] | None = None
    subject_delete_marker_ttl: timedelta | None = None
    subject_transform: SubjectTransform | None = None
    subjects: list[str] | None = None
    template_owner: str | None = None
    consumer_limits: StreamConsumerLimits | None = None

    @classmethod
    def from_kwargs(cls, **kwargs: Any) -> Self:
        """Makes a configuration of keyword arguments.

        Args:
            **kwargs: The fields; a dict in place of a nested dataclass is converted.

        Raises:
            TypeError: An unknown field.
        """
        return construct(cls, kwargs)

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

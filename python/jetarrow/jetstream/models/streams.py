"""Streams: configuration. Public as ``jetarrow.js.api``."""

# ruff: noqa: RUF009  # Choice, Duration and the like are descriptors, not shared mutable defaults

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jetarrow.jetstream.models.base import Base, Choice, Choices, Codec, Duration, Moment, Nested


class RetentionPolicy(Choices):
    """When a stream lets go of messages: at its limits, when nobody is interested, or once acknowledged."""

    LIMITS = "limits"
    INTEREST = "interest"
    WORK_QUEUE = "workqueue"


class StorageType(Choices):
    """Where a stream keeps its messages; ``memory`` is lost when the server stops."""

    FILE = "file"
    MEMORY = "memory"


class DiscardPolicy(Choices):
    """What a full stream does: drop its oldest messages, or refuse new ones."""

    OLD = "old"
    NEW = "new"


class StoreCompression(Choices):
    """How a file stream is compressed on disk. Server 2.10 or later."""

    NONE = "none"
    S2 = "s2"


class PersistMode(Choices):
    """When a stream acknowledges: after writing, or (``async``, one replica only) before. Server 2.12.

    With ``async`` an acknowledged message can be lost in a crash, and batches are refused.
    """

    DEFAULT = "default"
    ASYNC = "async"


@dataclass
class Placement(Base):
    """Which servers may hold a stream.

    Parameters
    ----------
    cluster:
        Name of the cluster. Default: any.
    tags:
        Tags that a server must have, all of them. Default: none.
    preferred:
        Name of the server to lead, used by leader step-down requests. Default: any.
    """

    cluster: str | None = None
    tags: list[str] | None = None
    preferred: str | None = None


@dataclass
class ExternalStream(Base):
    """A stream of another account or domain.

    Parameters
    ----------
    api:
        API prefix of the other side, for example ``$JS.hub.API``.
    deliver:
        Prefix of the subjects that deliver here. Default: none.
    """

    api: str
    deliver: str | None = None


External = ExternalStream


@dataclass
class SubjectTransform(Base):
    """Rewrites the subjects of messages.

    Parameters
    ----------
    src:
        Subject pattern that applies, for example ``orders.*``.
    dest:
        What it becomes, for example ``archive.{{wildcard(1)}}``.
    """

    src: str
    dest: str


@dataclass
class StreamConsumerSource(Base):
    """A push consumer made beforehand, to source a work queue or interest stream through (ADR-60).

    Parameters
    ----------
    name:
        The consumer's name.
    deliver_subject:
        The subject it delivers to.
    """

    name: str
    deliver_subject: str


@dataclass
class StreamSource(Base):
    """Another stream that this one copies from.

    Parameters
    ----------
    name:
        The other stream's name.
    opt_start_seq:
        First sequence to copy. Default: all.
    opt_start_time:
        Copy from this time on; datetime (naive: local time) or RFC 3339 string. Default: all.
    filter_subject:
        Copy only these subjects. Default: all.
    external:
        Where the stream is, if in another account or domain. Default: here.
    subject_transforms:
        How to rewrite subjects on the way. Default: not.
    consumer:
        The consumer to use, for work queue and interest streams. Default: the server makes its own.
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


@dataclass
class RePublish(Base):
    """Publishes messages again, on another subject, once they are stored.

    Parameters
    ----------
    src:
        Which subjects. Default: all.
    dest:
        The subject to publish on; may use the source's wildcards.
    headers_only:
        Leave the data out. Default: no.
    """

    src: str | None = None
    dest: str | None = None
    headers_only: bool | None = None


@dataclass
class StreamConsumerLimits(Base):
    """Limits and defaults for the consumers of a stream. Server 2.10 or later.

    Parameters
    ----------
    inactive_threshold:
        Seconds (or a timedelta) after which an unused consumer is removed. Default: no limit.
    max_ack_pending:
        Most messages that one consumer may have unacknowledged. Default: no limit.
    """

    inactive_threshold: Duration = Duration()
    max_ack_pending: int | None = None


@dataclass
class StreamConfig(Base):
    """How a stream works. Durations are seconds or a timedelta; a number of 1e9 or more means nanoseconds.

    Parameters
    ----------
    name, description:
        Its name (letters, digits, ``-`` and ``_``), and a text for people.
    subjects:
        What it stores; wildcards allowed. Default: its name; none for a mirror.
    retention:
        When messages go. Default: at the limits.
    max_consumers, max_msgs, max_bytes, max_age, max_msgs_per_subject, max_msg_size:
        Limits; -1 (for ``max_age``, seconds, 0) is none. Default: none.
    discard, discard_new_per_subject:
        What to do at a limit, default ``old``; with ``new``, whether ``max_msgs_per_subject`` refuses too.
    storage, num_replicas, placement, compression, persist_mode:
        Where and how messages are kept. Default: file, 1 replica, anywhere, not compressed, written first.
    no_ack:
        Publishes are not acknowledged. Default: False.
    template_owner:
        For nats-py's sake; servers no longer know it.
    duplicate_window:
        Seconds in which a message id is remembered. Default: 0, the server's default of two minutes.
    mirror, sources:
        The stream it copies; the streams it gathers. Default: none.
    sealed, deny_delete, deny_purge, allow_rollup_hdrs:
        Nothing may change any more; messages may not be deleted; not purged; a message may replace those
        before it. Default: False.
    first_seq:
        The first message's sequence. Default: 1.
    republish, subject_transform:
        What to publish again; how to rewrite subjects on the way in. Default: nothing.
    allow_direct, mirror_direct:
        Whether any replica, or a mirror, may answer single reads. Default: the server decides.
    allow_msg_ttl, subject_delete_marker_ttl:
        Whether messages may carry their own time to live (2.11); how many seconds a marker is left where the
        last message of a subject expired (2.11). Default: no, none.
    allow_msg_schedules, allow_atomic, allow_batched, allow_msg_counter:
        Whether it takes scheduled messages (2.12), atomic batches (2.12), fast batches (2.14), or is a
        counter (2.12). Default: no.
    metadata:
        Texts by name, for your own use. Default: none.
    consumer_limits:
        Limits for its consumers. Default: none.
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
    subjects: list[str] | None = None
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

    def as_dict(self) -> dict[str, object]:
        """Convert to what the server's API takes; see ``Base.as_dict``.

        Raises
        ------
        ValueError
            ``metadata`` is not a dict.
        """
        if self.metadata is not None and not isinstance(self.metadata, dict):
            raise ValueError(f"nats: metadata must be a dict of texts, not {type(self.metadata).__name__}")
        result = super().as_dict()
        # Unset durations go as 0, so that an update can take them back ...
        result.setdefault("max_age", 0)
        result.setdefault("duplicate_window", 0)
        # ... but here the server wants nothing at all.
        if (self.subject_delete_marker_ttl or 0) <= 0:
            result.pop("subject_delete_marker_ttl", None)
        return result

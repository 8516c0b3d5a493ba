"""State of streams. Public as `jetarrow.nats.jetstream.stream`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from jetarrow.nats.jetstream.stream_config import ExternalStreamSource, StreamConfig
from jetarrow.nats.jetstream.wire import Response


@dataclass
class LostStreamData(Response):
    """Messages that the server found damaged: their sequences and their size in bytes."""

    msgs: list[int] | None = None
    bytes: int | None = None


@dataclass
class StreamSourceInfo(Response):
    """Progress of copying from another stream.

    Attributes:
        name: The other stream's name.
        lag: Number of messages not copied yet.
        active: Nanoseconds since the last activity; -1: none yet.
        filter_subject: Subjects that are copied.
        external: The location of the other stream, in another account or domain.
        error: The server's error object, if copying fails.
        subject_transforms: Rewrites of subjects, as the server sends them.
    """

    name: str
    lag: int
    active: int
    filter_subject: str | None = None
    external: ExternalStreamSource | None = None
    error: dict[str, Any] | None = None
    subject_transforms: Any | None = None


@dataclass
class PeerInfo(Response):
    """A replica of a stream.

    Attributes:
        name: The server's name.
        current: Whether it has all messages.
        active: Nanoseconds since the leader heard from it.
        lag: Number of operations that it is behind.
        offline: Whether it is not connected.
        observer: Whether it cannot become the leader.
    """

    name: str
    current: bool
    active: float
    lag: int | None = None
    offline: bool | None = None
    observer: bool | None = None


@dataclass
class ClusterInfo(Response):
    """The replicas of a stream.

    Attributes:
        name: The cluster's name.
        leader: Name of the server that is the leader.
        replicas: The other servers.
        raft_group: Name of their Raft group.
    """

    name: str | None = None
    leader: str | None = None
    replicas: list[PeerInfo] | None = None
    raft_group: str | None = None


@dataclass
class StreamState(Response):
    """State of a stream.

    Attributes:
        messages: Number of messages.
        bytes: Their size in bytes.
        first_sequence: Sequence of the first message.
        last_sequence: Sequence of the last message.
        consumer_count: Number of consumers.
        first_ts: Time of the first message.
        last_ts: Time of the last message.
        deleted: Sequences of removed messages, if they were requested.
        num_deleted: Number of removed messages.
        lost: Damaged messages.
        subjects: Number of messages by subject, if subjects were requested.
        num_subjects: Number of subjects.
    """

    _keys: ClassVar[Mapping[str, str]] = {"first_sequence": "first_seq", "last_sequence": "last_seq"}

    messages: int
    bytes: int
    first_sequence: int
    last_sequence: int
    consumer_count: int
    first_ts: datetime | None = None
    last_ts: datetime | None = None
    deleted: list[int] | None = None
    num_deleted: int | None = None
    lost: LostStreamData | None = None
    subjects: dict[str, int] | None = None
    num_subjects: int | None = None


@dataclass
class StreamInfo(Response):
    """Configuration and state of a stream.

    Attributes:
        config: Its configuration.
        created: Time of its creation.
        state: Its state.
        cluster: Its replicas.
        mirror: Progress of the mirror, if it is one.
        sources: Progress of its sources.
        timestamp: Time of the response.
    """

    _keys: ClassVar[Mapping[str, str]] = {"timestamp": "ts"}
    _envelope: ClassVar[frozenset[str]] = frozenset({"type", "did_create", "alternates", "limit", "offset", "total"})

    config: StreamConfig
    created: datetime
    state: StreamState
    cluster: ClusterInfo | None = None
    mirror: StreamSourceInfo | None = None
    sources: list[StreamSourceInfo] | None = None
    timestamp: datetime | None = None

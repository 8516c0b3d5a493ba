"""Streams: state and information. Public as `jetarrow.js.api`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from jetarrow.jetstream import html
from jetarrow.jetstream.models.base import Base, Codec, Moment, Nested
from jetarrow.jetstream.models.streams import ExternalStream, StreamConfig, SubjectTransform
from jetarrow.jetstream.models.values import epoch_ns


@dataclass
class StreamSourceInfo(Base):
    """Progress of copying from another stream.

    Attributes:
        name: The other stream's name.
        lag: Number of messages not copied yet.
        active: Nanoseconds since the last activity; -1: none yet.
        error: The server's error object, if copying fails.
        external: The location of the other stream, as configured.
        filter_subject: Subjects that are copied, as configured.
        subject_transforms: Rewrites of subjects, as configured.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "external": Nested(ExternalStream),
        "subject_transforms": Nested(SubjectTransform),
    }

    name: str
    lag: int | None = None
    active: int | None = None
    error: dict[str, Any] | None = None
    external: ExternalStream | None = None
    filter_subject: str | None = None
    subject_transforms: list[SubjectTransform] | None = None


@dataclass
class LostStreamData(Base):
    """Messages that the server found damaged: their sequences and their bytes."""

    msgs: list[int] | None = None
    bytes: int | None = None


@dataclass
class StreamState(Base):
    """State of a stream.

    Attributes:
        messages: Number of messages.
        bytes: Their size in bytes.
        first_seq: Sequence of the first message; in an empty stream `last_seq` + 1.
        last_seq: Sequence of the last message.
        consumer_count: Number of consumers.
        deleted: Sequences of deleted messages between first and last; requested with `deleted_details`.
        num_deleted: Number of deleted messages between first and last.
        lost: Damaged messages.
        subjects: Number of messages by subject; requested with `subjects_filter`.
        num_subjects: Number of subjects.
        first_ts: Time at which the first message was stored; year 1 in an empty stream.
        last_ts: Time at which the last message was stored; year 1 in an empty stream. `last_ns` has all digits.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "lost": Nested(LostStreamData),
        "first_ts": Moment(),
        "last_ts": Moment(),
    }

    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    consumer_count: int
    deleted: list[int] | None = None
    num_deleted: int | None = None
    lost: LostStreamData | None = None
    subjects: dict[str, int] | None = None
    num_subjects: int | None = None
    first_ts: datetime | None = None
    last_ts: datetime | None = None

    @property
    def last_ns(self) -> int | None:
        """Time at which the last message was stored, in nanoseconds since 1970; None in an empty stream."""
        raw = self._raw_time("last_ts") if self.messages else None
        return None if raw is None else epoch_ns(raw)


@dataclass
class PeerInfo(Base):
    """A replica: its name, whether it is up to date and online, nanoseconds since its last activity, and its lag."""

    name: str | None = None
    current: bool | None = None
    offline: bool | None = None
    active: int | None = None
    lag: int | None = None
    peer: str | None = None
    observer: bool | None = None


@dataclass
class ClusterInfo(Base):
    """The leader of a stream or consumer, the time of its election, and the other replicas."""

    _codecs: ClassVar[dict[str, Codec]] = {"replicas": Nested(PeerInfo), "leader_since": Moment()}
    _wire: ClassVar[dict[str, str]] = {"traffic_acc": "traffic_account"}

    leader: str | None = None
    name: str | None = None
    replicas: list[PeerInfo] | None = None
    raft_group: str | None = None
    leader_since: datetime | None = None
    traffic_acc: str | None = None
    system_account: bool | None = None


@dataclass
class StreamAlternate(Base):
    """A mirror that can be read instead, nearest first: its name, domain and cluster."""

    name: str
    domain: str | None = None
    cluster: str | None = None


@dataclass
class StreamInfo(Base):
    """Configuration and state of a stream.

    Attributes:
        config: Its configuration.
        state: Its state.
        mirror: Progress of copying, if it is a mirror.
        sources: Progress of copying, if it has sources.
        cluster: Leader and replicas.
        did_create: Whether the request created it.
        created: Time of its creation, UTC, in microseconds; `created_raw` and `created_ns` have all digits.
        ts: The server's time of this response.
        alternates: Mirrors that can be read instead.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "config": Nested(StreamConfig),
        "state": Nested(StreamState),
        "mirror": Nested(StreamSourceInfo),
        "sources": Nested(StreamSourceInfo),
        "cluster": Nested(ClusterInfo),
        "created": Moment(),
        "ts": Moment(),
        "alternates": Nested(StreamAlternate),
    }

    config: StreamConfig
    state: StreamState
    mirror: StreamSourceInfo | None = None
    sources: list[StreamSourceInfo] | None = None
    cluster: ClusterInfo | None = None
    did_create: bool | None = None
    created: datetime | None = None
    # Two responses that differ only in their time are equal.
    ts: datetime | None = field(default=None, compare=False)
    alternates: list[StreamAlternate] | None = None

    @property
    def created_raw(self) -> str | None:
        """Time of creation, as RFC 3339 text with all digits; a stream that is created again has another one."""
        return self._raw_time("created")

    @property
    def created_ns(self) -> int | None:
        """Time of creation, in nanoseconds since 1970."""
        raw = self.created_raw
        return None if raw is None else epoch_ns(raw)

    def _repr_html_(self) -> str:
        config, state = self.config, self.state
        said = {
            "subjects": ", ".join(config.subjects or ()) or None,
            "messages": f"{state.messages:,}",
            "bytes": f"{state.bytes:,}",
            "sequences": f"{state.first_seq:,} to {state.last_seq:,}",
            "consumers": state.consumer_count,
            "retention": config.retention,
            "storage": config.storage,
            "replicas": config.num_replicas,
            "created": self.created,
        }
        return html.facts(f"Stream {config.name}", said)


class StreamsListIterator:
    """Iterates over one page of a stream list.

    Args:
        offset: Number of streams before this page.
        total: Number of all streams.
        streams: The server's objects of this page.
    """

    def __init__(self, offset: int, total: int, streams: list[Mapping[str, Any]]) -> None:
        self.offset = offset
        self.total = total
        self.streams = streams
        self._left = iter(streams)

    def __iter__(self) -> Iterator[StreamInfo]:
        return self

    def __next__(self) -> StreamInfo:
        return StreamInfo.from_response(next(self._left))

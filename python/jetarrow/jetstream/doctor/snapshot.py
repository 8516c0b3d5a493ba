"""Facts of a diagnosis, gathered once; the rules read them without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from jetarrow.jetstream import models


@dataclass(frozen=True)
class Clock:
    """Bounds of a server's clock minus the client's, in seconds, from the times before and after a request."""

    low: float
    high: float


@dataclass(frozen=True)
class AckTimes:
    """Measurement of a consumer's acknowledgements.

    Attributes:
        later: The consumer at the end of the measurement.
        elapsed: Duration of the measurement, in seconds.
        samples: Number of acknowledgements that the server reported, for a consumer with `sample_freq`.
        slowest: The longest reported time between delivery and acknowledgement, in seconds.
    """

    later: models.ConsumerInfo
    elapsed: float
    samples: int = 0
    slowest: float = 0.0


@dataclass(frozen=True)
class ConsumerFacts:
    """A consumer.

    Attributes:
        info: Its configuration and state.
        behind: Age of its oldest unprocessed message; 0 without one, None if it is unknown.
        acks: Measurement of its acknowledgements; None if it was not made.
    """

    info: models.ConsumerInfo
    behind: timedelta | None = timedelta(0)
    acks: AckTimes | None = None


@dataclass(frozen=True)
class StreamFacts:
    """A stream with its consumers.

    Attributes:
        info: Its configuration and state.
        consumers: Its consumers.
        subjects: Number of messages by subject, if the stream rejects messages by subject; otherwise empty.
        failure: The error of the request for its subjects or consumers; empty without one.
    """

    info: models.StreamInfo
    consumers: tuple[ConsumerFacts, ...] = ()
    subjects: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True)
class Usage:
    """Use of one resource: bytes used, bytes reserved by `max_bytes` of streams, and the limit (0: no limit)."""

    used: int = 0
    reserved: int = 0
    limit: int = 0


@dataclass(frozen=True)
class ServerFacts:
    """A server, as the system account sees it.

    Attributes:
        name: Its name.
        version: Its version.
        clock: Its clock.
        uptime: Its uptime, as the server formats it.
        jetstream: Whether JetStream is enabled.
        api_level: Its JetStream API level; None if it has none.
        sync_interval: Seconds between two flushes of the files to disk.
        sync_always: Whether each write is flushed.
        file: Use of file storage.
        memory: Use of memory storage.
        slow: Number of slow consumers since its start, by kind of connection.
        certificates: Expiry of its TLS certificates, by listener.
        late_peers: Members of its JetStream cluster that are offline or not current.
        has_meta_leader: Whether the JetStream cluster has a leader; True without a cluster.
    """

    name: str
    version: str
    clock: Clock = Clock(0.0, 0.0)
    uptime: str = ""
    jetstream: bool = True
    api_level: int | None = None
    sync_interval: float | None = None
    sync_always: bool = False
    file: Usage = Usage()
    memory: Usage = Usage()
    slow: Mapping[str, int] = field(default_factory=dict)
    certificates: Mapping[str, datetime] = field(default_factory=dict)
    late_peers: frozenset[str] = frozenset()
    has_meta_leader: bool = True


@dataclass(frozen=True)
class Snapshot:
    """Facts of a diagnosis.

    Attributes:
        now: Time of the client, UTC.
        server: Name of the connected server.
        version: Its version.
        clustered: Whether the connected server is in a cluster.
        clock: Clock of the server that answered.
        streams: The streams.
        missing: Streams for which no server answered, by name.
        offline: Streams and consumers that a server keeps offline, with its reason.
        unavailable: The error of a cluster without a leader; empty if it has one.
        is_whole_account: Whether `streams` has all streams of the account.
        account: Usage and limits of the account; None if it is unknown.
        servers: All servers; None without the system account.
    """

    now: datetime
    server: str = ""
    version: str = ""
    clustered: bool = False
    clock: Clock = Clock(0.0, 0.0)
    streams: tuple[StreamFacts, ...] = ()
    missing: tuple[str, ...] = ()
    offline: Mapping[str, str] = field(default_factory=dict)
    unavailable: str = ""
    is_whole_account: bool = False
    account: models.AccountInfo | None = None
    servers: tuple[ServerFacts, ...] | None = None

"""Servers: identity, statistics, state, health."""

# ruff: noqa: RUF009  # Duration is a descriptor, not a shared mutable default

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from jetarrow.jetstream.models.account import APIStats
from jetarrow.jetstream.models.base import Base, Codec, Duration, Moment, Nested
from jetarrow.jetstream.models.stream_info import PeerInfo


@dataclass
class ServerInfo(Base):
    """Identity of a server.

    Attributes:
        name: Its name; the id if the configuration has no `server_name`.
        id: Its id, which changes with every start.
        host: The address that it listens on.
        version: Its version.
        cluster: Name of its cluster. Default: none.
        domain: Its JetStream domain. Default: none.
        tags: Tags of the configuration. Default: none.
        metadata: Metadata of the configuration. Default: none.
        jetstream: Whether JetStream is enabled.
        time: Its clock when it answered, UTC.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"time": Moment()}
    _wire: ClassVar[dict[str, str]] = {"version": "ver"}

    name: str = ""
    id: str = ""
    host: str = ""
    version: str = ""
    cluster: str | None = None
    domain: str | None = None
    tags: list[str] | None = None
    metadata: dict[str, str] | None = None
    jetstream: bool = False
    time: datetime | None = None


@dataclass
class DataStats(Base):
    """Counters of messages and their bytes."""

    msgs: int = 0
    bytes: int = 0


@dataclass
class SlowConsumerStats(Base):
    """Connections that were closed because they read too slowly, since the start, by kind."""

    clients: int = 0
    routes: int = 0
    gateways: int = 0
    leafs: int = 0


@dataclass
class JetStreamServerConfig(Base):
    """Configuration of JetStream on a server.

    Attributes:
        max_memory: Maximum bytes of streams in memory.
        max_storage: Maximum bytes of streams in files.
        store_dir: Folder of the files; None in the response to `ping`.
        sync_interval: Seconds between two syncs of written data to disk.
        sync_always: Whether each write is synced to disk before its acknowledgement.
        domain: The JetStream domain. Default: none.
    """

    max_memory: int | None = None
    max_storage: int | None = None
    store_dir: str | None = None
    sync_interval: Duration = Duration()
    sync_always: bool = False
    domain: str | None = None


@dataclass
class JetStreamServerStats(Base):
    """Usage of JetStream on a server. Sizes in bytes.

    Attributes:
        memory: Used memory.
        storage: Used bytes of files.
        reserved_memory: Memory reserved by the `max_bytes` of streams.
        reserved_storage: Bytes of files reserved by the `max_bytes` of streams.
        accounts: Number of accounts with JetStream.
        ha_assets: Number of replicated streams and consumers with a replica on the server.
        api: Counters of API requests.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"api": Nested(APIStats)}

    memory: int = 0
    storage: int = 0
    reserved_memory: int | None = None
    reserved_storage: int | None = None
    accounts: int = 0
    ha_assets: int = 0
    api: APIStats | None = None


@dataclass
class MetaCluster(Base):
    """The group of servers that manages JetStream's streams and consumers.

    Attributes:
        name: Name of the cluster.
        leader: Name of the leading server; None without a leader.
        peer: Id of the leader in the group.
        replicas: The other members, which only the leader lists completely.
        cluster_size: Number of members.
        pending: Number of requests in the leader's queues.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"replicas": Nested(PeerInfo)}

    name: str | None = None
    leader: str | None = None
    peer: str | None = None
    replicas: list[PeerInfo] | None = None
    cluster_size: int | None = None
    pending: int | None = None


@dataclass
class JetStreamState(Base):
    """JetStream of a server, in the responses to `varz` and `ping`; without `config` if it is disabled."""

    _codecs: ClassVar[dict[str, Codec]] = {
        "config": Nested(JetStreamServerConfig),
        "stats": Nested(JetStreamServerStats),
        "meta": Nested(MetaCluster),
    }

    config: JetStreamServerConfig | None = None
    stats: JetStreamServerStats | None = None
    meta: MetaCluster | None = None


@dataclass
class ServerStats(Base):
    """Response to `ping`: statistics of a server.

    Attributes:
        start: Time of its start, UTC.
        mem: Resident memory in bytes.
        cores: Number of processors.
        cpu: Percentage of one processor.
        connections: Number of client connections.
        total_connections: Number of client connections since the start.
        active_accounts: Number of accounts with connections.
        subscriptions: Number of subscriptions.
        sent: Sent messages, those to other servers included.
        received: Received messages, those from other servers included.
        slow_consumers: Number of connections that were closed because they read too slowly.
        slow_consumer_stats: The same by kind of connection.
        active_servers: Number of servers that the server knows, itself included.
        routes: Connections to the other servers of the cluster, as the server sent them.
        gateways: Connections to other clusters, as the server sent them.
        jetstream: JetStream of the server; None if it is disabled.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "start": Moment(),
        "sent": Nested(DataStats),
        "received": Nested(DataStats),
        "slow_consumer_stats": Nested(SlowConsumerStats),
        "jetstream": Nested(JetStreamState),
    }

    start: datetime | None = None
    mem: int = 0
    cores: int = 0
    cpu: float = 0.0
    connections: int = 0
    total_connections: int = 0
    active_accounts: int = 0
    subscriptions: int = 0
    sent: DataStats | None = None
    received: DataStats | None = None
    slow_consumers: int = 0
    slow_consumer_stats: SlowConsumerStats | None = None
    active_servers: int | None = None
    routes: list[dict[str, Any]] | None = None
    gateways: list[dict[str, Any]] | None = None
    jetstream: JetStreamState | None = None


@dataclass
class Varz(Base):
    """Response to `varz`: configuration and state of a server.

    Attributes:
        server_id: Its id.
        server_name: Its name.
        version: Its version.
        host: The address that it listens on.
        port: The port for clients.
        start: Time of its start, UTC.
        now: Its clock, UTC.
        uptime: Duration since the start, as text: `1h2m3s`.
        mem: Resident memory in bytes.
        cores: Number of processors.
        cpu: Percentage of one processor.
        connections: Number of client connections.
        total_connections: Number of client connections since the start.
        max_connections: Maximum number of client connections.
        max_payload: Maximum bytes of a message.
        routes: Number of connections to other servers of the cluster.
        leafnodes: Number of leaf node connections.
        subscriptions: Number of subscriptions.
        in_msgs: Number of received messages.
        out_msgs: Number of sent messages.
        in_bytes: Their bytes, received.
        out_bytes: Their bytes, sent.
        slow_consumers: Number of connections that were closed because they read too slowly.
        slow_consumer_stats: The same by kind of connection.
        auth_required: Whether clients must authenticate.
        tls_required: Whether clients must use TLS.
        config_load_time: Time of the last load of the configuration, UTC.
        system_account: Name of the system account.
        cluster: Configuration of the cluster, as the server sent it.
        jetstream: JetStream of the server; without `config` if it is disabled.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "start": Moment(),
        "now": Moment(),
        "config_load_time": Moment(),
        "slow_consumer_stats": Nested(SlowConsumerStats),
        "jetstream": Nested(JetStreamState),
    }

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    host: str = ""
    port: int | None = None
    start: datetime | None = None
    now: datetime | None = None
    uptime: str = ""
    mem: int = 0
    cores: int = 0
    cpu: float = 0.0
    connections: int = 0
    total_connections: int = 0
    max_connections: int | None = None
    max_payload: int | None = None
    routes: int = 0
    leafnodes: int = 0
    subscriptions: int = 0
    in_msgs: int = 0
    out_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    slow_consumers: int = 0
    slow_consumer_stats: SlowConsumerStats | None = None
    auth_required: bool = False
    tls_required: bool = False
    config_load_time: datetime | None = None
    system_account: str | None = None
    cluster: dict[str, Any] | None = None
    jetstream: JetStreamState | None = None


@dataclass
class HealthzError(Base):
    """One cause of a failed health check: its type, and the stream or consumer."""

    type: str | None = None
    account: str | None = None
    stream: str | None = None
    consumer: str | None = None
    error: str | None = None


@dataclass
class Healthz(Base):
    """Response to `healthz`: whether a server and its streams are healthy.

    Attributes:
        status: "ok", "unavailable" or "error".
        status_code: The code that the HTTP endpoint sends.
        error: The first cause. Default: none.
        errors: All causes, requested with `details`.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"errors": Nested(HealthzError)}

    status: str = ""
    status_code: int | None = None
    error: str | None = None
    errors: list[HealthzError] | None = None

    @property
    def ok(self) -> bool:
        """Whether the server is healthy."""
        return self.status == "ok"

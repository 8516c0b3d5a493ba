"""Connections of a server: clients, routes, gateways, leaf nodes, and their subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from jetarrow.jetstream.models.base import Base, Codec, Moment, Nested


@dataclass
class SubDetail(Base):
    """A subscription.

    Attributes:
        subject: Its subject.
        sid: Its id in the connection.
        cid: Id of the connection.
        msgs: Number of delivered messages.
        max: Number of messages after which it ends; None has no limit.
        qgroup: Its queue group. Default: none.
        account: Its account, if it was requested.
    """

    subject: str = ""
    sid: str = ""
    cid: int = 0
    msgs: int = 0
    max: int | None = None
    qgroup: str | None = None
    account: str | None = None


@dataclass
class ConnInfo(Base):
    """A client connection. Durations are the server's texts, such as `1m2s` or `374µs`.

    Attributes:
        cid: Its id on the server.
        name: Name of the client. Default: none.
        kind: `Client` or `Leafnode`.
        type: `nats`, `websocket` or `mqtt`.
        ip: The client's address.
        port: The client's port.
        start: Time of the connection, UTC.
        last_activity: Time of the last message or request, UTC.
        stop: Time of the end; None while it is open.
        reason: Reason of the end; None while it is open.
        rtt: Round trip time.
        uptime: Duration of the connection.
        idle: Duration since the last activity.
        pending_bytes: Bytes that the client has not read yet.
        in_msgs: Number of messages from the client.
        out_msgs: Number of messages to the client.
        in_bytes: Bytes from the client.
        out_bytes: Bytes to the client.
        stalls: Number of times that its publishes were delayed by a slow consumer.
        subscriptions: Number of subscriptions.
        lang: Programming language of the client library.
        version: Version of the client library.
        account: Its account, requested with `auth`.
        authorized_user: Its user, requested with `auth`.
        tls_version: Version of TLS. Default: no TLS.
        subscriptions_list: Its subjects, requested with `subscriptions`.
        subscriptions_list_detail: Its subscriptions, requested with `subscriptions_detail`.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "start": Moment(),
        "last_activity": Moment(),
        "stop": Moment(),
        "subscriptions_list_detail": Nested(SubDetail),
    }

    cid: int = 0
    name: str | None = None
    kind: str | None = None
    type: str | None = None
    ip: str = ""
    port: int = 0
    start: datetime | None = None
    last_activity: datetime | None = None
    stop: datetime | None = None
    reason: str | None = None
    rtt: str | None = None
    uptime: str = ""
    idle: str = ""
    pending_bytes: int = 0
    in_msgs: int = 0
    out_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    stalls: int = 0
    subscriptions: int = 0
    lang: str | None = None
    version: str | None = None
    account: str | None = None
    authorized_user: str | None = None
    tls_version: str | None = None
    subscriptions_list: list[str] | None = None
    subscriptions_list_detail: list[SubDetail] | None = None


@dataclass
class Connz(Base):
    """Response to `connz`: the connections of a server.

    Attributes:
        now: The server's clock, UTC.
        num_connections: Number of listed connections.
        total: Number of connections that match.
        offset: Number of connections before the first one.
        connections: The connections.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"now": Moment(), "connections": Nested(ConnInfo)}

    now: datetime | None = None
    num_connections: int = 0
    total: int = 0
    offset: int = 0
    limit: int = 0
    connections: list[ConnInfo] | None = None


@dataclass
class Subsz(Base):
    """Response to `subsz`: the subscriptions of a server.

    Attributes:
        now: The server's clock, UTC.
        num_subscriptions: Number of subscriptions.
        num_cache: Number of subjects in the cache.
        cache_hit_rate: Share of the lookups that the cache answered.
        max_fanout: Largest number of subscriptions that matched one subject.
        avg_fanout: Mean number of subscriptions that match one subject.
        total: Number of subscriptions that match the options.
        offset: Number of subscriptions before the first one.
        subscriptions_list: The subscriptions, requested with `subscriptions`.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"now": Moment(), "subscriptions_list": Nested(SubDetail)}

    now: datetime | None = None
    num_subscriptions: int = 0
    num_cache: int = 0
    cache_hit_rate: float | None = None
    max_fanout: int | None = None
    avg_fanout: float | None = None
    total: int = 0
    offset: int = 0
    limit: int = 0
    subscriptions_list: list[SubDetail] | None = None


@dataclass
class RouteInfo(Base):
    """A connection to another server of the cluster; several connect two servers.

    Attributes:
        rid: Its id on the server.
        remote_id: Id of the other server.
        remote_name: Name of the other server.
        ip: Address of the other server.
        port: Port of the other server.
        rtt: Round trip time, as text.
        uptime: Duration of the connection, as text.
        idle: Duration since the last activity, as text.
        pending_size: Bytes that the other server has not read yet.
        in_msgs: Number of received messages.
        out_msgs: Number of sent messages.
        in_bytes: Their bytes, received.
        out_bytes: Their bytes, sent.
        subscriptions: Number of subscriptions of the other server.
        account: The account that the connection is reserved for. Default: none.
        subscriptions_list: The other server's subjects, requested with `subscriptions`.
    """

    rid: int = 0
    remote_id: str = ""
    remote_name: str = ""
    ip: str = ""
    port: int = 0
    rtt: str | None = None
    uptime: str = ""
    idle: str = ""
    pending_size: int = 0
    in_msgs: int = 0
    out_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    subscriptions: int = 0
    account: str | None = None
    subscriptions_list: list[str] | None = None


@dataclass
class Routez(Base):
    """Response to `routez`: the connections to the other servers of the cluster."""

    _codecs: ClassVar[dict[str, Codec]] = {"now": Moment(), "routes": Nested(RouteInfo)}

    now: datetime | None = None
    num_routes: int = 0
    routes: list[RouteInfo] | None = None


@dataclass
class Gatewayz(Base):
    """Response to `gatewayz`: the connections to other clusters, as the server sent them."""

    _codecs: ClassVar[dict[str, Codec]] = {"now": Moment()}

    now: datetime | None = None
    name: str | None = None
    host: str | None = None
    port: int | None = None
    outbound_gateways: dict[str, Any] | None = None
    inbound_gateways: dict[str, Any] | None = None


@dataclass
class LeafInfo(Base):
    """A connection to a leaf node.

    Attributes:
        name: Name of the other server.
        account: Its account here.
        ip: Address of the other server.
        port: Port of the other server.
        rtt: Round trip time, as text.
        in_msgs: Number of received messages.
        out_msgs: Number of sent messages.
        in_bytes: Their bytes, received.
        out_bytes: Their bytes, sent.
        subscriptions: Number of subscriptions of the other server.
    """

    name: str | None = None
    account: str | None = None
    ip: str = ""
    port: int = 0
    rtt: str | None = None
    in_msgs: int = 0
    out_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    subscriptions: int = 0


@dataclass
class Leafz(Base):
    """Response to `leafz`: the connections to leaf nodes."""

    _codecs: ClassVar[dict[str, Codec]] = {"now": Moment(), "leafs": Nested(LeafInfo)}

    now: datetime | None = None
    leafnodes: int = 0
    leafs: list[LeafInfo] | None = None

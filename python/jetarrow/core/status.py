"""Status: the properties and counters of a client."""

from __future__ import annotations

import functools
import ssl
from typing import Any, NamedTuple
from urllib.parse import ParseResult, urlparse

from jetarrow import _jetarrow
from jetarrow.core.errors import Error
from jetarrow.core.nuid import NUID
from jetarrow.core.options import DEFAULT_INBOX_PREFIX
from jetarrow.core.servers import Server, ServerVersion, Srv
from jetarrow.core.session import Session
from jetarrow.core.weak_sets import members

# Used until a server has announced its `max_payload`.
DEFAULT_MAX_PAYLOAD_SIZE = 1024 * 1024
_NO_STATS = ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "reconnects", "errors_received")


class AckLatency(NamedTuple):
    """Histogram of ack latencies, returned by `Status.ack_latency`."""

    #: Pairs of upper bound in seconds (microseconds times a power of two) and number of acks above the previous bound.
    counts: tuple[tuple[float, int], ...]
    #: Number of acks above the last bound.
    beyond: int
    #: Sum of all latencies in seconds.
    total: float


class Status:
    """The properties and counters of a client, async or sync."""

    DISCONNECTED = 0
    CONNECTED = 1
    CLOSED = 2
    RECONNECTING = 3
    CONNECTING = 4
    DRAINING_SUBS = 5
    DRAINING_PUBS = 6

    _session: Session

    def _any_connection(self) -> _jetarrow.Connection | None:
        """The connection, also if it is closed; None before `connect`."""
        return self._session.connection or self._session.last_connection

    @property
    def _status(self) -> int:
        session, connection = self._session, self._any_connection()
        if session.is_closed:
            return self.CLOSED
        if session.draining:
            return self.DRAINING_SUBS if session.draining == "subs" else self.DRAINING_PUBS
        if session.connecting:
            return self.CONNECTING
        if connection is None:
            return self.DISCONNECTED
        return self.CONNECTED if connection.is_connected else self.RECONNECTING

    @property
    def is_connected(self) -> bool:
        """Whether the client is connected to a server."""
        return self._status == self.CONNECTED or self.is_draining

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed: by `close()`, or after the last reconnect attempt."""
        return self._status == self.CLOSED

    @property
    def is_connecting(self) -> bool:
        """Whether `connect()` is in progress."""
        return self._status == self.CONNECTING

    @property
    def is_reconnecting(self) -> bool:
        """Whether the client is disconnected and reconnecting."""
        return self._status == self.RECONNECTING

    @property
    def is_draining(self) -> bool:
        """Whether `drain()` is in progress."""
        return self._status in (self.DRAINING_SUBS, self.DRAINING_PUBS)

    @property
    def is_draining_pubs(self) -> bool:
        """Whether `drain()` has drained the subscriptions and flushes queued messages."""
        return self._status == self.DRAINING_PUBS

    @property
    def last_error(self) -> Exception | None:
        """The last error that no call raised, or that `connect()` raised."""
        return self._session.last_error

    @property
    def connected_url(self) -> ParseResult | None:
        """The address of the server, without user and password; None while disconnected."""
        connection = self._any_connection()
        url = None if connection is None else connection.connected_url
        return None if url is None else urlparse(url)

    @property
    def servers(self) -> list[ParseResult]:
        """The addresses of all servers in the pool, without user and password."""
        return [urlparse(server.url) for server in self._servers()]

    @property
    def discovered_servers(self) -> list[ParseResult]:
        """The addresses in the pool that servers have announced (gossip)."""
        return [urlparse(server.url) for server in self._servers() if server.discovered]

    @property
    def server_pool(self) -> list[Server]:
        """All servers in the pool, with their failed attempts since the last connection."""
        return [Server(urlparse(server.url), server.failures) for server in self._servers()]

    def _servers(self) -> list[_jetarrow.PoolServer]:
        connection = self._any_connection()
        return [] if connection is None else connection.servers

    # Private attributes of nats-py that existing programs read.

    @property
    def _server_info(self) -> dict[str, Any]:
        connection = self._any_connection()
        return {} if connection is None else connection.server_info

    @property
    def _current_server(self) -> Srv | None:
        connection = self._any_connection()
        url = None if connection is None else connection.connected_url
        if connection is None or url is None:
            return None
        known = next((server for server in connection.servers if server.url == url), None)
        return Srv(
            urlparse(url),
            reconnects=0 if known is None else known.failures,
            did_connect=True,
            discovered=known is not None and known.discovered,
            server_version=connection.server_version,
        )

    @property
    def _inbox_prefix(self) -> bytearray:
        given = self._session.options.get("inbox_prefix", DEFAULT_INBOX_PREFIX)
        return bytearray(given.encode() if isinstance(given, str) else given)

    @functools.cached_property
    def _nuid(self) -> NUID:
        return NUID()

    @property
    def options(self) -> dict[str, Any]:
        """The options of `connect`, without secrets."""
        return self._session.options

    @property
    def max_payload(self) -> int:
        """The server's limit for one message, headers included, in bytes."""
        connection = self._any_connection()
        return DEFAULT_MAX_PAYLOAD_SIZE if connection is None else connection.max_payload

    @property
    def client_id(self) -> int | None:
        """The server's id of this connection; None without a connection."""
        connection = self._any_connection()
        return None if connection is None or connection.is_closed else connection.client_id

    @property
    def client_ip(self) -> str | None:
        """The client's IP address as the server reports it; None without a connection."""
        connection = self._any_connection()
        return None if connection is None or connection.is_closed else connection.client_ip

    @property
    def connected_server_version(self) -> ServerVersion:
        """The version of the current server, or of the last one."""
        connection = self._any_connection()
        version = "" if connection is None else connection.server_version
        return ServerVersion(version or "0.0.0-unknown")

    @property
    def pending_data_size(self) -> int:
        """Bytes of published messages and requests that are queued and not yet written to the socket."""
        connection = self._any_connection()
        return 0 if connection is None else connection.pending_bytes

    @property
    def stats(self) -> dict[str, int]:
        """Counters: in_msgs, out_msgs, in_bytes and out_bytes (payloads only), reconnects, errors_received."""
        connection = self._any_connection()
        return dict.fromkeys(_NO_STATS, 0) if connection is None else connection.stats

    def metrics(self) -> dict[str, int]:
        """Reads the native counters of this client; `jetarrow.metrics` exports them to Prometheus.

        Returns:
            The counters of `stats`: in_msgs, out_msgs, in_bytes, out_bytes, reconnects, errors_received. queue_bytes:
            bytes queued and not yet written. in_flight and in_flight_bytes: unacknowledged messages of `publish_batch`,
            `publish_async`, publishers and the async `js.publish`. resent: messages resent after a reconnect or a 503
            No Responders. dropped: messages dropped because a subscription's buffer was full. connected: 1 or 0.
        """
        connection = self._any_connection()
        resent, dropped = (0, 0) if connection is None else connection.troubles()
        unanswered = [publisher.unanswered() for publisher in members(self._session.publishers)]
        if connection is not None:
            unanswered.append(connection.flying())
        return {
            **self.stats,
            "queue_bytes": self.pending_data_size,
            "in_flight": sum(messages for messages, _ in unanswered),
            "in_flight_bytes": sum(size for _, size in unanswered),
            "resent": resent,
            "dropped": dropped,
            "connected": int(self.is_connected),
        }

    def metrics_by_verb(self) -> dict[str, dict[str, int]]:
        """Reads the native counters of each verb of this client.

        Returns:
            in_msgs, out_msgs, in_bytes and out_bytes (payloads only), and resent, by verb. Empty before the first
            connection. The verbs: `publish` (core messages and replies), `request` (JetStream API requests included),
            `publisher` (`js.publish`, `publish_async`, publishers, and their acks), `publish_batch` (with its acks),
            `subscribe` (push consumers included), `fetch` (pull consumers), `read`, and `ack` (acks of consumed
            messages).
        """
        connection = self._any_connection()
        return {} if connection is None else connection.moved()

    def ack_latency(self) -> AckLatency:
        """Returns the histogram of ack latencies, recorded natively for each published message.

        The latency is the time from the first enqueueing of a message until its ack is read. It is recorded for
        `publish_async`, publishers, `publish_batch` in mode "window" and the async `js.publish`.
        """
        connection = self._any_connection()
        if connection is None:
            return AckLatency((), 0, 0.0)
        bounded, beyond, total = connection.ack_latency()
        return AckLatency(tuple(bounded), beyond, total)

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """The context passed as `tls`, or a default context.

        Raises:
            Error: `tls` is a `jetarrow.TLS`.
        """
        tls = self._session.tls
        if tls is None:
            return ssl.create_default_context()
        if not isinstance(tls, ssl.SSLContext):
            raise Error("nats: no ssl context provided: tls is a jetarrow.TLS; pass an ssl.SSLContext to connect")
        return tls
